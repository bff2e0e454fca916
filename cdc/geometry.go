package cdc

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
)

// Geometry is a value of PostGIS, or a point of Postgres itself.
type Geometry struct {
	// SRID names the reference system, 0 where there is none.
	SRID int32
	// WKB is the shape in well-known binary as the connector writes it: for PostGIS the extended form (EWKB), in which the SRID may
	// stand as well.
	WKB []byte
}

// The flags of EWKB in a shape's type.
const (
	ewkbZ    = 0x80000000
	ewkbM    = 0x40000000
	ewkbSRID = 0x20000000
	wkbPoint = 1
)

// header returns the shape's type with its flags, the SRID where the EWKB has it, and the rest.
func (g Geometry) header() (shape uint32, srid int32, order binary.ByteOrder, rest []byte, ok bool) {
	if len(g.WKB) < 5 || g.WKB[0] > 1 {
		return 0, 0, nil, nil, false
	}
	order = binary.BigEndian
	if g.WKB[0] == 1 {
		order = binary.LittleEndian
	}
	shape, rest = order.Uint32(g.WKB[1:]), g.WKB[5:]
	if shape&ewkbSRID != 0 {
		if len(rest) < 4 {
			return 0, 0, nil, nil, false
		}
		srid, rest = int32(order.Uint32(rest)), rest[4:]
	}
	return shape, srid, order, rest, true
}

// Point returns the coordinates of a point, and whether the shape is one. Of points with more coordinates the first two are returned;
// both are NaN for the empty point.
func (g Geometry) Point() (x, y float64, ok bool) {
	shape, _, order, rest, ok := g.header()
	kind := shape &^ (ewkbZ | ewkbM | ewkbSRID) % 1000 // ISO adds thousands for Z and M
	if !ok || kind%1000 != wkbPoint || len(rest) < 16 {
		return 0, 0, false
	}
	return math.Float64frombits(order.Uint64(rest)), math.Float64frombits(order.Uint64(rest[8:])), true
}

// String returns the WKB in hex, in capitals as Postgres writes a geometry.
func (g Geometry) String() string { return strings.ToUpper(hex.EncodeToString(g.WKB)) }

// MarshalText returns String.
func (g Geometry) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

var errGeometry = errors.New("cdc: not the hex digits of a well-known binary")

// UnmarshalText reads the WKB in hex, as Postgres writes a geometry, and takes the SRID from it.
func (g *Geometry) UnmarshalText(text []byte) error {
	wkb, err := hex.DecodeString(string(text))
	if err != nil {
		return errGeometry
	}
	parsed := Geometry{WKB: wkb}
	_, srid, _, _, ok := parsed.header()
	if !ok {
		return errGeometry
	}
	parsed.SRID = srid
	*g = parsed
	return nil
}

// geometryCodec reads {"wkb","srid"}, with x and y where it is a point.
func geometryCodec() codec {
	return codec{fits: classes(classStruct, classString), set: func(dst reflect.Value, v value, w *wireType) *mismatch {
		g := dst.Addr().Interface().(*Geometry)
		if v.kind == kindString {
			if g.UnmarshalText(v.bytes()) != nil {
				return mismatchf("the string is no well-known binary in hex")
			}
			return nil
		}
		wkb, srid := member(v, "wkb"), member(v, "srid")
		if wkb.kind != kindString {
			return mismatchf("%v is no geometry: it has no member wkb", v.kind)
		}
		octets, bad := decodeBytes(wkb.bytes(), nil, format{})
		if bad != nil {
			return bad
		}
		parsed := Geometry{WKB: octets}
		if n, ok := srid.int64(); ok && int64(int32(n)) == n {
			parsed.SRID = int32(n)
		} else if _, inside, _, _, ok := parsed.header(); ok {
			parsed.SRID = inside
		}
		*g = parsed
		return nil
	}}
}
