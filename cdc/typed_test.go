package cdc_test

import (
	"database/sql"
	"encoding/json"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
)

// The structs below have a field for every column of the tables of types. Those that say "with schemas" declare nothing: the message
// tells. The others declare what a message without a schema does not say, and so depend on the mode.

type numbersRow struct {
	I2   *int16                `cdc:"i2"`
	I4   *int32                `cdc:"i4"`
	I8   *int64                `cdc:"i8"`
	F4   *float32              `cdc:"f4"`
	F8   sql.NullFloat64       `cdc:"f8"`
	O    *uint32               `cdc:"o"`
	B    sql.NullBool          `cdc:"b"`
	Dom  cdc.Null[int64]       `cdc:"d_posint"`
	Deep sql.Null[json.Number] `cdc:"d_deep"`
}

// exactNumbersRow reads the same into types that hold any number.
type exactNumbersRow struct {
	I2 *cdc.Decimal `cdc:"i2"`
	I4 *float64     `cdc:"i4"`
	I8 *big.Int     `cdc:"i8"`
	F4 any          `cdc:"f4"`
	F8 any          `cdc:"f8"`
	O  *big.Rat     `cdc:"o"`
	B  any          `cdc:"b"`
}

// decimalsRow is for schemas, and for decimal.handling.mode double without.
type decimalsRow struct {
	N     cdc.Null[cdc.Decimal] `cdc:"n"`
	N12x4 *cdc.Decimal          `cdc:"n12_4"`
	N5    *big.Rat              `cdc:"n5_0"`
	N5m2  *big.Rat              `cdc:"n5_m2"`
	N3x5  sql.Null[json.Number] `cdc:"n3_5"`
	N38   *cdc.Decimal          `cdc:"n38_10"`
	M     *cdc.Decimal          `cdc:"m"`
	Price *decimal              `cdc:"d_price"`
}

type decimalsPrecise struct {
	N     *cdc.Decimal          `cdc:"n"`
	N12x4 *cdc.Decimal          `cdc:"n12_4,scale=4"`
	N5    *big.Rat              `cdc:"n5_0,scale=0"`
	N3x5  sql.Null[json.Number] `cdc:"n3_5,scale=5"`
	N38   *cdc.Decimal          `cdc:"n38_10,scale=10"`
	M     *cdc.Decimal          `cdc:"m,scale=2"`
	Price *decimal              `cdc:"d_price,scale=2"`
	NA    []*cdc.Decimal        `cdc:"na"`
	N6x2A []*big.Rat            `cdc:"n6_2a,scale=2"`
}

type decimalsString struct {
	N     *cdc.Decimal          `cdc:"n,encoding=text"`
	N12x4 *cdc.Decimal          `cdc:"n12_4,encoding=text"`
	N5    *big.Rat              `cdc:"n5_0,encoding=text"`
	N5m2  *big.Rat              `cdc:"n5_m2,encoding=text"`
	N3x5  sql.Null[json.Number] `cdc:"n3_5,encoding=text"`
	N38   *cdc.Decimal          `cdc:"n38_10,encoding=text"`
	M     *cdc.Decimal          `cdc:"m,encoding=text"`
	Price *decimal              `cdc:"d_price"`
	NA    []*cdc.Decimal        `cdc:"na,encoding=text"`
	N6x2A []*big.Rat            `cdc:"n6_2a,encoding=text"`
}

// decimal stands for the type that an application has for its prices.
type decimal struct{ *big.Rat }

func (d *decimal) UnmarshalText(text []byte) error {
	d.Rat = new(big.Rat)
	return d.Rat.UnmarshalText(text)
}

// timesRow is for schemas, and for time.precision.mode isostring without.
type timesRow struct {
	D     *time.Time              `cdc:"d"`
	T0    *time.Duration          `cdc:"t0"`
	T1    *time.Duration          `cdc:"t1"`
	T3    sql.Null[time.Duration] `cdc:"t3"`
	T4    *time.Duration          `cdc:"t4"`
	T6    *time.Duration          `cdc:"t6"`
	TTZ   *time.Duration          `cdc:"ttz"`
	TTZ0  cdc.Null[time.Duration] `cdc:"ttz0"`
	TTZ3  *time.Duration          `cdc:"ttz3"`
	TS0   *time.Time              `cdc:"ts0"`
	TS1   *time.Time              `cdc:"ts1"`
	TS3   sql.NullTime            `cdc:"ts3"`
	TS4   *time.Time              `cdc:"ts4"`
	TS6   cdc.Null[time.Time]     `cdc:"ts6"`
	TSTZ  *time.Time              `cdc:"tstz"`
	TSTZ0 *time.Time              `cdc:"tstz0"`
	TSTZ3 *time.Time              `cdc:"tstz3"`
	Dom   *time.Time              `cdc:"d_moment"`
	DA    []*time.Time            `cdc:"da"`
	T6A   []*time.Duration        `cdc:"t6a"`
	TTZA  []*time.Duration        `cdc:"ttza"`
	TS3A  []sql.NullTime          `cdc:"ts3a"`
	TS6A  []*time.Time            `cdc:"ts6a"`
	TSTZA []*time.Time            `cdc:"tstza"`
	RA    []cdc.Null[string]      `cdc:"tstzra"`
}

// zonedTimes need no declaration in any mode.
type zonedTimes struct {
	TTZ   *time.Duration   `cdc:"ttz"`
	TTZ0  *time.Duration   `cdc:"ttz0"`
	TTZ3  *time.Duration   `cdc:"ttz3"`
	TSTZ  *time.Time       `cdc:"tstz"`
	TSTZ0 *time.Time       `cdc:"tstz0"`
	TSTZ3 *time.Time       `cdc:"tstz3"`
	TTZA  []*time.Duration `cdc:"ttza"`
	TSTZA []*time.Time     `cdc:"tstza"`
}

type timesAdaptive struct {
	zonedTimes
	D    *time.Time       `cdc:"d,unit=days"`
	T0   *time.Duration   `cdc:"t0,unit=ms"`
	T1   *time.Duration   `cdc:"t1,unit=ms"`
	T3   *time.Duration   `cdc:"t3,unit=ms"`
	T4   *time.Duration   `cdc:"t4,unit=us"`
	T6   *time.Duration   `cdc:"t6,unit=us"`
	TS0  *time.Time       `cdc:"ts0,unit=ms"`
	TS1  *time.Time       `cdc:"ts1,unit=ms"`
	TS3  *time.Time       `cdc:"ts3,unit=ms"`
	TS4  *time.Time       `cdc:"ts4,unit=us"`
	TS6  *time.Time       `cdc:"ts6,unit=us"`
	Dom  *time.Time       `cdc:"d_moment,unit=ms"`
	DA   []*time.Time     `cdc:"da,unit=days"`
	T6A  []*time.Duration `cdc:"t6a,unit=us"`
	TS3A []*time.Time     `cdc:"ts3a,unit=ms"`
	TS6A []*time.Time     `cdc:"ts6a,unit=us"`
}

type timesAdaptiveMicros struct {
	zonedTimes
	D    *time.Time       `cdc:"d,unit=days"`
	T0   *time.Duration   `cdc:"t0,unit=us"`
	T3   *time.Duration   `cdc:"t3,unit=us"`
	T6   *time.Duration   `cdc:"t6,unit=us"`
	TS0  *time.Time       `cdc:"ts0,unit=ms"`
	TS3  *time.Time       `cdc:"ts3,unit=ms"`
	TS4  *time.Time       `cdc:"ts4,unit=us"`
	TS6  *time.Time       `cdc:"ts6,unit=us"`
	DA   []*time.Time     `cdc:"da,unit=days"`
	T6A  []*time.Duration `cdc:"t6a,unit=us"`
	TS3A []*time.Time     `cdc:"ts3a,unit=ms"`
	TS6A []*time.Time     `cdc:"ts6a,unit=us"`
}

type timesConnect struct {
	zonedTimes
	D    *time.Time       `cdc:"d,unit=days"`
	T0   *time.Duration   `cdc:"t0,unit=ms"`
	T6   *time.Duration   `cdc:"t6,unit=ms"`
	TS0  *time.Time       `cdc:"ts0,unit=ms"`
	TS6  *time.Time       `cdc:"ts6,unit=ms"`
	DA   []*time.Time     `cdc:"da,unit=days"`
	T6A  []*time.Duration `cdc:"t6a,unit=ms"`
	TS6A []*time.Time     `cdc:"ts6a,unit=ms"`
}

type timesMicros struct {
	zonedTimes
	D    *time.Time       `cdc:"d,unit=days"`
	T0   *time.Duration   `cdc:"t0,unit=us"`
	T6   *time.Duration   `cdc:"t6,unit=us"`
	TS0  *time.Time       `cdc:"ts0,unit=us"`
	TS6  *time.Time       `cdc:"ts6,unit=us"`
	DA   []*time.Time     `cdc:"da,unit=days"`
	T6A  []*time.Duration `cdc:"t6a,unit=us"`
	TS6A []*time.Time     `cdc:"ts6a,unit=us"`
}

type timesNanos struct {
	zonedTimes
	D    *time.Time       `cdc:"d,unit=days"`
	T0   *time.Duration   `cdc:"t0,unit=ns"`
	T6   *time.Duration   `cdc:"t6,unit=ns"`
	TS0  *time.Time       `cdc:"ts0,unit=ns"`
	TS6  *time.Time       `cdc:"ts6,unit=ns"`
	DA   []*time.Time     `cdc:"da,unit=days"`
	T6A  []*time.Duration `cdc:"t6a,unit=ns"`
	TS6A []*time.Time     `cdc:"ts6a,unit=ns"`
}

// intervalsRow is for schemas, and for interval.handling.mode string without.
type intervalsRow struct {
	IV   *cdc.Interval          `cdc:"iv"`
	IV0  cdc.Null[cdc.Interval] `cdc:"iv0"`
	IVYM *cdc.Interval          `cdc:"iv_ym"`
	IVDS *cdc.Interval          `cdc:"iv_ds"`
}

type intervalsNumeric struct {
	IV   *time.Duration `cdc:"iv,unit=us"`
	IV0  *cdc.Interval  `cdc:"iv0,unit=us"`
	IVYM *time.Duration `cdc:"iv_ym,unit=us"`
	IVDS *cdc.Interval  `cdc:"iv_ds,unit=us"`
}

// bits are base64 in every mode.
type bits struct {
	Bit1  *bool  `cdc:"bit1"`
	Bit3  []byte `cdc:"bit3"`
	Bit8  []byte `cdc:"bit8"`
	Bit11 []byte `cdc:"bit11"`
	Bit64 []byte `cdc:"bit64"`
	VB    []byte `cdc:"vb"`
	VB20  []byte `cdc:"vb20"`
	Bit_1 *bool  `cdc:"bit_1"` //nolint:revive // the column's name
}

type binaries64 struct {
	bits
	By  []byte   `cdc:"by,encoding=base64"`
	ByA [][]byte `cdc:"bya,encoding=base64"`
}

type binariesURL struct {
	bits
	By  []byte   `cdc:"by,encoding=base64url"`
	ByA [][]byte `cdc:"bya,encoding=base64url"`
}

type binariesHex struct {
	bits
	By  []byte   `cdc:"by,encoding=hex"`
	ByA [][]byte `cdc:"bya,encoding=hex"`
}

// The rest needs no declaration in any mode.

type textsRow struct {
	C    *string         `cdc:"c"`
	VC   sql.NullString  `cdc:"vc"`
	T    *string         `cdc:"t"`
	CI   *label          `cdc:"ci"`
	Ch   *string         `cdc:"ch"`
	BP   *string         `cdc:"bp"`
	X    *string         `cdc:"x"`
	U    *identity       `cdc:"u"`
	E    cdc.Null[label] `cdc:"e"`
	LT   *string         `cdc:"lt"`
	TV   *string         `cdc:"tv"`
	ISBN *string         `cdc:"isbn"`
}

type label string

// identity stands for the type that an application has for its UUIDs.
type identity struct{ text string }

func (i *identity) UnmarshalText(text []byte) error {
	i.text = string(text)
	return nil
}

func (i identity) MarshalText() ([]byte, error) { return []byte(i.text), nil }

type documentsRow struct {
	J  json.RawMessage    `cdc:"j"`
	JB json.RawMessage    `cdc:"jb"`
	HS map[string]*string `cdc:"hs"`
}

type networksRow struct {
	IP   *netip.Prefix          `cdc:"ip"`
	CD   cdc.Null[netip.Prefix] `cdc:"cd"`
	Mac  *string                `cdc:"mac"`
	Mac8 *string                `cdc:"mac8"`
}

type rangesRow struct {
	I4R   *string        `cdc:"i4r"`
	I8R   sql.NullString `cdc:"i8r"`
	NR    *string        `cdc:"nr"`
	TSR   *string        `cdc:"tsr"`
	TSTZR *string        `cdc:"tstzr"`
	DR    *string        `cdc:"dr"`
}

type shapesRow struct {
	P *struct {
		X, Y float64
		WKB  []byte
	} `cdc:"p"`
	Pt *cdc.Geometry   `cdc:"pt"`
	G  *cdc.Geometry   `cdc:"g"`
	GZ *cdc.Geometry   `cdc:"gz"`
	GG *cdc.Geometry   `cdc:"gg"`
	GA []*cdc.Geometry `cdc:"ga"`
}

type vectorsRow struct {
	V  []float32         `cdc:"v"`
	VN []float64         `cdc:"vn"`
	HV []float32         `cdc:"hv"`
	SV *cdc.SparseVector `cdc:"sv"`
}

type arraysRow struct {
	I2A   []*int16             `cdc:"i2a"`
	I4A   []sql.NullInt32      `cdc:"i4a"`
	I8A   []cdc.Null[int64]    `cdc:"i8a"`
	F4A   []*float32           `cdc:"f4a"`
	F8A   []*float64           `cdc:"f8a"`
	OA    []*uint32            `cdc:"oa"`
	BA    []*bool              `cdc:"ba"`
	TA    []*string            `cdc:"ta"`
	VCA   []sql.NullString     `cdc:"vca"`
	CA    []*string            `cdc:"ca"`
	CIA   []*label             `cdc:"cia"`
	UA    []*identity          `cdc:"ua"`
	JA    []json.RawMessage    `cdc:"ja"`
	JBA   []json.RawMessage    `cdc:"jba"`
	IPA   []*netip.Prefix      `cdc:"ipa"`
	CDA   []*netip.Prefix      `cdc:"cda"`
	MacA  []*string            `cdc:"maca"`
	Mac8A []*string            `cdc:"mac8a"`
	EA    []*label             `cdc:"ea"`
	LTA   []*string            `cdc:"lta"`
	HSA   []map[string]*string `cdc:"hsa"`
}

// TestTyped compares the same rows in structs, with schemas and without.
func TestTyped(t *testing.T) {
	tables := truth(t)
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			messages := s.recording(t)
			typed[numbersRow](t, s, messages, tables, "numbers")
			typed[exactNumbersRow](t, s, messages, tables, "numbers")
			typed[textsRow](t, s, messages, tables, "texts")
			typed[documentsRow](t, s, messages, tables, "documents")
			typed[networksRow](t, s, messages, tables, "networks")
			typed[rangesRow](t, s, messages, tables, "ranges")
			typed[shapesRow](t, s, messages, tables, "shapes", "geometries")
			typed[vectorsRow](t, s, messages, tables, "vectors")
			typed[arraysRow](t, s, messages, tables, "arrays")
			switch {
			case s.schemas, s.decimal == "double":
				typed[decimalsRow](t, s, messages, tables, "decimals")
			case s.decimal == "string":
				typed[decimalsString](t, s, messages, tables, "decimals", "not_numbers", "arrays")
			default:
				typed[decimalsPrecise](t, s, messages, tables, "decimals", "not_numbers", "arrays")
			}
			all := []string{"times", "edge_times", "time_arrays"}
			switch {
			case s.schemas, s.time == "isostring":
				typed[timesRow](t, s, messages, tables, all...)
			case s.time == "":
				typed[timesAdaptive](t, s, messages, tables, all...)
			case s.time == "adaptive_time_microseconds":
				typed[timesAdaptiveMicros](t, s, messages, tables, all...)
			case s.time == "connect":
				typed[timesConnect](t, s, messages, tables, all...)
			case s.time == "microseconds":
				typed[timesMicros](t, s, messages, tables, all...)
			case s.time == "nanoseconds":
				typed[timesNanos](t, s, messages, tables, all...)
			}
			if s.schemas || s.interval == "string" {
				typed[intervalsRow](t, s, messages, tables, "intervals")
			} else {
				typed[intervalsNumeric](t, s, messages, tables, "intervals")
			}
			switch s.binary {
			case "base64-url-safe":
				typed[binariesURL](t, s, messages, tables, "binaries", "arrays")
			case "hex":
				typed[binariesHex](t, s, messages, tables, "binaries", "arrays")
			default:
				typed[binaries64](t, s, messages, tables, "binaries", "arrays")
			}
		})
	}
}

// typed compares the fields of T that are columns of the tables.
func typed[T any](t *testing.T, s setting, messages []message, tables map[string]table, names ...string) {
	t.Helper()
	some, rows := map[string]table{}, 0
	for _, name := range names {
		some[name] = tables[name]
		rows += 3 * len(tables[name].Rows)
	}
	compared := map[string]bool{}
	check := func(t *testing.T, row *T, table table, want []*string, op cdc.Op) {
		t.Helper()
		for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
			name, _, _ := strings.Cut(field.Tag.Get("cdc"), ",")
			for i, c := range table.Columns {
				if c.Name != name {
					continue
				}
				compared[name] = true
				v := sample{s, table.Name, c, op}
				if err := v.check(want[i], reflect.ValueOf(row).Elem().FieldByIndex(field.Index).Interface()); err != nil {
					t.Errorf("%s.%s of row %s, op %c, in a %s: %v", table.Name, name, *want[0], op, field.Type, err)
				}
			}
		}
	}
	if count := eachRow(t, s, messages, some, check); count != rows {
		t.Errorf("%T: %d rows, want %d", *new(T), count, rows)
	}
	if len(compared) == 0 {
		t.Errorf("%T: no column was compared", *new(T))
	}
}
