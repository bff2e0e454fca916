package cdc_test

import (
	"cmp"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
)

// equal says whether a decoded value is the one that Postgres writes as text, nil for NULL. base is the column's type; lose says what
// Debezium makes of a text of a type that is no array.
func equal(base string, want *string, got any, lose func(base string, text *string) *string) error {
	value := plain(reflect.ValueOf(got))
	element, isArray := strings.CutSuffix(base, "[]")
	if !isArray {
		want = lose(base, want)
	}
	switch {
	case want == nil && value == nil:
		return nil
	case want == nil || value == nil:
		return fmt.Errorf("got %v, Postgres has %s", value, show(want))
	case isArray:
		return equalArrays(element, *want, value, lose)
	}
	compare := comparisons[base]
	if compare == nil {
		compare = equalTexts
	}
	if err := compare(*want, value); err != nil {
		return fmt.Errorf("got %v (%T), Postgres has %s: %w", value, value, *want, err)
	}
	return nil
}

func show(text *string) string {
	if text == nil {
		return "NULL"
	}
	return *text
}

// comparisons of a text of Postgres with a value, by type. Types that are not here are compared as texts.
var comparisons = map[string]func(want string, got any) error{
	"smallint": equalNumbers, "integer": equalNumbers, "bigint": equalNumbers, "oid": equalNumbers,
	"numeric": equalNumbers, "money": equalNumbers,
	"real":                        func(want string, got any) error { return equalFloats(want, got, 32) },
	"double precision":            func(want string, got any) error { return equalFloats(want, got, 64) },
	"boolean":                     func(want string, got any) error { return wantThat(got == (want == "t")) },
	"date":                        equalTimes,
	"timestamp without time zone": equalTimes,
	"timestamp with time zone":    equalTimes,
	"time without time zone":      equalClocks,
	"time with time zone":         equalClocks,
	"interval":                    equalIntervals,
	"inet":                        equalPrefixes,
	"cidr":                        equalPrefixes,
	"bytea":                       equalBytes,
	"bit":                         equalBits, "bit varying": equalBits,
	"json": equalJSON, "jsonb": equalJSON, "hstore": equalHstores,
	"point": equalPoints, "geometry": equalGeometries, "geography": equalGeometries,
	"vector": equalVectors, "halfvec": equalVectors, "sparsevec": equalSparse,
}

var errDifferent = errors.New("they differ")

func wantThat(equal bool) error {
	if !equal {
		return errDifferent
	}
	return nil
}

// raw is JSON text that was kept as it is.
type raw string

// plain takes what a Go type wraps around a value: pointers, sql.Null, named types and the like. NULL is nil.
func plain(v reflect.Value) any {
	for v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) {
		v = v.Elem()
	}
	if !v.IsValid() {
		return nil
	}
	switch value := v.Interface().(type) {
	case time.Time, time.Duration, big.Int, big.Rat, json.Number, raw:
		return value
	case cdc.Decimal:
		return json.Number(value.String())
	case cdc.SparseVector:
		return value.String()
	case json.RawMessage:
		if value == nil {
			return nil
		}
		return raw(value)
	case []byte:
		if value == nil {
			return nil
		}
		return value
	case encoding.TextMarshaler:
		text, err := value.MarshalText()
		if err != nil {
			return err
		}
		return string(text)
	}
	switch v.Kind() {
	case reflect.Struct:
		return plainStruct(v)
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plain(v.Index(i))
		}
		return list
	case reflect.Map:
		if v.IsNil() {
			return nil
		}
		object := make(map[string]any, v.Len())
		for _, key := range v.MapKeys() {
			object[key.String()] = plain(v.MapIndex(key))
		}
		return object
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return json.Number(strconv.FormatUint(v.Uint(), 10))
	case reflect.Float32, reflect.Float64:
		return v.Float()
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	}
	return v.Interface()
}

// plainStruct unwraps sql.Null and its kind, and makes an object of any other struct.
func plainStruct(v reflect.Value) any {
	if valid := v.FieldByName("Valid"); valid.IsValid() && v.NumField() == 2 {
		if !valid.Bool() {
			return nil
		}
		return plain(v.Field(0))
	}
	object := map[string]any{}
	for i := range v.NumField() {
		object[strings.ToLower(v.Type().Field(i).Name)] = plain(v.Field(i))
	}
	return object
}

func equalTexts(want string, got any) error { return wantThat(got == want) }

// equalPrefixes compares addresses, of which Postgres leaves out the length of a prefix that is the whole address.
func equalPrefixes(want string, got any) error {
	text := fmt.Sprint(got)
	if !strings.Contains(want, "/") {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "/32"), "/128")
	}
	return wantThat(text == want)
}

// exact returns the number that a value or a text of Postgres is.
func exact(v any) (*big.Rat, bool) {
	text := fmt.Sprint(v)
	switch v := v.(type) {
	case big.Rat:
		return &v, true
	case big.Int:
		return new(big.Rat).SetInt(&v), true
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, false
		}
		text = strconv.FormatFloat(v, 'g', -1, 64)
	}
	return new(big.Rat).SetString(strings.NewReplacer("$", "", ",", "").Replace(text))
}

func equalNumbers(want string, got any) error {
	w, finite := exact(want)
	if !finite {
		return equalFloats(want, got, 64) // NaN, Infinity
	}
	g, ok := exact(got)
	if !ok {
		return errors.New("that is no number")
	}
	return wantThat(w.Cmp(g) == 0)
}

func equalFloats(want string, got any, bits int) error {
	w, err := strconv.ParseFloat(want, bits)
	if err != nil {
		return err
	}
	g, ok := got.(float64)
	if !ok {
		text := strings.NewReplacer("NAN", "NaN", "POSITIVE_INFINITY", "Infinity", "NEGATIVE_INFINITY", "-Infinity").Replace(fmt.Sprint(got))
		if g, err = strconv.ParseFloat(text, 64); err != nil {
			return err
		}
	}
	if bits == 32 {
		g, w = float64(float32(g)), float64(float32(w))
	}
	return wantThat(w == g && math.Signbit(w) == math.Signbit(g) || math.IsNaN(w) && math.IsNaN(g))
}

var timePattern = regexp.MustCompile(`^(\d{4,})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?(?:\+00)?( BC)?$`)

// instant reads a date or timestamp as Postgres writes it in UTC.
func instant(text string) (time.Time, bool) {
	switch text {
	case "infinity":
		return cdc.Infinity, true
	case "-infinity":
		return cdc.NegativeInfinity, true
	}
	parts := timePattern.FindStringSubmatch(text)
	if parts == nil {
		return time.Time{}, false
	}
	var n [8]int
	for i := 1; i <= 6; i++ {
		n[i], _ = strconv.Atoi(parts[i]) // empty is 0
	}
	micros, _ := strconv.Atoi((parts[7] + "000000")[:6])
	if parts[8] != "" {
		n[1] = 1 - n[1]
	}
	return time.Date(n[1], time.Month(n[2]), n[3], n[4], n[5], n[6], micros*1000, time.UTC), true
}

func equalTimes(want string, got any) error {
	w, ok := instant(want)
	if !ok {
		return errors.New("the test cannot read that time")
	}
	g, ok := got.(time.Time)
	if !ok {
		return errors.New("that is no time")
	}
	return wantThat(g.Equal(w) && g.Location() == time.UTC)
}

// clock reads a time of day, with the offset that a timetz has, as the time in UTC.
func clock(text string) (time.Duration, bool) {
	text, offset := text, time.Duration(0)
	if i := strings.LastIndexAny(text, "+-"); i > 0 {
		o, err := time.ParseDuration(strings.Replace(text[i+1:], ":", "h", 1) + map[bool]string{true: "m", false: "h"}[strings.Contains(text[i:], ":")])
		if err != nil {
			return 0, false
		}
		if offset = o; text[i] == '-' {
			offset = -o
		}
		text = text[:i]
	}
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return 0, false
	}
	d, err := time.ParseDuration(parts[0] + "h" + parts[1] + "m" + parts[2] + "s")
	const day = 24 * time.Hour
	if d -= offset; offset != 0 {
		d = (d%day + day) % day
	}
	return d, err == nil
}

func equalClocks(want string, got any) error {
	w, ok := clock(want)
	if !ok {
		return errors.New("the test cannot read that time of day")
	}
	return wantThat(got == w)
}

// span is an interval as Postgres keeps it.
type span struct{ months, days, micros int64 }

var spanPattern = regexp.MustCompile(
	`^P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?)(\d+)(?:\.(\d{1,9}))?S)?)?$`)

// interval reads an ISO 8601 duration, to the nearest microsecond: Debezium's arithmetic turns 5.828541 seconds into 5.828540999.
func interval(text string) (span, bool) {
	parts := spanPattern.FindStringSubmatch(text)
	if parts == nil {
		return span{}, false
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(parts[i], 10, 64) // empty is 0
		return n
	}
	nanos, _ := strconv.ParseInt((parts[8] + "000000000")[:9], 10, 64)
	micros := number(7)*1e6 + (nanos+500)/1000
	if parts[6] == "-" {
		micros = -micros
	}
	return span{number(1)*12 + number(2), number(3), number(4)*3600e6 + number(5)*60e6 + micros}, true
}

// averaged is what a numeric interval is, in microseconds: a month has 365.25/12 days, a day 24 hours.
func (s span) averaged() int64 {
	const day = 24 * 3600 * 1000000
	return s.months*(day*304375/10000) + s.days*day + s.micros
}

// equalIntervals allows for one microsecond: Debezium computes in floating point.
func equalIntervals(want string, got any) error {
	w, ok := interval(want)
	if !ok {
		return errors.New("the test cannot read that interval")
	}
	var g span
	switch got := got.(type) {
	case time.Duration:
		g.micros = got.Microseconds()
	case string:
		if g, ok = interval(got); !ok {
			return errors.New("that is no interval")
		}
	default:
		return errors.New("that is no interval")
	}
	return wantThat(w.months == g.months && w.days == g.days && abs(w.micros-g.micros) <= 1)
}

func equalBytes(want string, got any) error {
	w, err := hex.DecodeString(strings.TrimPrefix(want, `\x`))
	g, ok := got.([]byte)
	return wantThat(err == nil && ok && slices.Equal(w, g))
}

// equalBits compares bit strings as numbers: Debezium sends the bytes, lowest first, without zeros at the end.
func equalBits(want string, got any) error {
	if b, ok := got.(bool); ok {
		return wantThat(b == (want == "1"))
	}
	g, ok := got.([]byte)
	if !ok {
		return errors.New("those are no bits")
	}
	w, ok := new(big.Int).SetString("0"+want, 2)
	if !ok {
		return errors.New("the test cannot read those bits")
	}
	g = slices.Clone(g)
	slices.Reverse(g)
	return wantThat(w.Cmp(new(big.Int).SetBytes(g)) == 0)
}

func equalJSON(want string, got any) error {
	if text, ok := got.(raw); ok {
		if want == string(text) {
			return nil
		}
		var g any
		if err := readJSON(string(text), &g); err != nil {
			return err
		}
		got = g
	}
	var w any
	if err := readJSON(want, &w); err != nil {
		return err
	}
	return wantThat(sameJSON(w, got))
}

func readJSON(text string, v any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return d.Decode(v)
}

// sameJSON compares numbers by their value.
func sameJSON(want, got any) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		for name, member := range w {
			other, has := g[name]
			if !has || !sameJSON(member, other) {
				return false
			}
		}
		return ok && len(w) == len(g)
	case []any:
		g, ok := got.([]any)
		for i := range w {
			if i >= len(g) || !sameJSON(w[i], g[i]) {
				return false
			}
		}
		return ok && len(w) == len(g)
	case json.Number:
		_, isText := got.(string)
		return !isText && equalNumbers(w.String(), got) == nil
	}
	return want == got
}

var pairPattern = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"=>(NULL|"((?:[^"\\]|\\.)*)")(?:, |$)`)

func equalHstores(want string, got any) error {
	w := map[string]any{}
	for _, pair := range pairPattern.FindAllStringSubmatch(want, -1) {
		w[unquote(pair[1])] = nil
		if pair[2] != "NULL" {
			w[unquote(pair[1])] = unquote(pair[3])
		}
	}
	if text, ok := got.(raw); ok {
		if err := readJSON(string(text), &got); err != nil {
			return err
		}
	}
	return wantThat(reflect.DeepEqual(got, any(w)))
}

var escaped = regexp.MustCompile(`\\(.)`)

func unquote(text string) string { return escaped.ReplaceAllString(text, "$1") }

// equalArrays compares an array, of one dimension or more.
func equalArrays(element, want string, got any, lose func(base string, text *string) *string) error {
	list, ok := got.([]any)
	if !ok {
		return fmt.Errorf("got %v, no array", got)
	}
	w, err := elements(want, cmp.Or(delimiters[element], ","))
	if err != nil {
		return err
	}
	if len(w) != len(list) {
		return fmt.Errorf("got %d elements %v, Postgres has %d: %s", len(list), got, len(w), want)
	}
	for i := range w {
		err := equal(element, w[i].text, list[i], lose)
		if w[i].nested {
			err = equalArrays(element, *w[i].text, list[i], lose)
		}
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	return nil
}

// delimiters between elements of arrays that are not commas.
var delimiters = map[string]string{"geometry": ":", "geography": ":", "box": ";"}

// member is an element of an array: its text, nil for NULL, or that of a nested array.
type member struct {
	text   *string
	nested bool
}

// elements reads an array as Postgres writes it.
func elements(text, delimiter string) ([]member, error) {
	inner, ok := strings.CutPrefix(text, "{")
	if !ok || !strings.HasSuffix(inner, "}") {
		return nil, fmt.Errorf("the test cannot read the array %s", text)
	}
	inner = inner[:len(inner)-1]
	pattern := regexp.MustCompile(`^(?:"((?:[^"\\]|\\.)*)"|(\{[^{}]*\})|([^"` + delimiter + `{}]+))(?:` + delimiter + `|$)`)
	var list []member
	for inner != "" {
		m := pattern.FindStringSubmatch(inner)
		if m == nil {
			return nil, fmt.Errorf("the test cannot read the array %s", text)
		}
		inner = inner[len(m[0]):]
		switch quoted := unquote(m[1]); {
		case m[2] != "":
			list = append(list, member{&m[2], true})
		case m[3] == "NULL":
			list = append(list, member{})
		case m[3] != "":
			list = append(list, member{&m[3], false})
		default:
			list = append(list, member{&quoted, false})
		}
	}
	return list, nil
}

func equalPoints(want string, got any) error {
	object, ok := got.(map[string]any)
	if !ok {
		return errors.New("that is no point")
	}
	text := fmt.Sprintf("(%v,%v)", object["x"], object["y"])
	var x, y, wx, wy float64
	if _, err := fmt.Sscanf(text, "(%g,%g)", &x, &y); err != nil {
		return err
	}
	if _, err := fmt.Sscanf(want, "(%g,%g)", &wx, &wy); err != nil {
		return err
	}
	wkb, ok := object["wkb"].([]byte)
	if !ok || len(wkb) != 21 {
		return errors.New("that is no WKB of a point")
	}
	float := func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }
	return wantThat(x == wx && y == wy && float(wkb[5:]) == wx && float(wkb[13:]) == wy)
}

// equalGeometries compares EWKB, which is what PostGIS itself writes, and the SRID in it.
func equalGeometries(want string, got any) error {
	if text, ok := got.(string); ok {
		return wantThat(text == want)
	}
	object, ok := got.(map[string]any)
	if !ok {
		return errors.New("that is no geometry")
	}
	wkb, _ := object["wkb"].([]byte)
	var srid any
	if len(wkb) > 9 && binary.LittleEndian.Uint32(wkb[1:])&0x20000000 != 0 {
		srid = int64(binary.LittleEndian.Uint32(wkb[5:]))
	}
	if object["srid"] != srid {
		return fmt.Errorf("SRID %v, in the EWKB %v", object["srid"], srid)
	}
	return wantThat(strings.EqualFold(hex.EncodeToString(wkb), want))
}

func equalVectors(want string, got any) error {
	list, ok := got.([]any)
	texts := strings.Split(strings.Trim(want, "[]"), ",")
	if !ok || len(texts) != len(list) {
		return errDifferent
	}
	for i, text := range texts {
		if err := equalFloats(text, list[i], 32); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	return nil
}

func equalSparse(want string, got any) error {
	if text, ok := got.(string); ok {
		return wantThat(text == want)
	}
	object, ok := got.(map[string]any)
	if !ok {
		return errors.New("that is no sparse vector")
	}
	elements, _ := object["vector"].(map[string]any)
	if pairs, isList := object["vector"].([]any); isList {
		elements = map[string]any{}
		for _, pair := range pairs {
			p := pair.([]any)
			elements[fmt.Sprint(p[0])] = p[1]
		}
	}
	list, dimensions, _ := strings.Cut(strings.TrimPrefix(want, "{"), "}/")
	if fmt.Sprint(object["dimensions"]) != dimensions {
		return errDifferent
	}
	count := 0
	for pair := range strings.SplitSeq(list, ",") {
		index, number, found := strings.Cut(pair, ":")
		if !found {
			continue
		}
		count++
		if err := equalFloats(number, elements[index], 32); err != nil {
			return fmt.Errorf("element %s: %w", index, err)
		}
	}
	return wantThat(count == len(elements))
}
