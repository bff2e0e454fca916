package cdc

import (
	"encoding/base64"
	"encoding/binary"
)

// SplitKeyValue takes a message of Pulsar's KeyValue schema in its inline encoding apart: the length of the key as four bytes, big
// endian, -1 for null, the key, and the same of the value. ok is false where the lengths do not fit exactly; then the message is of
// another kind. The parts share their memory with it. (In the separated encoding the value is the message itself, and the key is the
// message's key, in base64.)
func SplitKeyValue(message []byte) (key, value []byte, ok bool) {
	key, rest, ok := cutPart(message)
	if !ok {
		return nil, nil, false
	}
	value, rest, ok = cutPart(rest)
	if !ok || len(rest) > 0 {
		return nil, nil, false
	}
	return key, value, true
}

func cutPart(b []byte) (part, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n, rest := int32(binary.BigEndian.Uint32(b)), b[4:]
	if n == -1 {
		return nil, rest, true
	}
	if n < 0 || int64(n) > int64(len(rest)) {
		return nil, nil, false
	}
	return rest[:n:n], rest[n:], true
}

// appendUnbase64 appends the content of a key that is base64 of a JSON object, as Pulsar IO's Debezium sources send it. Such a text
// begins with e, since the object begins with a brace.
func appendUnbase64(buffer []byte, key string) ([]byte, bool) {
	if len(key) < 4 || len(key)%4 != 0 || key[0] != 'e' {
		return buffer, false
	}
	out, err := base64.StdEncoding.AppendDecode(buffer, []byte(key))
	return out, err == nil && out[len(buffer)] == '{'
}
