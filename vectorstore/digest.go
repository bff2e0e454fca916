package vectorstore

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math"
	"reflect"
	"strings"
)

// content says what an input has to embed. Of the parts of an input, the greatest counts.
type content int

const (
	neutral content = iota // a number or a bool: nothing by itself
	blank                  // text of white space, no bytes, a nil pointer
	filled
)

// digester computes digests of inputs of one type.
type digester struct {
	feed  feeder
	model []byte
	// prefix is what all digests of the model begin with.
	prefix string
}

// feeder writes a value to h, so that different values of its type write different bytes.
type feeder func(h hash.Hash, v reflect.Value) content

// newDigester returns an error for types that hold what has no stable bytes: interfaces, maps, functions, channels.
func newDigester(t reflect.Type, model string) (*digester, error) {
	feed, err := feederOf(t, 0)
	return &digester{feed: feed, model: []byte(model), prefix: shortHash([]byte(model), modelDigits)}, err
}

// modelDigits are how many hex digits of a digest are the model's.
const modelDigits = 8

// sum returns a digest of 32 hex digits, of which the first tell the model alone, the others model and input; and whether
// there is anything to embed.
func (d *digester) sum(input any) (digest string, empty bool) {
	h := sha256.New()
	feedBytes(h, d.model)
	c := d.feed(h, reflect.ValueOf(input))
	return d.prefix + hex.EncodeToString(h.Sum(nil)[:(sha256.Size-modelDigits)/2]), c == blank
}

// sameModel reports whether a digest is of this model.
func (d *digester) sameModel(digest string) bool { return strings.HasPrefix(digest, d.prefix) }

func feedUint(h hash.Hash, n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	_, _ = h.Write(b[:]) // a Hash never fails
}

func feedBytes(h hash.Hash, b []byte) {
	feedUint(h, uint64(len(b)))
	_, _ = h.Write(b)
}

func feedText(h hash.Hash, v reflect.Value) content {
	s := v.String()
	feedBytes(h, []byte(s))
	if strings.TrimSpace(s) == "" {
		return blank
	}
	return filled
}

func feedOctets(h hash.Hash, v reflect.Value) content {
	feedBytes(h, v.Bytes())
	if v.Len() == 0 {
		return blank
	}
	return filled
}

func feederOf(t reflect.Type, depth int) (feeder, error) {
	const maxDepth = 32 // a type that contains itself gets here
	if t == nil {
		return nil, errors.New("an input has no type")
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("an input of type %v contains itself or is too deep", t)
	}
	switch t.Kind() {
	case reflect.String:
		return feedText, nil
	case reflect.Bool:
		return func(h hash.Hash, v reflect.Value) content {
			n := uint64(0)
			if v.Bool() {
				n = 1
			}
			feedUint(h, n)
			return neutral
		}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(h hash.Hash, v reflect.Value) content { feedUint(h, uint64(v.Int())); return neutral }, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return func(h hash.Hash, v reflect.Value) content { feedUint(h, v.Uint()); return neutral }, nil
	case reflect.Float32, reflect.Float64:
		return func(h hash.Hash, v reflect.Value) content { feedUint(h, math.Float64bits(v.Float())); return neutral }, nil
	case reflect.Pointer:
		return pointerFeeder(t, depth)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return feedOctets, nil
		}
		return listFeeder(t, depth, blank)
	case reflect.Array:
		return listFeeder(t, depth, neutral)
	case reflect.Struct:
		return structFeeder(t, depth)
	}
	return nil, fmt.Errorf("an input of type %v cannot be compared with what was embedded before: "+
		"use text, bytes, numbers, or pointers, slices and structs of these", t)
}

func pointerFeeder(t reflect.Type, depth int) (feeder, error) {
	elem, err := feederOf(t.Elem(), depth+1)
	return func(h hash.Hash, v reflect.Value) content {
		if v.IsNil() {
			feedUint(h, 0)
			return blank
		}
		feedUint(h, 1)
		return elem(h, v.Elem())
	}, err
}

func listFeeder(t reflect.Type, depth int, empty content) (feeder, error) {
	elem, err := feederOf(t.Elem(), depth+1)
	return func(h hash.Hash, v reflect.Value) content {
		feedUint(h, uint64(v.Len()))
		if v.Len() == 0 {
			return empty
		}
		c := neutral
		for i := range v.Len() {
			c = max(c, elem(h, v.Index(i)))
		}
		return c
	}, err
}

func structFeeder(t reflect.Type, depth int) (feeder, error) {
	fields := make([]feeder, t.NumField())
	for i := range fields {
		var err error
		if fields[i], err = feederOf(t.Field(i).Type, depth+1); err != nil {
			return nil, fmt.Errorf("field %s: %w", t.Field(i).Name, err)
		}
	}
	return func(h hash.Hash, v reflect.Value) content {
		c := neutral
		for i, feed := range fields {
			c = max(c, feed(h, v.Field(i)))
		}
		return c
	}, nil
}
