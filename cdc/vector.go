package cdc

import (
	"reflect"
	"strconv"
	"strings"
)

// SparseVector is pgvector's sparsevec: the elements that are not zero. (vector and halfvec are slices of float32 or float64.)
type SparseVector struct {
	Dimensions int
	// Indices count from 1, as pgvector does. Values is aligned with them.
	Indices []int32
	Values  []float32
}

// String returns the vector as pgvector writes it: {1:1.5,3:2}/5.
func (s SparseVector) String() string {
	b := []byte{'{'}
	for i, index := range s.Indices {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendInt(b, int64(index), 10), ':')
		b = strconv.AppendFloat(b, float64(s.Values[i]), 'g', -1, 32)
	}
	return string(strconv.AppendInt(append(b, "}/"...), int64(s.Dimensions), 10))
}

// sparseCodec reads {"dimensions","vector"}, where vector is a list of pairs, an object, or a list of {"key","value"} (as Avro has it),
// and pgvector's own text.
func sparseCodec() codec {
	return codec{fits: classes(classStruct, classString), set: func(dst reflect.Value, v value, _ *wireType) *mismatch {
		s := dst.Addr().Interface().(*SparseVector)
		if v.kind == kindString {
			return s.parse(v.text())
		}
		count, vector := member(v, "dimensions"), member(v, "vector")
		dimensions, ok := count.int64()
		if !ok || int64(int(dimensions)) != dimensions {
			return mismatchf("%v is no sparse vector: it has no member dimensions", v.kind)
		}
		*s = SparseVector{Dimensions: int(dimensions), Indices: []int32{}, Values: []float32{}}
		switch vector.kind {
		case kindArray:
			return eachElement(vector, func(_ int, pair value) *mismatch { return s.addPair(pair) })
		case kindObject:
			return eachMember(vector, func(name string, member value) *mismatch { return s.add(name, string(member.raw)) })
		}
		return mismatchf("%v is no list of a sparse vector's elements", vector.kind)
	}}
}

func (s *SparseVector) addPair(pair value) *mismatch {
	index, element := member(pair, "key"), member(pair, "value")
	if pair.kind == kindArray {
		count := 0
		_ = elements(pair, func(i int, v value) error {
			if count++; i == 0 {
				index = v
			}
			element = v
			return nil
		})
		if count != 2 {
			return mismatchf("an element of a sparse vector is no pair")
		}
	}
	if index.kind != kindNumber || element.kind != kindNumber {
		return mismatchf("an element of a sparse vector is no pair of numbers")
	}
	return s.add(string(index.raw), string(element.raw))
}

func (s *SparseVector) add(index, element string) *mismatch {
	i, err := strconv.ParseInt(index, 10, 32)
	if err != nil || i < 0 || i > int64(s.Dimensions) {
		return mismatchf("an index of a sparse vector is out of bounds")
	}
	x, err := strconv.ParseFloat(element, 32)
	if err != nil {
		return mismatchf("an element of a sparse vector is no number or out of range")
	}
	s.Indices, s.Values = append(s.Indices, int32(i)), append(s.Values, float32(x))
	return nil
}

// parse reads String's text.
func (s *SparseVector) parse(text string) *mismatch {
	inner, dimensions, ok := strings.Cut(text, "}/")
	n, err := strconv.Atoi(dimensions)
	if !ok || err != nil || !strings.HasPrefix(inner, "{") {
		return mismatchf("the string is no sparse vector")
	}
	*s = SparseVector{Dimensions: n, Indices: []int32{}, Values: []float32{}}
	if inner = inner[1:]; inner == "" {
		return nil
	}
	for pair := range strings.SplitSeq(inner, ",") {
		index, element, _ := strings.Cut(pair, ":")
		if bad := s.add(index, element); bad != nil {
			return bad
		}
	}
	return nil
}
