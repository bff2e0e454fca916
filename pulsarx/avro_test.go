package pulsarx_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
)

type address struct {
	Street string  `avro:"street"`
	Zip    *string `avro:"zip"`
}

type audit struct {
	By string `avro:"by"`
}

type everything struct {
	audit                     // embedded, and unexported: its exported fields count
	ID       int64            `avro:"id"`
	Small    int16            `avro:"small,default=3"`
	Name     string           `avro:"name,alias=title,alias=label,default=no, name"`
	Nick     *string          `avro:"nick"`
	Level    *int64           `avro:"level,default=1"`
	Ratio    float64          `avro:"ratio"`
	Half     float32          `avro:"half"`
	OK       bool             `avro:"ok,default=true"`
	Blob     []byte           `avro:"blob"`
	Sum      [4]byte          `avro:"sum"`
	Tags     []string         `avro:"tags,default=[]"`
	Counts   map[string]int64 `avro:"counts"`
	Home     address          `avro:"home"`
	Other    *address         `avro:"other"`
	Past     []address        `avro:"past"`
	At       time.Time        `avro:"at"`
	Maybe    *time.Time       `avro:"maybe"`
	Took     time.Duration    `avro:"took"`
	Untagged int
	Skipped  chan int `avro:"-"`
}

const everythingText = `{"type":"record","name":"everything","fields":[` +
	`{"name":"by","type":"string"},` +
	`{"name":"id","type":"long"},` +
	`{"name":"small","type":"int","default":3},` +
	`{"name":"name","aliases":["title","label"],"type":"string","default":"no, name"},` +
	`{"name":"nick","type":["null","string"],"default":null},` +
	`{"name":"level","type":["long","null"],"default":1},` +
	`{"name":"ratio","type":"double"},` +
	`{"name":"half","type":"float"},` +
	`{"name":"ok","type":"boolean","default":true},` +
	`{"name":"blob","type":"bytes"},` +
	`{"name":"sum","type":{"type":"fixed","name":"Fixed4","size":4}},` +
	`{"name":"tags","type":{"type":"array","items":"string"},"default":[]},` +
	`{"name":"counts","type":{"type":"map","values":"long"}},` +
	`{"name":"home","type":{"type":"record","name":"address","fields":[` +
	`{"name":"street","type":"string"},{"name":"zip","type":["null","string"],"default":null}]}},` +
	`{"name":"other","type":["null","address"],"default":null},` +
	`{"name":"past","type":{"type":"array","items":"address"}},` +
	`{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},` +
	`{"name":"maybe","type":["null",{"type":"long","logicalType":"timestamp-micros"}],"default":null},` +
	`{"name":"took","type":"long"},` +
	`{"name":"Untagged","type":"long"}]}`

func TestAvroReflection(t *testing.T) {
	s, err := pulsarx.Avro[everything]().Schema()
	if err != nil {
		t.Fatal(err)
	}
	if s.Type != "AVRO" || string(s.Definition) != everythingText {
		t.Errorf("schema\n%s\nwant\n%s", s.Definition, everythingText)
	}
	again, err := pulsarx.Avro[*everything]().Schema()
	if err != nil || !bytes.Equal(again.Definition, s.Definition) {
		t.Errorf("the pointer's schema differs: %v", err)
	}
}

func TestAvroRoundTrip(t *testing.T) {
	at := time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC)
	nick, zip := "n", "8000"
	in := everything{
		audit: audit{"me"}, ID: -1 << 62, Small: -7, Name: "ä", Nick: &nick, Ratio: 1.5, Half: 0.25, Blob: []byte{0, 255},
		Sum: [4]byte{1, 2, 3, 4}, Tags: []string{"a", ""}, Counts: map[string]int64{"x": 1}, Home: address{"s", &zip},
		Other: &address{"o", nil}, Past: []address{{"p", nil}, {"q", &zip}}, At: at, Maybe: &at, Took: 36 * time.Hour, Untagged: 5,
	}
	codec := pulsarx.Avro[everything]()
	payload, err := codec.Encode(nil, in)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := codec.Schema()
	for _, raw := range []pulsarx.Raw{{Value: payload}, {Value: payload, SchemaType: "AVRO", Schema: s.Definition}} {
		out, err := codec.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(in, out) {
			t.Errorf("%+v\nbecame\n%+v", in, out)
		}
	}
	prefixed, err := codec.Encode([]byte("head"), in)
	if err != nil || string(prefixed) != "head"+string(payload) {
		t.Error("Encode does not append", err)
	}
}

func TestAvroReflectionErrors(t *testing.T) {
	type node struct{ Next *struct{ X uint64 } }
	type two struct {
		A string `avro:"a"`
		B string `avro:"a"`
	}
	for name, c := range map[string]struct {
		codec interface {
			Schema() (pulsarx.Schema, error)
		}
		says string
	}{
		"interface":         {pulsarx.Avro[struct{ V any }](), "struct"},
		"any field":         {pulsarx.Avro[holder[any]](), "V: interface {} has no Avro type"},
		"uint64":            {pulsarx.Avro[holder[uint64]](), "uint64 has no Avro type"},
		"map key":           {pulsarx.Avro[holder[map[int]string]](), "keys"},
		"double pointer":    {pulsarx.Avro[holder[**int]](), "has no Avro type"},
		"anonymous":         {pulsarx.Avro[node](), "without a name"},
		"same name twice":   {pulsarx.Avro[two](), "a"},
		"default last":      {pulsarx.Avro[badOrder](), "default comes last"},
		"unknown option":    {pulsarx.Avro[badOption](), "unknown option"},
		"bad default":       {pulsarx.Avro[badDefault](), "default"},
		"default of type":   {pulsarx.Avro[wrongDefault](), "default"},
		"large default":     {pulsarx.Avro[largeDefault](), "of type int"},
		"half a default":    {pulsarx.Avro[halfDefault](), "whole number"},
		"bad text":          {pulsarx.AvroSchema[int](`{"type":"recor"}`), "Avro schema"},
		"dangling name":     {pulsarx.AvroSchema[int](`{"type":"array","items":"address"}`), "Avro schema"},
		"JSON of an any":    {pulsarx.JSON[holder[any]](), "has no Avro type"},
		"zero codec":        {pulsarx.AvroCodec[int]{}, "made by"},
		"zero JSON codec":   {pulsarx.JSONCodec[int]{}, "made by"},
		"name of a tag":     {pulsarx.Avro[noName](), "names nothing"},
		"name of no schema": {pulsarx.Avro[badName](), "badName"},
	} {
		_, err := c.codec.Schema()
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type (
	holder[T any] struct{ V T }
	badOrder      struct {
		A string `avro:"a,default=x,alias=b"`
	}
	badOption struct {
		A string `avro:"a,omitempty"`
	}
	badDefault struct {
		A int `avro:"a,default=x"`
	}
	wrongDefault struct {
		A int `avro:"a,default=\"x\""`
	}
	largeDefault struct {
		A int32 `avro:"a,default=9007199254740993"`
	}
	halfDefault struct {
		A *int32 `avro:"a,default=1.5"`
	}
	noName struct {
		A int `avro:",alias=b"`
	}
	badName struct {
		A int `avro:"a-b"`
	}
	node struct {
		V    int   `avro:"v"`
		Next *node `avro:"next"`
	}
)

func TestAvroRecursion(t *testing.T) {
	codec := pulsarx.Avro[node]()
	payload, err := codec.Encode(nil, node{1, &node{2, &node{V: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	v, err := codec.Decode(pulsarx.Raw{Value: payload})
	if err != nil || v.Next.Next.V != 3 {
		t.Errorf("%+v %v", v, err)
	}
	if s, _ := codec.Schema(); !strings.Contains(string(s.Definition), `["null","node"]`) {
		t.Errorf("%s", s.Definition)
	}
	// As deep as a hostile payload likes: a name for the record's next, again and again.
	if _, err := codec.Decode(pulsarx.Raw{Value: bytes.Repeat([]byte{2, 2}, 1<<20)}); err == nil {
		t.Error("a million levels are read")
	}
}

type v2 struct {
	ID       int64  `avro:"id"`
	FullName string `avro:"full_name,alias=name"`
	Age      int64  `avro:"age,default=7"`
}

// TestAvroResolution reads v1{id int, name} and its kin as v2.
func TestAvroResolution(t *testing.T) {
	const bob = "\x0a\x06bob"
	for name, c := range map[string]struct {
		writer, payload string
		want            v2
		says            string
	}{
		"promotion, alias, default": {`{"type":"record","name":"v1","fields":[{"name":"id","type":"int"},{"name":"name","type":"string"}]}`, bob, v2{5, "bob", 7}, ""},
		"namespace":                 {`{"type":"record","name":"v2","namespace":"com.example","fields":[{"name":"id","type":"int"},{"name":"name","type":"string"}]}`, bob, v2{5, "bob", 7}, ""},
		"other name and namespace":  {`{"type":"record","name":"Old","namespace":"com.example","fields":[{"name":"id","type":"long"},{"name":"full_name","type":"string"}]}`, bob, v2{5, "bob", 7}, ""},
		"reordered and dropped":     {`{"type":"record","name":"v1","fields":[{"name":"x","type":{"type":"array","items":"string"}},{"name":"name","type":"string"},{"name":"id","type":"int"}]}`, "\x02\x02x\x00\x06bob\x0a", v2{5, "bob", 7}, ""},
		"missing without a default": {`{"type":"record","name":"v1","fields":[{"name":"id","type":"int"}]}`, "\x0a", v2{}, "full_name"},
		"not promotable":            {`{"type":"record","name":"v1","fields":[{"name":"id","type":"string"},{"name":"name","type":"string"}]}`, "\x02x\x02x", v2{}, "resolve"},
		"Java's inner class":        {`{"type":"record","name":"Outer$Inner","fields":[{"name":"id","type":"int"},{"name":"name","type":"string"}]}`, bob, v2{5, "bob", 7}, ""},
		"no schema at all":          {`{"type":`, bob, v2{}, "writer's Avro schema"},
		"ends early":                {`{"type":"record","name":"v1","fields":[{"name":"id","type":"int"},{"name":"name","type":"string"}]}`, "\x0a\x06bo", v2{}, "ends early"},
		"ends at once":              {`{"type":"record","name":"v1","fields":[{"name":"id","type":"int"},{"name":"name","type":"string"}]}`, "", v2{}, "ends early"},
		"bytes left":                {`{"type":"record","name":"v1","fields":[{"name":"id","type":"int"},{"name":"name","type":"string"}]}`, bob + "!", v2{}, "1 bytes after"},
	} {
		got, err := pulsarx.Avro[v2]().Decode(pulsarx.Raw{Value: []byte(c.payload), SchemaType: "AVRO", Schema: []byte(c.writer)})
		if c.says == "" && (err != nil || got != c.want) {
			t.Errorf("%s: %+v %v", name, got, err)
		}
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if _, err := pulsarx.Avro[v2]().Decode(pulsarx.Raw{Value: []byte(bob), SchemaType: "STRING"}); err == nil {
		t.Error("a STRING message is read as AVRO")
	}
}

type change struct {
	Before, After *product
	Op            string
}

type product struct {
	ID   int64   `avro:"product_id"`
	Text *string `avro:"description"`
}

// TestAvroOneForTwo reads two of the writer's records as one.
func TestAvroOneForTwo(t *testing.T) {
	const writer = `{"type":"record","name":"Envelope","fields":[
		{"name":"Before","type":["null",{"type":"record","name":"Old","fields":[
			{"name":"product_id","type":"int"},{"name":"description","type":"string"}]}]},
		{"name":"After","type":{"type":"record","name":"New","fields":[
			{"name":"description","type":["null","string"]},{"name":"product_id","type":"long"}]}},
		{"name":"Op","type":"string"}]}`
	v, err := pulsarx.Avro[change]().Decode(pulsarx.Raw{
		SchemaType: "AVRO", Schema: []byte(writer), Value: []byte("\x02\x0e\x04hi\x02\x04ho\x0e\x02u"),
	})
	if err != nil || v.Before == nil || v.After == nil || *v.Before.Text != "hi" || *v.After.Text != "ho" || v.After.ID != 7 || v.Op != "u" {
		t.Errorf("%+v %v", v, err)
	}
}

func TestAvroNestedNames(t *testing.T) {
	const writer = `{"type":"record","name":"ProductChangeEvent","namespace":"com.example.events","fields":[
		{"name":"Before","type":["null",{"type":"record","name":"Product","fields":[
			{"name":"product_id","type":"long"},{"name":"description","type":["null","string"]}]}]},
		{"name":"After","type":["null","Product"]},
		{"name":"Op","type":"string"}]}`
	v, err := pulsarx.Avro[change]().Decode(pulsarx.Raw{
		SchemaType: "AVRO", Schema: []byte(writer), Value: []byte("\x00\x02\x0e\x02\x04hi\x02c"),
	})
	if err != nil || v.Before != nil || v.After == nil || v.After.ID != 7 || *v.After.Text != "hi" || v.Op != "c" {
		t.Errorf("%+v %v", v, err)
	}
}

type (
	strictRow struct {
		ID   int32            `avro:"id"`
		Name string           `avro:"name"`
		Home strictPart       `avro:"home"`
		More []strictPart     `avro:"more"`
		Nums map[string]int64 `avro:"nums"`
		Sum  [4]byte          `avro:"sum"`
		Last bool             `avro:"last"`
	}
	strictPart struct {
		Street string `avro:"street"`
		Zip    int64  `avro:"zip"`
	}
	looseRow struct {
		ID   *int64            `avro:"id"`
		Name *string           `avro:"name"`
		Home *loosePart        `avro:"home"`
		More []*loosePart      `avro:"more"`
		Nums map[string]*int64 `avro:"nums"`
		Sum  digest            `avro:"sum"`
		Last *bool             `avro:"last"`
	}
	loosePart struct {
		Street *string `avro:"street"`
		Zip    *int64  `avro:"zip"`
		Floor  *int64  `avro:"floor"`
	}
	digest [4]byte
)

// TestAvroNullability: fields become nullable and cease to be, at every depth.
func TestAvroNullability(t *testing.T) {
	in := strictRow{
		5, "bob", strictPart{"s", 1}, []strictPart{{"a", 2}, {"b", 3}}, map[string]int64{"x": 7}, [4]byte{1, 2, 3, 4}, true,
	}
	loose, err := recode[strictRow, looseRow](in)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(loose)
	const want = `{"ID":5,"Name":"bob","Home":{"Street":"s","Zip":1,"Floor":null},"More":[{"Street":"a","Zip":2,"Floor":null},` +
		`{"Street":"b","Zip":3,"Floor":null}],"Nums":{"x":7},"Sum":[1,2,3,4],"Last":true}`
	if err != nil || string(text) != want {
		t.Errorf("nullable: %s %v", text, err)
	}
	type wide struct { // as strictRow, with an id that holds the loose one's
		ID   int64            `avro:"id"`
		Home strictPart       `avro:"home"`
		More []strictPart     `avro:"more"`
		Nums map[string]int64 `avro:"nums"`
		Last bool             `avro:"last"`
	}
	back, err := recode[looseRow, wide](loose)
	if want := (wide{5, in.Home, in.More, in.Nums, true}); err != nil || !reflect.DeepEqual(back, want) {
		t.Errorf("not nullable: %+v %v", back, err)
	}
	loose.More[1].Zip = nil
	if _, err := recode[looseRow, wide](loose); err == nil || !strings.Contains(err.Error(), "zip: null") {
		t.Errorf("a null is read as no null: %v", err)
	}
}

// TestAvroBlockSizes: other writers give the size of a block, which changes where its items do.
func TestAvroBlockSizes(t *testing.T) {
	type row struct {
		More []*string `avro:"more"`
		Last int64     `avro:"last"`
	}
	const writer = `{"type":"record","name":"row","fields":[{"name":"more","type":{"type":"array","items":"string"},"default":[]},` +
		`{"name":"last","type":"long"}]}`
	v, err := pulsarx.Avro[row]().Decode(pulsarx.Raw{
		Value: []byte("\x03\x08\x02a\x02b\x02\x02c\x00\x0e"), SchemaType: "AVRO", Schema: []byte(writer), // two, in four bytes, and one
	})
	if err != nil || len(v.More) != 3 || *v.More[2] != "c" || v.Last != 7 {
		t.Errorf("%+v %v", v, err)
	}
}

// TestAvroTimestamps: the writer's unit counts, and a plain long is left as it is.
func TestAvroTimestamps(t *testing.T) {
	type times struct {
		At time.Time `avro:"at"`
	}
	type longs struct {
		At int64 `avro:"at"`
	}
	for _, c := range []struct {
		writer string
		want   time.Duration
	}{
		{`"long"`, 5 * time.Millisecond},
		{`{"type":"long","logicalType":"timestamp-micros"}`, 5 * time.Millisecond},
		{`{"type":"long","logicalType":"timestamp-millis"}`, 5 * time.Second},
		{`{"type":"int","logicalType":"date"}`, 5000 * 24 * time.Hour},
		{`["null",{"type":"long","logicalType":"timestamp-millis"}]`, 5 * time.Second},
	} {
		value := "\x90\x4e" // 5000
		if c.writer[0] == '[' {
			value = "\x02" + value
		}
		raw := pulsarx.Raw{
			SchemaType: "AVRO", Value: []byte(value),
			Schema: []byte(`{"type":"record","name":"r","fields":[{"name":"at","type":` + c.writer + `}]}`),
		}
		if v, err := pulsarx.Avro[times]().Decode(raw); err != nil || v.At.Sub(time.Unix(0, 0)) != c.want {
			t.Errorf("%s as a time: %v %v", c.writer, v.At, err)
		}
		if v, err := pulsarx.Avro[longs]().Decode(raw); err != nil || v.At != 5000 {
			t.Errorf("%s as a long: %v %v", c.writer, v.At, err)
		}
	}
}

// recode writes v as a W and reads it as an R.
func recode[W, R any](v W) (out R, err error) {
	writer := pulsarx.Avro[W]()
	payload, err := writer.Encode(nil, v)
	if err != nil {
		return out, err
	}
	s, err := writer.Schema()
	if err != nil {
		return out, err
	}
	return pulsarx.Avro[R]().Decode(pulsarx.Raw{Value: payload, SchemaType: s.Type, Schema: s.Definition})
}

// TestAvroLargeText: a text may have mebibytes.
func TestAvroLargeText(t *testing.T) {
	codec := pulsarx.Avro[audit]()
	payload, err := codec.Encode(nil, audit{strings.Repeat("x", 3<<20)})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := codec.Decode(pulsarx.Raw{Value: payload}); err != nil || len(v.By) != 3<<20 {
		t.Error(len(v.By), err)
	}
}

func TestJSONCodec(t *testing.T) {
	type order struct {
		ID    int64     `json:"id"`
		Note  string    `json:"note,omitempty"`
		At    time.Time `json:"at"`
		Lines []string  `json:"lines"`
		None  string    `json:"-"`
		Large uint64    `json:"large,string"`
		Text  *int64    `json:"text,string"`
	}
	codec := pulsarx.JSON[order]()
	s, err := codec.Schema()
	const want = `{"type":"record","name":"order","fields":[{"name":"id","type":"long"},` +
		`{"name":"note","type":["null","string"],"default":null},{"name":"at","type":"string"},` +
		`{"name":"lines","type":["null",{"type":"array","items":"string"}],"default":null},` +
		`{"name":"large","type":"string"},{"name":"text","type":["null","string"],"default":null}]}`
	if err != nil || s.Type != "JSON" || string(s.Definition) != want {
		t.Errorf("%s %v", s.Definition, err)
	}
	in := order{ID: 1 << 60, At: time.Unix(1, 0).UTC(), Lines: []string{"a"}}
	payload, err := codec.Encode(nil, in)
	if err != nil || !json.Valid(payload) {
		t.Fatal(err)
	}
	out, err := codec.Decode(pulsarx.Raw{Value: payload})
	if err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("%+v %v", out, err)
	}
	for _, bad := range []string{"", "{", `{"id":1}x`, `{"id":"x"}`, "null null"} {
		if _, err := codec.Decode(pulsarx.Raw{Value: []byte(bad)}); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func TestStringAndBytes(t *testing.T) {
	if _, err := pulsarx.String().Decode(pulsarx.Raw{Value: []byte{0xff}}); err == nil {
		t.Error("invalid UTF-8 is decoded")
	}
	if _, err := pulsarx.String().Encode(nil, "\xff"); err == nil {
		t.Error("invalid UTF-8 is encoded")
	}
	value := []byte("abc")
	b, err := pulsarx.Bytes().Decode(pulsarx.Raw{Value: value})
	if err != nil || string(b) != "abc" {
		t.Fatal(err)
	}
	if b[0] = 'x'; value[0] != 'a' {
		t.Error("Bytes gives the original away")
	}
}

func FuzzAvroDecode(f *testing.F) {
	codec := pulsarx.Avro[everything]()
	payload, err := codec.Encode(nil, everything{Tags: []string{"a"}, Past: []address{{}}, Counts: map[string]int64{"k": 1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload, everythingText)
	f.Add([]byte("\x0a\x06bob"), `{"type":"record","name":"v1","fields":[{"name":"id","type":"int"},{"name":"name","type":"string"}]}`)
	f.Add([]byte("\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"), `{"type":"array","items":"null"}`)
	f.Add([]byte("\x02\x02\x02"), `{"type":"record","name":"node","fields":[{"name":"next","type":["null","node"]}]}`)
	f.Add([]byte("\x03\x08\x02a\x02b\x02\x02c\x00\x0e"), `{"type":"record","name":"everything","fields":[{"name":"tags","type":{"type":"array","items":["null","string"]}},{"name":"id","type":["null","long"]}]}`)
	f.Fuzz(func(t *testing.T, payload []byte, writer string) {
		// Either a value or an error, in a time and memory that the payload bounds.
		for _, decode := range []func(pulsarx.Raw) error{decoding(codec), decoding(pulsarx.Avro[node]()), decoding(pulsarx.Avro[v2]())} {
			_ = decode(pulsarx.Raw{Value: payload, SchemaType: "AVRO", Schema: []byte(writer)})
			_ = decode(pulsarx.Raw{Value: payload})
		}
	})
}

func decoding[T any](d pulsarx.Decoder[T]) func(pulsarx.Raw) error {
	return func(r pulsarx.Raw) error { _, err := d.Decode(r); return err }
}

type (
	color  string
	priced struct {
		_      struct{}                 `avro:"com.example.Priced" doc:"what a thing costs"`
		ID     [16]byte                 `avro:"id,uuid" doc:"of the thing"`
		Price  string                   `avro:"price,decimal=12.2,default=1.50"`
		Exact  *big.Rat                 `avro:"exact,decimal=20.4"`
		Day    time.Time                `avro:"day,date"`
		Days   []time.Time              `avro:"days,timestamp-millis"`
		Took   map[string]time.Duration `avro:"took,time-micros"`
		Color  color                    `avro:"color,enum=RED|GREEN,default=GREEN"`
		Colors []color                  `avro:"colors,enum=RED|GREEN"`
		Other  color                    `avro:"other,enum=RED|GREEN,default=RED"`
		Half   [2]byte                  `avro:"half"`
		Rest   *[2]byte                 `avro:"rest,default=ab"`
		Size   *string                  `avro:"size,enum=S|M"`
		Millis int64                    `avro:"millis,timestamp-millis,default=5"`
		Pay    settlement               `avro:"pay"`
		Pays   []settlement             `avro:"pays"`
		Addr   netip.Addr               `avro:"addr"`
	}
	settlement struct {
		pulsarx.OneOf
		Cash  *int64
		Card  *audit
		Bonus *string `avro:"bonus,decimal=4.1"`
	}
)

const pricedText = `{"type":"record","name":"Priced","namespace":"com.example","doc":"what a thing costs","fields":[` +
	`{"name":"id","doc":"of the thing","type":{"type":"string","logicalType":"uuid"}},` +
	`{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":12,"scale":2},"default":"` + "\u0000\u0096" + `"},` +
	`{"name":"exact","type":["null",{"type":"bytes","logicalType":"decimal","precision":20,"scale":4}],"default":null},` +
	`{"name":"day","type":{"type":"int","logicalType":"date"}},` +
	`{"name":"days","type":{"type":"array","items":{"type":"long","logicalType":"timestamp-millis"}}},` +
	`{"name":"took","type":{"type":"map","values":{"type":"long","logicalType":"time-micros"}}},` +
	`{"name":"color","type":{"type":"enum","name":"color","symbols":["RED","GREEN"]},"default":"GREEN"},` +
	`{"name":"colors","type":{"type":"array","items":"color"}},` +
	`{"name":"other","type":"color","default":"RED"},` +
	`{"name":"half","type":{"type":"fixed","name":"Fixed2","size":2}},` +
	`{"name":"rest","type":["Fixed2","null"],"default":"ab"},` +
	`{"name":"size","type":["null",{"type":"enum","name":"size","symbols":["S","M"]}],"default":null},` +
	`{"name":"millis","type":{"type":"long","logicalType":"timestamp-millis"},"default":5},` +
	`{"name":"pay","type":["null","long",{"type":"record","name":"audit","fields":[{"name":"by","type":"string"}]},` +
	`{"type":"bytes","logicalType":"decimal","precision":4,"scale":1}],"default":null},` +
	`{"name":"pays","type":{"type":"array","items":["null","long","audit",{"type":"bytes","logicalType":"decimal","precision":4,"scale":1}]}},` +
	`{"name":"addr","type":"string"}]}`

// TestAvroTags: logical types, enums, unions and documentation from tags, and values in them.
func TestAvroTags(t *testing.T) {
	codec := pulsarx.Avro[priced]()
	s, err := codec.Schema()
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(pricedText, "\u0000", `\u0000`, 1); string(s.Definition) != want {
		t.Errorf("schema\n%s\nwant\n%s", s.Definition, want)
	}
	size, cash, bonus := "M", int64(-1), "12.5"
	day := time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)
	in := priced{
		ID: [16]byte{15: 1}, Price: "-12.34", Exact: big.NewRat(1, 8), Day: day, Days: []time.Time{day.Add(time.Millisecond)},
		Took: map[string]time.Duration{"a": time.Second}, Color: "RED", Colors: []color{"GREEN"}, Other: "GREEN", Half: [2]byte{1}, Rest: &[2]byte{2}, Size: &size, Millis: 7,
		Pay: settlement{Bonus: &bonus}, Pays: []settlement{{Cash: &cash}, {}, {Card: &audit{"me"}}}, Addr: netip.MustParseAddr("10.0.0.1"),
	}
	payload, err := codec.Encode(nil, in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := codec.Decode(pulsarx.Raw{Value: payload})
	if err != nil || out.Exact == nil || out.Exact.Cmp(in.Exact) != 0 {
		t.Fatalf("%+v %v", out, err)
	}
	out.Exact = in.Exact
	if !reflect.DeepEqual(in, out) {
		t.Errorf("%+v\nbecame\n%+v", in, out)
	}
	// What an older writer did not have.
	type small struct {
		ID     [16]byte                 `avro:"id,uuid"`
		Day    time.Time                `avro:"day,date"`
		Days   []time.Time              `avro:"days"` // in microseconds
		Took   map[string]time.Duration `avro:"took,time-millis"`
		Colors []color                  `avro:"colors,enum=GREEN|BLUE"`
		Half   [2]byte                  `avro:"half"`
		Pays   []*int64                 `avro:"pays"`
		Addr   string                   `avro:"addr"`
	}
	older := small{in.ID, day, in.Days, in.Took, []color{"GREEN"}, in.Half, []*int64{&cash, nil}, "10.0.0.1"}
	got, err := recode[small, priced](older)
	if err != nil || got.Price != "1.50" || got.Color != "GREEN" || got.Other != "RED" || string(got.Rest[:]) != "ab" || got.Millis != 5 || !reflect.DeepEqual(got.Days, in.Days) ||
		!reflect.DeepEqual(got.Took, in.Took) || *got.Pays[0].Cash != -1 || got.Pays[1].Cash != nil {
		t.Errorf("%+v %v", got, err)
	}
	older.Colors = []color{"BLUE"}
	if _, err := recode[small, priced](older); err == nil || !strings.Contains(err.Error(), `colors: the reader's enum has no "BLUE"`) {
		t.Errorf("a symbol that the reader has not: %v", err)
	}
}

// TestAvroTagErrors: what cannot be is an error of the codec, and names the field.
func TestAvroTagErrors(t *testing.T) {
	type (
		ratBare  struct{ V big.Rat }
		badScale struct {
			V string `avro:"v,decimal=2.3"`
		}
		misfit struct {
			V bool `avro:"v,uuid"`
		}
		twice struct {
			V time.Time `avro:"v,date,timestamp-millis"`
		}
		twoEnums struct {
			A color `avro:"a,enum=RED"`
			B color `avro:"b,enum=BLUE"`
		}
		notPointer struct {
			V struct {
				pulsarx.OneOf
				A int
			}
		}
		badDecimal struct {
			V string `avro:"v,decimal=3.1,default=0.05"`
		}
		badSymbol struct {
			V color `avro:"v,enum=RED,default=BLUE"`
		}
		pointerToOneOf struct {
			V *settlement `avro:"v"`
		}
	)
	for name, err := range map[string]error{
		"decimal=precision.scale":  schemaError(pulsarx.Avro[ratBare]()),
		"not decimal=":             schemaError(pulsarx.Avro[badScale]()),
		"uuid does not fit bool":   schemaError(pulsarx.Avro[misfit]()),
		"beside":                   schemaError(pulsarx.Avro[twice]()),
		"elsewhere":                schemaError(pulsarx.Avro[twoEnums]()),
		"no pointer":               schemaError(pulsarx.Avro[notPointer]()),
		"behind the point":         schemaError(pulsarx.Avro[badDecimal]()),
		"BLUE":                     schemaError(pulsarx.Avro[badSymbol]()),
		"*pulsarx_test.settlement": schemaError(pulsarx.Avro[pointerToOneOf]()),
		"int64 has no place":       schemaError(pulsarx.AvroSchema[int64](`"string"`)),
		"string cannot be null":    schemaError(pulsarx.AvroSchema[string](`["null","string"]`)),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func schemaError(c interface {
	Schema() (pulsarx.Schema, error)
},
) error {
	_, err := c.Schema()
	return err
}

type (
	expression struct {
		pulsarx.OneOf
		Number *int64
		Sum    *sum
	}
	sum struct {
		Left, Right expression
		More        []expression
	}
	endless []endless
)

// TestAvroRecursiveUnion: a union may hold itself through a record, and a slice may not hold itself.
func TestAvroRecursiveUnion(t *testing.T) {
	number := func(n int64) expression { return expression{Number: &n} }
	in := expression{Sum: &sum{Left: number(1), Right: expression{Sum: &sum{number(2), number(3), []expression{}}}, More: []expression{number(4), {}}}}
	codec := pulsarx.Avro[holder[expression]]()
	payload, err := codec.Encode(nil, holder[expression]{in})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := codec.Decode(pulsarx.Raw{Value: payload}); err != nil || !reflect.DeepEqual(out.V, in) {
		t.Errorf("%+v %v", out, err)
	}
	if err := schemaError(pulsarx.Avro[endless]()); err == nil || !strings.Contains(err.Error(), "recursion") {
		t.Errorf("a slice of itself: %v", err)
	}
}

// TestAvroWriters: more writers than are kept are read all the same, and a slice with another text is another schema.
func TestAvroWriters(t *testing.T) {
	codec := pulsarx.Avro[v2]()
	text := []byte(`{"type":"record","name":"x0000","fields":[{"name":"id","type":"int"},{"name":"name","type":"string"}]}`)
	for i := range 3000 {
		copy(text[len(`{"type":"record","name":"x`):], fmt.Sprintf("%04d", i))
		raw := pulsarx.Raw{SchemaType: "AVRO", Schema: bytes.Clone(text), Value: []byte("\x0a\x06bob")}
		if v, err := codec.Decode(raw); err != nil || v.ID != 5 {
			t.Fatal(i, v, err)
		}
	}
}
