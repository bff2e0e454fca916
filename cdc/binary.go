package cdc

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"reflect"
	"strings"
)

// maxBits is the longest bit string of Postgres.
const maxBits = 83_886_080

// bitText returns a bit string as Postgres writes it, from octets of which the least significant comes first and leading zeros may be
// missing.
func bitText(octets []byte, length int) string {
	digits := max(length, 8*len(octets))
	if length > 0 {
		digits = length
	}
	text := make([]byte, digits)
	for i := range text {
		bit := digits - 1 - i
		text[i] = '0'
		if bit/8 < len(octets) && octets[bit/8]>>(bit%8)&1 == 1 {
			text[i] = '1'
		}
	}
	return string(text)
}

// decodeBytes reads the content of a string as bytes. A schema of type bytes means standard base64, whatever the tag says.
func decodeBytes(content []byte, w *wireType, f format) ([]byte, *mismatch) {
	form := f.encoding
	switch {
	case w.of() == classBytes || w.of() == classBits || form == "":
		form = encodingBase64
	case w.of() == classJSON:
		form = encodingText
	}
	var out []byte
	var err error
	switch form {
	case encodingHex:
		out, err = hex.AppendDecode([]byte{}, content)
	case encodingText:
		out = bytes.Clone(content)
	case encodingBase64URL:
		out, err = base64.RawURLEncoding.AppendDecode([]byte{}, bytes.TrimRight(content, "="))
	default:
		out, err = base64.StdEncoding.AppendDecode([]byte{}, content)
	}
	if err != nil {
		return nil, mismatchf("the string is not %s", form)
	}
	return out, nil
}

func bytesCodec(f format) codec {
	return codec{fits: fitsBytes, set: func(dst reflect.Value, v value, w *wireType) *mismatch {
		if v.kind != kindString {
			return mismatchf("%v is no string", v.kind)
		}
		if w.of() == classJSON {
			dst.SetBytes(bytes.Clone(v.bytes()))
			return nil
		}
		out, bad := decodeBytes(v.bytes(), w, f)
		if bad == nil {
			dst.SetBytes(out)
		}
		return bad
	}}
}

// setOctets fills an array of bytes from the text of a UUID, if it has 16, or from as many bytes.
func setOctets(dst reflect.Value, v value, w *wireType, f format) *mismatch {
	content := v.bytes()
	var octets []byte
	if dst.Len() == 16 && len(content) == 36 {
		digits := strings.ReplaceAll(string(content), "-", "")
		if octets, _ = hex.DecodeString(digits); len(octets) == 16 && len(digits) == 32 {
			reflect.Copy(dst, reflect.ValueOf(octets).Convert(reflect.SliceOf(dst.Type().Elem())))
			return nil
		}
	}
	octets, bad := decodeBytes(content, w, f)
	if bad == nil && len(octets) != dst.Len() {
		bad = mismatchf("the string has %d bytes", len(octets))
	}
	if bad == nil {
		reflect.Copy(dst, reflect.ValueOf(octets).Convert(reflect.SliceOf(dst.Type().Elem())))
	}
	return bad
}
