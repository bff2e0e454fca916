package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// maxDepth bounds how deep sequences of normalizers and pre-tokenizers may be nested.
const maxDepth = 16

// Parse is like [Load] for the bytes of a tokenizer.json.
func Parse(data []byte) (*Tokenizer, error) {
	fillTables()
	l := &loader{}
	p := l.tokenizer(data)
	if len(l.errs) > 0 {
		return nil, errors.Join(l.errs...)
	}
	return newTokenizer(p, false, noSequence), nil
}

// loader reads the parts of a tokenizer.json and collects what is wrong with them.
type loader struct {
	errs []error
}

// maxErrors bounds how many faults of a file are told.
const maxErrors = 20

func (l *loader) invalid(place, format string, args ...any) {
	l.fail(ErrInvalid, place, format, args...)
}

func (l *loader) unsupported(place, format string, args ...any) {
	l.fail(ErrUnsupported, place, format, args...)
}

func (l *loader) fail(kind error, place, format string, args ...any) {
	if len(l.errs) < maxErrors {
		l.errs = append(l.errs, fmt.Errorf("%w: %.300s: %s", kind, place, fmt.Sprintf(format, args...)))
	}
}

func (l *loader) tokenizer(data []byte) (t parts) {
	switch {
	case len(data) > maxFile:
		l.invalid("file", "more than %d MiB", maxFile>>20)
		return t
	case !utf8.Valid(data) || loneSurrogate(data):
		l.invalid("file", "text that is not Unicode")
		return t
	}
	file := l.object("file", data)
	file.ignore("truncation", "padding")
	if version := file.value("version"); version != nil {
		if v := l.text("version", version); v != "1.0" {
			l.unsupported("version", "%.100q", v)
		}
	}
	t.templates = plain
	if v := file.value("normalizer"); v != nil {
		t.normalizer = l.normalizer("normalizer", v, 0)
	}
	if v := file.value("pre_tokenizer"); v != nil {
		t.preTokenizer = l.preTokenizer("pre_tokenizer", v, 0)
	}
	t.model = l.model("model", file.value("model"))
	if v := file.value("post_processor"); v != nil {
		l.postProcessor(&t, "post_processor", v, 0)
	}
	if v := file.value("decoder"); v != nil {
		l.decoder("decoder", v)
	}
	added := file.value("added_tokens")
	file.end()
	if len(l.errs) == 0 && added != nil {
		l.addedTokens(&t, l.list("added_tokens", added))
	}
	return t
}

// object is a JSON object of the file and where it stands, such as "normalizer.normalizers[1]". Fields are taken out as they
// are read; end complains of those that are left.
type object struct {
	*loader
	place  string
	fields map[string]json.RawMessage
}

func (l *loader) object(place string, raw json.RawMessage) *object {
	o := &object{l, place, map[string]json.RawMessage{}}
	if raw == nil {
		l.invalid(place, "it is missing")
		return o
	}
	l.members(place, raw, func(key string, dec *json.Decoder) error {
		if _, twice := o.fields[key]; twice {
			return fmt.Errorf("field %.100q stands there twice", key)
		}
		var value json.RawMessage
		err := dec.Decode(&value)
		o.fields[key] = value
		return err
	})
	return o
}

// members calls read for every member of a JSON object, with a decoder that stands before the member's value.
func (l *loader) members(place string, raw json.RawMessage, read func(key string, dec *json.Decoder) error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	first, err := dec.Token()
	if err == nil && first != json.Delim('{') {
		err = errors.New("it is not an object")
	}
	for err == nil && dec.More() {
		var key json.Token
		if key, err = dec.Token(); err == nil {
			err = read(key.(string), dec) // a decoder gives nothing but strings as keys
		}
	}
	if err == nil {
		_, err = dec.Token()
	}
	if err == nil && len(bytes.TrimSpace(raw[dec.InputOffset():])) > 0 {
		err = errors.New("something follows the object")
	}
	if err != nil {
		l.invalid(place, "%v", err)
	}
}

func (o *object) at(key string) string {
	if o.place == "file" {
		return key
	}
	return o.place + "." + key
}

// value takes a field out of the object; nil where it is missing or null.
func (o *object) value(key string) json.RawMessage {
	raw := o.fields[key]
	delete(o.fields, key)
	if string(raw) == "null" {
		return nil
	}
	return raw
}

func (o *object) ignore(keys ...string) {
	for _, key := range keys {
		delete(o.fields, key)
	}
}

func (o *object) end() {
	keys := make([]string, 0, len(o.fields))
	for key := range o.fields {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		o.unsupported(o.place, "field %.100q", key)
	}
}

func (o *object) text(key string) string { return o.loader.text(o.at(key), o.value(key)) }
func (o *object) flag(key string) bool {
	return decode[bool](o.loader, o.at(key), o.value(key), "a boolean")
}

// optionalText and optionalFlag read fields that are missing or null in many files, and then are empty and false.
func (o *object) optionalText(key string) string {
	if v := o.value(key); v != nil {
		return o.loader.text(o.at(key), v)
	}
	return ""
}

func (o *object) optionalFlag(key string) bool {
	v := o.value(key)
	return v != nil && decode[bool](o.loader, o.at(key), v, "a boolean")
}

func (o *object) id(key string) int32 { return o.loader.id(o.at(key), o.value(key)) }

// kind takes the field "type" out of the object. Old files have none: there the first of some pairs of a field and a type counts whose
// field the object has.
func (o *object) kind(signs ...[2]string) string {
	if v, ok := o.fields["type"]; !ok || string(v) == "null" {
		for _, sign := range signs {
			if _, ok := o.fields[sign[0]]; ok {
				delete(o.fields, "type")
				return sign[1]
			}
		}
	}
	return o.text("type")
}

func (l *loader) text(place string, raw json.RawMessage) string {
	return decode[string](l, place, raw, "a string")
}

func (l *loader) list(place string, raw json.RawMessage) []json.RawMessage {
	return decode[[]json.RawMessage](l, place, raw, "a list")
}

// id reads a token id or type id: the original has 32 bits without a sign, of which the models' inputs take 31.
func (l *loader) id(place string, raw json.RawMessage) int32 {
	n := decode[uint64](l, place, raw, "a number from 0 on")
	if n > math.MaxInt32 {
		l.invalid(place, "%d is too large", n)
		return 0
	}
	return int32(n)
}

// decode reads a value that must be there and not null.
func decode[T any](l *loader, place string, raw json.RawMessage, what string) (v T) {
	if raw == nil {
		l.invalid(place, "it is missing")
	} else if string(raw) == "null" || json.Unmarshal(raw, &v) != nil {
		l.invalid(place, "it is not %s", what)
	}
	return v
}

// loneSurrogate reports whether a JSON text has an escape \uD800 to \uDFFF that is no half of a pair. Go reads it as U+FFFD.
func loneSurrogate(data []byte) bool {
	for i := 0; i+1 < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		i++ // to what is escaped
		if high, ok := escapedSurrogate(data, i); ok {
			if low, ok := escapedSurrogate(data, i+6); !ok || high >= 0xdc00 || low < 0xdc00 || data[i+5] != '\\' {
				return true
			}
			i += 6
		}
	}
	return false
}

// escapedSurrogate reads uD800 to uDFFF at a place of data.
func escapedSurrogate(data []byte, i int) (n int, ok bool) {
	if i+5 > len(data) || data[i] != 'u' {
		return 0, false
	}
	for _, c := range data[i+1 : i+5] {
		digit := bytes.IndexByte([]byte("0123456789abcdef"), c|0x20)
		if c >= '0' && c <= '9' {
			digit = int(c - '0')
		}
		if digit < 0 {
			return 0, false
		}
		n = n<<4 | digit
	}
	return n, n >= 0xd800 && n <= 0xdfff
}
