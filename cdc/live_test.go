package cdc_test

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
)

// liveRows is how many rows of random values the real Debezium sends.
const liveRows = 40

// TestLive has a real Debezium send random values, and compares with what SELECT returns for them. CDC_SEED chooses other values, and
// with them another mode.
func TestLive(t *testing.T) {
	seed := uint64(1)
	if text := os.Getenv("CDC_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	candidates := slices.DeleteFunc(slices.Clone(settings), func(s setting) bool { return !s.schemas })
	s := candidates[seed%uint64(len(candidates))]
	t.Logf("CDC_SEED=%d, mode %s", seed, s.name)
	again, _, _ := strings.Cut(read(t, "story.sql"), "END $$;\n")
	story := again + "END $$;\nSELECT pg_logical_emit_message(true, 'end', '');\n"
	messages, truth := s.run(t, story, randomTable(rand.New(rand.NewPCG(seed, 0))))
	tables := map[string]table{truth[0].Name: truth[0]}
	if count, want := eachRow(t, s, messages, tables, s.checkRow), 3*liveRows; count != want {
		t.Errorf("%d rows, want %d", count, want)
	}
	typed[randomRow](t, s, messages, tables, "random")
}

// randomRow has some of the columns of the random table.
type randomRow struct {
	I8   *int64                `cdc:"c_bigint"`
	F8   *float64              `cdc:"c_double_precision"`
	N    cdc.Null[cdc.Decimal] `cdc:"c_numeric"`
	Text *string               `cdc:"c_text"`
	TS   *time.Time            `cdc:"c_timestamp"`
	TSTZ *time.Time            `cdc:"c_timestamptz"`
	IV   *cdc.Interval         `cdc:"c_interval"`
	TA   []*string             `cdc:"c_text_"`
}

// randomTable returns SQL for a table with a column for each type and rows of random values.
func randomTable(r *rand.Rand) string {
	types := []string{
		"smallint", "integer", "bigint", "real", "double precision", "oid", "boolean", "numeric", "numeric(12,4)", "numeric(38,10)", "money",
		"bytea", "bit(1)", "bit(11)", "varbit", "char(5)", "varchar(20)", "text", "jsonb", "json", "uuid", "hstore",
		"date", "time(0)", "time(3)", "time", "timetz", "timestamp(0)", "timestamp(3)", "timestamp", "timestamptz", "timestamptz(3)", "interval",
		"inet", "cidr", "macaddr", "point", "int4range", "numrange",
		"integer[]", "bigint[]", "text[]", "numeric[]", "double precision[]", "boolean[]", "date[]", "timestamp[]", "timestamptz[]", "uuid[]", "jsonb[]", "bytea[]",
	}
	var columns, rows []string
	for _, typ := range types {
		name := strings.Map(func(c rune) rune {
			if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
				return c
			}
			return '_'
		}, strings.TrimSuffix(typ, "]"))
		columns = append(columns, "c_"+name+" "+typ)
	}
	for i := range liveRows {
		values := []string{strconv.Itoa(i + 1)}
		for _, typ := range types {
			values = append(values, randomValue(r, typ)+"::"+typ)
		}
		rows = append(rows, "("+strings.Join(values, ", ")+")")
	}
	return "CREATE EXTENSION hstore;\nCREATE TABLE random (id int PRIMARY KEY, " + strings.Join(columns, ", ") + ");\n" +
		"ALTER TABLE random REPLICA IDENTITY FULL;\nINSERT INTO random VALUES\n" + strings.Join(rows, ",\n") + ";\n"
}

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// randomValue returns a literal, in one of ten cases NULL.
func randomValue(r *rand.Rand, typ string) string {
	if r.IntN(10) == 0 {
		return "NULL"
	}
	if element, ok := strings.CutSuffix(typ, "[]"); ok {
		values := make([]string, r.IntN(4))
		for i := range values {
			values[i] = randomValue(r, element)
		}
		return "ARRAY[" + strings.Join(values, ", ") + "]"
	}
	base, modifier, _ := strings.Cut(strings.TrimSuffix(typ, ")"), "(")
	return literal(randomText(r, base, modifier))
}

func randomText(r *rand.Rand, base, modifier string) string {
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	integer := func(bits int) string {
		n := int64(r.Uint64()) >> (64 - bits) >> r.IntN(bits)
		return strconv.FormatInt(n, 10)
	}
	digits := func(most int) string {
		var b strings.Builder
		b.WriteString(pick("1", "-2", "9"))
		for range r.IntN(most - 1) {
			b.WriteByte(byte('0' + r.IntN(10)))
		}
		return b.String()
	}
	octets := make([]byte, r.IntN(12))
	for i := range octets {
		octets[i] = byte(r.Uint32())
	}
	clock := fmt.Sprintf("%02d:%02d:%02d.%06d", r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1e6))
	day := time.Date(1, 1, 1+r.IntN(pickInt(r, 4e6, 1e6, 800_000)), 0, 0, 0, 0, time.UTC)
	date, era := day.Format("-01-02"), pick("", "", "", " BC")
	if era != "" {
		day = time.Date(1+r.IntN(4000), 1, 1+r.IntN(365), 0, 0, 0, 0, time.UTC)
		date = day.Format("-01-") + fmt.Sprintf("%02d", 1+r.IntN(28))
	}
	date = fmt.Sprintf("%04d", day.Year()) + date
	switch base {
	case "smallint":
		return integer(16)
	case "integer":
		return integer(32)
	case "bigint":
		return integer(64)
	case "oid":
		return strconv.FormatUint(uint64(r.Uint32()), 10)
	case "real":
		return pick(strconv.FormatFloat(float64(math.Float32frombits(r.Uint32())), 'g', -1, 32), "0.1", "1e10", "NaN")
	case "double precision":
		return pick(strconv.FormatFloat(math.Float64frombits(r.Uint64()), 'g', -1, 64), strconv.FormatFloat(r.NormFloat64(), 'g', -1, 64), "-Infinity")
	case "boolean":
		return pick("true", "false")
	case "numeric":
		switch modifier {
		case "12,4":
			return digits(8) + "." + strconv.Itoa(r.IntN(10000))
		case "38,10":
			return digits(28) + "." + strconv.Itoa(r.IntN(1e9))
		}
		return digits(60) + pick("", ".5", ".000", "."+strconv.Itoa(r.IntN(1e9)))
	case "money":
		return digits(16) + "." + strconv.Itoa(10+r.IntN(90))
	case "bytea":
		return `\x` + hex.EncodeToString(octets)
	case "bit", "varbit":
		n, err := strconv.Atoi(modifier)
		if err != nil {
			n = r.IntN(40)
		}
		var b strings.Builder
		for range n {
			b.WriteString(pick("0", "1"))
		}
		return b.String()
	case "char", "varchar", "text":
		return randomString(r, 5)
	case "json", "jsonb":
		return randomJSON(r, 3)
	case "uuid":
		return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", r.Uint32(), r.Uint32()>>16, r.Uint32()>>16, r.Uint32()>>16, r.Uint64()>>16)
	case "hstore":
		return pick("", "a=>1", `"k"=>NULL, "b"=>"x y"`, `"é"=>"\"\\"`)
	case "date":
		return pick(date+era, "infinity", "-infinity", date+era, date+era)
	case "time":
		return pick(clock, clock, "24:00:00")
	case "timetz":
		return clock + pick("+00", "-11", "+05:30", "+14")
	case "timestamp":
		return pick(date+" "+clock+era, date+" "+clock+era, "infinity", "-infinity")
	case "timestamptz":
		return pick(date+" "+clock+pick("+00", "-11", "+05:30")+era, date+" "+clock+"+00"+era, "infinity", "-infinity")
	case "interval":
		return fmt.Sprintf("%d years %d mons %d days %d seconds %d microseconds", r.IntN(400)-200, r.IntN(24)-12, r.IntN(100)-50, r.IntN(1e6)-5e5, r.IntN(1e6))
	case "inet":
		return pick(fmt.Sprintf("10.%d.%d.%d/%d", r.IntN(256), r.IntN(256), r.IntN(256), r.IntN(33)), fmt.Sprintf("2001:db8::%x", r.Uint32()>>16))
	case "cidr":
		return pick(fmt.Sprintf("10.%d.0.0/%d", r.IntN(256), 16+r.IntN(17)), fmt.Sprintf("2001:db8:%x::/48", r.Uint32()>>16))
	case "macaddr":
		return fmt.Sprintf("%012x", r.Uint64()>>16)
	case "point":
		return fmt.Sprintf("(%g,%g)", r.NormFloat64(), r.NormFloat64()*1e6)
	case "int4range":
		return pick("empty", "(,)", fmt.Sprintf("[%d,%d)", r.IntN(100), 100+r.IntN(100)))
	default: // numrange
		return pick("empty", "[1.50,)", fmt.Sprintf("(%d.5,%d.25]", r.IntN(100), 100+r.IntN(100)))
	}
}

func pickInt(r *rand.Rand, of ...int) int { return of[r.IntN(len(of))] }

// randomString has characters of all lengths in UTF-8, and those that other notations must escape.
func randomString(r *rand.Rand, most int) string {
	alphabet := []rune("aZ09 \t\n\"'\\/{}[],:<>&%éßЖ日本\u2028\u0001\U0001F600")
	var b strings.Builder
	for range r.IntN(most + 1) {
		b.WriteRune(alphabet[r.IntN(len(alphabet))])
	}
	return b.String()
}

func randomJSON(r *rand.Rand, depth int) string {
	kind := r.IntN(7)
	if depth == 0 {
		kind = r.IntN(5)
	}
	switch kind {
	case 0:
		return "null"
	case 1:
		return []string{"true", "false"}[r.IntN(2)]
	case 2:
		return strconv.FormatInt(int64(r.Uint64()), 10)
	case 3:
		return strconv.FormatFloat(r.NormFloat64(), 'f', -1, 64)
	case 4:
		return strconv.QuoteToASCII(strings.NewReplacer("\u0001", "", "\U0001F600", "").Replace(randomString(r, 8))) // what Go and JSON escape alike
	}
	parts := make([]string, r.IntN(4))
	for i := range parts {
		parts[i] = randomJSON(r, depth-1)
		if kind == 6 {
			parts[i] = fmt.Sprintf(`"k%d": %s`, i, parts[i])
		}
	}
	if kind == 5 {
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
