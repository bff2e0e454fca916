package weaviate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
)

type (
	named     string
	namedInt  int16
	namedByte byte
	textual   [16]byte
)

func (x textual) MarshalText() ([]byte, error) { return []byte("textual"), nil }

func pointer[T any](v T) *T { return &v }

func canonicalCases() map[string]struct{ in, want any } {
	when := time.Date(2024, 2, 29, 1, 2, 3, 4, time.FixedZone("", 3600))
	var none *int
	return map[string]struct{ in, want any }{
		"nil":                 {nil, nil},
		"nil pointer":         {none, nil},
		"nil slice":           {[]string(nil), nil},
		"nil bytes":           {[]byte(nil), nil},
		"string":              {"a", "a"},
		"named string":        {named("a"), "a"},
		"pointer":             {pointer(pointer("a")), "a"},
		"int8":                {int8(-5), int64(-5)},
		"uint64":              {uint64(7), int64(7)},
		"named int":           {pointer(namedInt(3)), int64(3)},
		"float32":             {float32(0.5), 0.5},
		"time":                {when, when},
		"pointer to time":     {&when, when},
		"json integer":        {json.Number("12"), int64(12)},
		"json number":         {json.Number("1.5"), 1.5},
		"json null":           {json.RawMessage("null"), nil},
		"json nil":            {json.RawMessage(nil), nil},
		"json list":           {json.RawMessage(`[1,2]`), []int64{1, 2}},
		"json object":         {json.RawMessage(`{"a":[1.5],"b":null}`), map[string]any{"a": []float64{1.5}, "b": nil}},
		"json objects":        {pointer(json.RawMessage(`[{"a":1},{}]`)), []map[string]any{{"a": int64(1)}, {}}},
		"bytes":               {[]byte{0, 255}, []byte{0, 255}},
		"named bytes":         {[]namedByte{1, 2}, []byte{1, 2}},
		"uuid":                {[16]byte{1}, [16]byte{1}},
		"uuid with text":      {textual{}, "textual"},
		"address":             {netip.MustParseAddr("10.0.0.1"), "10.0.0.1"},
		"big":                 {big.NewInt(7), "7"},
		"list of named":       {[]named{"a", "b"}, []string{"a", "b"}},
		"list of pointers":    {[]*int{pointer(1)}, []int64{1}},
		"array":               {[2]bool{true, false}, []bool{true, false}},
		"list of any":         {[]any{"a", "b"}, []string{"a", "b"}},
		"empty list":          {[]int{}, []int64{}},
		"empty list of any":   {[]any{}, emptyList{}},
		"empty objects":       {[]map[string]any{}, []map[string]any{}},
		"object":              {map[named]int{"a": 1}, map[string]any{"a": int64(1)}},
		"objects":             {[]any{map[string]string{"a": "b"}}, []map[string]any{{"a": "b"}}},
		"pointer to a list":   {&[]int{1}, []int64{1}},
		"pointer to an array": {&[16]byte{2}, [16]byte{2}},
	}
}

func TestCanonical(t *testing.T) {
	for name, tt := range canonicalCases() {
		got, err := canonical(tt.in)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: canonical(%#v) is %#v, %v; want %#v", name, tt.in, got, err, tt.want)
		}
	}
}

type cycle *cycle

func TestCanonicalRefuses(t *testing.T) {
	var loop cycle
	loop = &loop
	deep := map[string]any{}
	deep["a"] = deep
	for name, v := range map[string]any{
		"function": func() {}, "channel": make(chan int), "struct": struct{ a int }{1}, "complex": 1i,
		"NaN": math.NaN(), "infinite": float32(math.Inf(1)), "uint64": uint64(math.MaxUint64),
		"text": "\xff", "text in a list": []string{"\xff"}, "text in an object": map[string]any{"a": "\xff"},
		"mixed": []any{1, "a"}, "mixed objects": []any{map[string]any{}, 1}, "null in a list": []any{"a", nil},
		"list of lists": [][]int{{1}}, "list of bytes": [][]byte{{1}}, "bytes": [15]byte{},
		"keys": map[int]string{1: "a"}, "objects with keys": []map[int]string{{1: "a"}},
		"json": json.RawMessage(`{"a":`), "json with more": json.RawMessage(`1 2`), "empty json": json.RawMessage{},
		"cycle of pointers": loop, "cycle of maps": deep, "cycle in a list": []any{deep},
	} {
		if got, err := canonical(v); !errors.Is(err, vectorstore.ErrValue) || !itemerror.IsPermanent(err) {
			t.Errorf("%s: canonical gives %#v, error %v", name, got, err)
		}
	}
}

func TestCanonicalCopies(t *testing.T) {
	b, list := []byte{1}, []map[string]any{{"a": []int64{1}}}
	gotBytes, err1 := canonical(b)
	gotList, err2 := canonical(list)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	b[0], list[0]["a"].([]int64)[0] = 9, 9
	if gotBytes.([]byte)[0] != 1 || gotList.([]map[string]any)[0]["a"].([]int64)[0] != 1 {
		t.Error("the canonical value shares memory with what was given")
	}
}

// sent returns what a value is sent as, in a property p.
func sent(t *testing.T, dataType DataType, v any) (*pb.ObjectPropertiesValue, error) {
	t.Helper()
	c, err := canonical(v)
	if err != nil {
		return nil, err
	}
	f, err := encode(&property{dataType: dataType}, c)
	if err != nil {
		return nil, err
	}
	out := &pb.ObjectPropertiesValue{}
	if f != nil {
		f(out, "p")
	}
	return out, nil
}

func TestEncodeScalars(t *testing.T) {
	when := time.Date(2022, 4, 22, 10, 0, 0, 5, time.FixedZone("", -2*3600))
	for _, tt := range []struct {
		dataType DataType
		in, want any
	}{
		{Text, "a", "a"},
		{Text, when, "2022-04-22T10:00:00.000000005-02:00"},
		{Text, [16]byte{0xab}, "ab000000-0000-0000-0000-000000000000"},
		{Int, 1 << 53, float64(1 << 53)},
		{Int, -1 << 53, float64(-1 << 53)},
		{Int, 3.0, 3.0},
		{Number, 3, 3.0},
		{Number, 0.1, 0.1},
		{Boolean, true, true},
		{Date, when, "2022-04-22T12:00:00.000000005Z"},
		{Date, time.Date(1883, 1, 1, 0, 0, 0, 0, time.FixedZone("LMT", 3208)), "1882-12-31T23:06:32Z"},
		{Date, "2022-04-22 10:00:00", "2022-04-22T10:00:00Z"},
		{Date, "2022-04-22 10:00:00.25+02:00", "2022-04-22T08:00:00.25Z"},
		{Date, "2022-04-22T10:00:00.5", "2022-04-22T10:00:00.5Z"},
		{Date, "2022-04-22", "2022-04-22T00:00:00Z"},
		{UUID, "ABCDEF01-0000-5000-8000-ABCDEFABCDEF", "abcdef01-0000-5000-8000-abcdefabcdef"},
		{UUID, [16]byte{0xff, 15: 1}, "ff000000-0000-0000-0000-000000000001"},
		{Blob, []byte("hello"), "aGVsbG8="},
		{Blob, "aGVsbG8=", "aGVsbG8="},
	} {
		out, err := sent(t, tt.dataType, tt.in)
		if err != nil {
			t.Errorf("%s: %#v: %v", tt.dataType, tt.in, err)
			continue
		}
		if got := out.GetNonRefProperties().AsMap()["p"]; got != tt.want {
			t.Errorf("%s: %#v goes out as %#v, want %#v", tt.dataType, tt.in, got, tt.want)
		}
	}
}

func TestEncodeLists(t *testing.T) {
	when := time.Date(2022, 4, 22, 10, 0, 0, 0, time.UTC)
	floats := []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0x40} // 1.5 and 2 as little-endian doubles
	for _, tt := range []struct {
		dataType DataType
		in       any
		want     *pb.ObjectPropertiesValue
	}{
		{TextArray, []string{"a", ""}, &pb.ObjectPropertiesValue{TextArrayProperties: []*pb.TextArrayProperties{{PropName: "p", Values: []string{"a", ""}}}}},
		{DateArray, []any{when}, &pb.ObjectPropertiesValue{TextArrayProperties: []*pb.TextArrayProperties{{PropName: "p", Values: []string{"2022-04-22T10:00:00Z"}}}}},
		{IntArray, []float64{1, 2}, &pb.ObjectPropertiesValue{IntArrayProperties: []*pb.IntArrayProperties{{PropName: "p", Values: []int64{1, 2}}}}},
		{NumberArray, []float64{1.5, 2}, &pb.ObjectPropertiesValue{NumberArrayProperties: []*pb.NumberArrayProperties{{PropName: "p", ValuesBytes: floats}}}},
		{BooleanArray, []bool{true}, &pb.ObjectPropertiesValue{BooleanArrayProperties: []*pb.BooleanArrayProperties{{PropName: "p", Values: []bool{true}}}}},
		{IntArray, []string{}, &pb.ObjectPropertiesValue{EmptyListProps: []string{"p"}}},
		{ObjectArray, []any{}, &pb.ObjectPropertiesValue{EmptyListProps: []string{"p"}}},
		{TextArray, nil, &pb.ObjectPropertiesValue{}},
	} {
		got, err := sent(t, tt.dataType, tt.in)
		if err != nil || !proto.Equal(got, tt.want) {
			t.Errorf("%s: %#v goes out as %v, %v; want %v", tt.dataType, tt.in, got, err, tt.want)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	year := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		dataType DataType
		in       any
	}{
		{Int, int64(math.MaxInt64)},
		{Int, int64(1<<53 + 1)},
		{Int, int64(-1<<53 - 1)},
		{Int, 1.5},
		{Int, 1e300},
		{Int, "1"},
		{Int, true},
		{Int, json.Number("9223372036854775807")},
		{Number, int64(1<<53 + 1)},
		{Number, "1.5"},
		{Boolean, 1},
		{Boolean, "true"},
		{Text, 1},
		{Text, true},
		{Text, []byte("a")},
		{Text, []string{"a"}},
		{Text, map[string]any{"a": 1}},
		{Date, ""},
		{Date, "22.04.2022"},
		{Date, "2022-02-30"},
		{Date, 5},
		{Date, year},
		{Date, time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)},
		{UUID, "abc"},
		{UUID, 1},
		{Blob, "not base64!"},
		{Blob, []byte{}},
		{Blob, 1},
		{TextArray, "a"},
		{TextArray, []int{1}},
		{TextArray, []byte("a")},
		{IntArray, []int64{1, 1<<53 + 1}},
		{DateArray, []string{"2022-04-22", "never"}},
		{Object, "a"},
		{Object, []any{map[string]any{"a": 1}}},
		{ObjectArray, []string{"a"}},
		{ObjectArray, map[string]any{"a": 1}},
		{Object, map[string]any{"no name": 1}},
	} {
		if got, err := sent(t, tt.dataType, tt.in); !errors.Is(err, vectorstore.ErrValue) || !itemerror.IsPermanent(err) {
			t.Errorf("%s: %#v goes out as %v, error %v", tt.dataType, tt.in, got, err)
		}
	}
}

// TestErrorsQuoteNoValues: an error says what is wrong with a value, not what the value is, and is short.
func TestErrorsQuoteNoValues(t *testing.T) {
	var errs []error
	add := func(_ any, err error) { errs = append(errs, err) }
	for dataType, v := range map[DataType]any{
		Int: int64(4711471147114711471), IntArray: []float64{4711.5}, Number: int64(4711471147114711471), Date: "4711", DateArray: []string{"4711"},
		UUID: "4711", Blob: "4711!", Boolean: "4711", Object: map[string]any{strings.Repeat("long ", 1000) + "4711": "4711"},
	} {
		add(sent(t, dataType, v))
	}
	add(sent(t, Date, time.Date(47110, 1, 1, 0, 0, 0, 0, time.UTC)))
	add(infer("p", map[string]any{strings.Repeat("long ", 1000) + "4711": "4711"}))
	add(decodeDate("4711"))
	for _, text := range []string{
		"invalid date property 'd' on class 'C': requires a string with a RFC3339 formatted date, but the given value is '4711'",
		"invalid integer property 'd' on class 'C': requires an integer, the given value is '4711'",
		"invalid integer property 'd' on class 'C': the JSON number '4711' could not be converted to an int",
		"invalid integer array property 'd' on class 'C': invalid integer array value: [4711]",
	} {
		add(nil, serverError(text))
	}
	for _, err := range errs {
		if text := fmt.Sprint(err); err == nil || strings.Contains(text, "4711") || len(text) > 400 {
			t.Errorf("error is %.1000s", text)
		}
	}
}

func TestInfer(t *testing.T) {
	got := map[string]DataType{}
	for name, tt := range canonicalCases() {
		p, err := infer("p", tt.want)
		if err != nil {
			got[name] = DataType("refused")
			if tt.want != nil && !slices.Contains([]string{"empty list of any", "empty objects"}, name) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		got[name] = p.DataType
		f, err := encode(&property{dataType: p.DataType}, tt.want)
		if err != nil || f == nil {
			t.Errorf("%s: %#v does not fit its own type %s: %v", name, tt.want, p.DataType, err)
		}
	}
	for name, want := range map[string]DataType{
		"string": Text, "int8": Int, "float32": Number, "time": Date, "array": BooleanArray, "uuid": UUID, "bytes": Blob,
		"empty list": IntArray, "json object": Object, "objects": ObjectArray,
	} {
		if got[name] != want {
			t.Errorf("%s: inferred %s, want %s", name, got[name], want)
		}
	}
}

func TestInferNested(t *testing.T) {
	fields := map[string]any{}
	sample(fields, map[string]any{"d": map[string]any{"a": int64(1), "n": nil, "deep": map[string]any{"x": "1"}}})
	sample(fields, map[string]any{"d": map[string]any{"a": "ignored", "b": true, "deep": map[string]any{"y": 1.5}}, "e": nil})
	p, err := infer("d", fields["d"])
	if err != nil {
		t.Fatal(err)
	}
	want := Property{Name: "d", DataType: Object, Nested: []Property{
		{Name: "a", DataType: Int},
		{Name: "b", DataType: Boolean},
		{Name: "deep", DataType: Object, Nested: []Property{{Name: "x", DataType: Text}, {Name: "y", DataType: Number}}},
	}}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("inferred %+v, want %+v", p, want)
	}
	if _, ok := fields["e"]; ok {
		t.Error("a null says nothing of its type")
	}
	for name, v := range map[string]any{
		"nothing": map[string]any{}, "nulls": map[string]any{"a": nil}, "a name": map[string]any{"a b": "c"},
		"an empty object": map[string]any{"a": map[string]any{}},
	} {
		if _, err := infer("d", v); !errors.Is(err, vectorstore.ErrValue) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, v := range map[string]*pb.Value{
		"date": {Kind: &pb.Value_DateValue{DateValue: "yesterday"}},
		"blob": {Kind: &pb.Value_BlobValue{BlobValue: "!"}},
		"list": {Kind: &pb.Value_ListValue{ListValue: &pb.ListValue{}}},
		"nested": {Kind: &pb.Value_ObjectValue{ObjectValue: &pb.Properties{Fields: map[string]*pb.Value{
			"a": {Kind: &pb.Value_DateValue{DateValue: "yesterday"}},
		}}}},
	} {
		if got, err := decode(v); err == nil {
			t.Errorf("%s: no error, decoded %#v", name, got)
		}
	}
}

func TestVectorsRoundTrip(t *testing.T) {
	v := []float32{0, -1.5, math.SmallestNonzeroFloat32, math.MaxFloat32}
	b := encodeVector(v)
	if want := "\x00\x00\x00\x00\x00\x00\xc0\xbf"; !strings.HasPrefix(string(b), want) {
		t.Errorf("encoded %x, want it little-endian", b)
	}
	if got := appendVector(nil, v); !bytes.Equal(got, b) {
		t.Errorf("another machine would encode %x", got)
	}
	if got := decodeVector(b); !slices.Equal(got, v) {
		t.Errorf("decoded %v", got)
	}
	if b := encodeVector(nil); len(b) > 0 {
		t.Errorf("no vector is encoded as %x", b)
	}
}

// FuzzDecode feeds answers of a hostile server: an error or a value, never a panic, and what was decoded can be written again.
func FuzzDecode(f *testing.F) {
	for _, v := range []*pb.Value{
		{Kind: &pb.Value_TextValue{TextValue: "a"}},
		{Kind: &pb.Value_DateValue{DateValue: "2022-04-22T10:00:00Z"}},
		{Kind: &pb.Value_ListValue{ListValue: &pb.ListValue{Kind: &pb.ListValue_IntValues{IntValues: &pb.IntValues{Values: make([]byte, 9)}}}}},
		{Kind: &pb.Value_ObjectValue{ObjectValue: &pb.Properties{Fields: map[string]*pb.Value{"a": {Kind: &pb.Value_BoolValue{BoolValue: true}}}}}},
	} {
		b, err := proto.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v := &pb.Value{}
		if proto.Unmarshal(b, v) != nil {
			return
		}
		got, err := decode(v)
		if err != nil || got == nil {
			return
		}
		if _, err := canonical(got); err != nil && !errors.Is(err, vectorstore.ErrValue) {
			t.Errorf("decoded %#v, which is refused: %v", got, err)
		}
	})
}
