package cdc

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// DefaultPlaceholder is what Debezium writes in place of a value that Postgres did not log, unless its setting
// unavailable.value.placeholder says otherwise.
const DefaultPlaceholder = "__debezium_unavailable_value"

// placeholder recognizes the unavailable value in all the forms that Debezium gives it: the text itself, its bytes in base64 or hex
// for bytea, {"P":"P"} for hstore as JSON text or as a map, arrays of one such element, arrays of its bytes as numbers (integers and
// dates), and an array of the UUID that is derived from it.
type placeholder struct {
	// texts are the forms of a string, quoted as JSON: compared with the wire bytes.
	texts []string
	// loose is set if a serializer could quote texts otherwise: then strings with escapes are resolved before the comparison.
	loose bool
	uuid  string
	octet []byte
	// shortest is the length of the shortest of texts.
	shortest int
	// longest bounds the wire form of arrays and objects that are worth a look.
	longest int
}

// newPlaceholder takes the setting unavailable.value.placeholder: a text, or "hex:" and octets.
func newPlaceholder(setting string) (*placeholder, error) {
	octets := []byte(setting)
	if digits, ok := strings.CutPrefix(setting, "hex:"); ok {
		var err error
		if octets, err = hex.DecodeString(digits); err != nil {
			return nil, errors.New("cdc: Options.Placeholder: want hex digits behind the prefix hex")
		}
	}
	if len(octets) == 0 {
		return nil, errors.New("cdc: Options.Placeholder is empty")
	}
	p := &placeholder{octet: octets, uuid: strconv.Quote(nameUUID(octets))}
	text := string(octets)
	forms := []string{
		text, fmt.Sprintf("{%q:%q}", text, text),
		base64.StdEncoding.EncodeToString(octets), base64.URLEncoding.EncodeToString(octets),
		base64.RawURLEncoding.EncodeToString(octets), hex.EncodeToString(octets),
	}
	for _, form := range forms {
		p.texts = append(p.texts, strconv.Quote(form))
	}
	p.loose = strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:;,!? ") != ""
	p.shortest = len(octets) + 2
	p.longest = 16 * (len(octets) + 16)
	return p, nil
}

// nameUUID is Java's UUID.nameUUIDFromBytes: the MD5 of the bytes as a version 3 UUID.
func nameUUID(octets []byte) string {
	u := md5.Sum(octets)
	u[6] = u[6]&0x0f | 0x30
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// is says whether a column's value stands for an unavailable one.
func (p *placeholder) is(v *value) bool {
	switch v.kind {
	case kindString:
		return len(v.raw) >= p.shortest && p.isText(*v)
	case kindArray:
		return len(v.raw) <= p.longest && p.isArray(*v)
	case kindObject:
		return len(v.raw) <= p.longest && p.isMap(*v)
	}
	return false
}

func (p *placeholder) isText(v value) bool {
	if len(v.raw) < p.shortest {
		return false
	}
	for _, text := range p.texts {
		if len(text) == len(v.raw) && text == string(v.raw) {
			return true
		}
	}
	if !p.loose || v.plain || len(v.raw) > p.longest {
		return false
	}
	content := v.bytes()
	return bytes.Equal(content, p.octet) || string(content) == fmt.Sprintf("{%q:%q}", p.octet, p.octet)
}

func (p *placeholder) isArray(v value) bool {
	count, texts, codes := 0, 0, 0
	_ = elements(v, func(i int, element value) error {
		count++
		switch {
		case element.kind == kindString && (p.isText(element) || string(element.raw) == p.uuid):
			texts++
		case i < len(p.octet) && element.kind == kindNumber && p.isCode(element.raw, p.octet[i]):
			codes++
		}
		return nil
	})
	return count == 1 && texts == 1 || count == len(p.octet) && codes == count
}

// isCode compares a number with a byte, which Java prints signed.
func (p *placeholder) isCode(raw []byte, octet byte) bool {
	n, err := strconv.ParseInt(string(raw), 10, 16)
	return err == nil && (n == int64(octet) || n == int64(int8(octet)))
}

func (p *placeholder) isMap(v value) bool {
	count, equal := 0, 0
	_ = members(v, func(name, member value) error {
		count++
		if member.kind == kindString && p.isText(name) && p.isText(member) {
			equal++
		}
		return nil
	})
	return count == 1 && equal == 1
}
