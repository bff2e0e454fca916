package avro_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/pulsarx/internal/avro"
)

// node is a schema; the same record, enum or fixed in several places is the same node.
type node struct {
	kind        string
	name, space string
	aliases     []string
	symbols     []string
	def         any // an enum's
	size        int
	elem        *node
	branches    []*node
	fields      []nodeField
}

type nodeField struct {
	name    string
	aliases []string
	typ     *node
	def     any // none where it is nothing
}

type nothing struct{}

func (n *node) full() string {
	if n.space == "" {
		return n.name
	}
	return n.space + "." + n.name
}

// render is the schema as JSON holds it, where space is the namespace around it.
func (n *node) render(space string, seen map[*node]bool, r *rand.Rand) any {
	switch n.kind {
	case "union":
		all := []any{}
		for _, b := range n.branches {
			all = append(all, b.render(space, seen, r))
		}
		return all
	case "array":
		return map[string]any{"type": "array", "items": n.elem.render(space, seen, r)}
	case "map":
		return map[string]any{"type": "map", "values": n.elem.render(space, seen, r)}
	case "record", "enum", "fixed":
	default:
		if r.IntN(8) == 0 {
			return map[string]any{"type": n.kind}
		}
		return n.kind
	}
	if seen[n] {
		if n.space == space && r.IntN(2) == 0 {
			return n.name
		}
		return n.full()
	}
	seen[n] = true
	out := map[string]any{"type": n.kind, "name": n.name}
	switch {
	case n.space == space && r.IntN(2) == 0:
	case n.space != "" && r.IntN(2) == 0:
		out["name"] = n.full()
	default:
		out["namespace"] = n.space
	}
	if n.aliases != nil {
		out["aliases"] = n.aliases
	}
	switch n.kind {
	case "enum":
		out["symbols"] = n.symbols
		if n.def != nil {
			out["default"] = n.def
		}
	case "fixed":
		out["size"] = n.size
	default:
		fields := []any{}
		for _, f := range n.fields {
			field := map[string]any{"name": f.name, "type": f.typ.render(n.space, seen, r)}
			if f.aliases != nil {
				field["aliases"] = f.aliases
			}
			if f.def != (nothing{}) {
				field["default"] = f.def
			}
			fields = append(fields, field)
		}
		out["fields"] = fields
	}
	return out
}

// pairMaker makes schemas, readers' schemas for what they write, and data.
type pairMaker struct {
	*rand.Rand
	n     int
	named []*node
}

func (g *pairMaker) some(p float64) bool { return g.Float64() < p }

func (g *pairMaker) new(prefix string) string { g.n++; return prefix + strconv.Itoa(g.n) }

var scalars = []string{"null", "boolean", "int", "long", "float", "double", "bytes", "string"}

func (g *pairMaker) schema(depth int, space string) *node {
	if len(g.named) > 0 && g.some(0.1) {
		return g.named[g.IntN(len(g.named))]
	}
	if depth <= 0 || g.some(0.4) {
		return &node{kind: scalars[g.IntN(len(scalars))]}
	}
	switch g.IntN(6) {
	case 0:
		return g.define(&node{kind: "enum", symbols: []string{"A", "B", "C"}[:1+g.IntN(3)]}, space)
	case 1:
		return g.define(&node{kind: "fixed", size: g.IntN(5)}, space)
	case 2:
		return &node{kind: "array", elem: g.schema(depth-1, space)}
	case 3:
		return &node{kind: "map", elem: g.schema(depth-1, space)}
	case 4:
		u := &node{kind: "union"}
		for range 1 + g.IntN(4) {
			u.add(g.schema(depth-1, space))
		}
		return u
	}
	return g.record(depth, space)
}

// add adds a branch, if the union may have it.
func (n *node) add(b *node) {
	if b.kind == "union" {
		for _, inner := range b.branches {
			n.add(inner)
		}
		return
	}
	for _, have := range n.branches {
		if have.key() == b.key() {
			return
		}
	}
	n.branches = append(n.branches, b)
}

func (n *node) key() string {
	if n.name != "" {
		return n.full()
	}
	return n.kind
}

func (g *pairMaker) define(n *node, space string) *node {
	n.name, n.space = g.new(strings.ToUpper(n.kind[:1])), space
	if g.some(0.3) {
		n.space = []string{"", "a", "a.b", "c"}[g.IntN(4)]
	}
	if n.kind != "record" {
		g.named = append(g.named, n)
	}
	return n
}

func (g *pairMaker) record(depth int, space string) *node {
	n := g.define(&node{kind: "record"}, space)
	for range g.IntN(5) {
		typ := g.schema(depth-1, n.space)
		if g.some(0.1) { // itself
			inner := n
			switch g.IntN(3) {
			case 0:
				typ = &node{kind: "array", elem: inner}
			case 1:
				typ = &node{kind: "map", elem: inner}
			default:
				typ = &node{kind: "union", branches: []*node{{kind: "null"}, inner}}
			}
		}
		n.fields = append(n.fields, nodeField{g.new("f"), nil, typ, nothing{}})
	}
	g.named = append(g.named, n)
	return n
}

var up = map[string][]string{"int": {"long", "float", "double"}, "long": {"float", "double"}, "float": {"double"}, "string": {"bytes"}, "bytes": {"string"}}

// evolve is a reader's schema for what n writes.
func (g *pairMaker) evolve(n *node, known map[*node]*node) *node {
	if e := known[n]; e != nil {
		return e
	}
	e := *n
	switch n.kind {
	case "union":
		u := &node{kind: "union"}
		for _, i := range g.Perm(len(n.branches)) {
			if g.some(0.9) || n.branches[i].kind == "record" { // Java reads one record as any other that has its fields
				u.add(g.evolve(n.branches[i], known))
			}
		}
		switch {
		case len(u.branches) == 0:
			u.add(&node{kind: "null"})
		case len(u.branches) == 1 && g.some(0.5):
			return u.branches[0]
		}
		if g.some(0.2) {
			u.add(&node{kind: scalars[g.IntN(len(scalars))]})
		}
		return u
	case "array", "map":
		e.elem = g.evolve(n.elem, known)
		return g.maybeUnion(&e)
	case "record", "enum", "fixed":
		known[n] = &e
		if g.some(0.2) {
			old := n.full()
			e.name = g.new(strings.ToUpper(n.kind[:1]))
			if g.some(0.3) {
				e.space = []string{"", "a", "z"}[g.IntN(3)]
			}
			if e.space == n.space && g.some(0.5) {
				old = n.name
			}
			if n.space == "" && e.space != "" { // an alias without a dot would be of the namespace
				e.space = ""
			}
			e.aliases = []string{"Other", old}
		}
		switch n.kind {
		case "enum":
			if g.some(0.3) {
				e.symbols = []string{"C", "D", "A"}
				if g.some(0.7) {
					e.def = "D"
				}
			}
		case "record":
			g.evolveFields(n, &e, known)
		}
		return &e
	}
	if g.some(0.3) && len(up[n.kind]) > 0 {
		e.kind = up[n.kind][g.IntN(len(up[n.kind]))]
	} else if g.some(0.02) {
		e.kind = scalars[g.IntN(len(scalars))]
	}
	return g.maybeUnion(&e)
}

func (g *pairMaker) maybeUnion(n *node) *node {
	if !g.some(0.15) {
		return n
	}
	u := &node{kind: "union"}
	for range g.IntN(3) {
		u.add(&node{kind: scalars[g.IntN(len(scalars))]})
	}
	u.add(n)
	g.Shuffle(len(u.branches), func(i, j int) { u.branches[i], u.branches[j] = u.branches[j], u.branches[i] })
	return u
}

func (g *pairMaker) evolveFields(n, e *node, known map[*node]*node) {
	e.fields = nil
	for _, f := range n.fields {
		if g.some(0.15) {
			continue
		}
		f.typ = g.evolve(f.typ, known)
		if g.some(0.2) {
			f.aliases, f.name = []string{"x", f.name}, g.new("renamed")
		}
		e.fields = append(e.fields, f)
	}
	for range g.IntN(3) {
		typ := g.schema(2, e.space)
		f := nodeField{g.new("added"), nil, typ, nothing{}}
		if d, ok := g.value(typ, 0); ok && g.some(0.95) {
			f.def = d
		}
		e.fields = append(e.fields, f)
	}
	g.Shuffle(len(e.fields), func(i, j int) { e.fields[i], e.fields[j] = e.fields[j], e.fields[i] })
}

// value is a default.
func (g *pairMaker) value(n *node, depth int) (any, bool) {
	if depth > 6 {
		return nil, false
	}
	switch n.kind {
	case "null":
		return nil, true
	case "boolean":
		return g.some(0.5), true
	case "int":
		return []any{0, -5, math.MaxInt32, math.MinInt32}[g.IntN(4)], true
	case "long":
		return []any{0, -5, int64(math.MaxInt64), int64(math.MinInt64)}[g.IntN(4)], true
	case "float":
		return []any{0, -1.5, 3, 1e10}[g.IntN(4)], true
	case "double":
		return []any{0, -0.1, 3, 1e300}[g.IntN(4)], true
	case "bytes":
		return []any{"", "abc", "\u0000\u00ff\u0080"}[g.IntN(3)], true
	case "string":
		return []any{"", "abc"}[g.IntN(2)], true
	case "fixed":
		return strings.Repeat("\u00ff", n.size), true
	case "enum":
		return n.symbols[g.IntN(len(n.symbols))], true
	case "array":
		out := []any{}
		for range g.IntN(3) {
			v, ok := g.value(n.elem, depth+1)
			if !ok {
				return nil, false
			}
			out = append(out, v)
		}
		return out, true
	case "map":
		out := map[string]any{}
		for range g.IntN(3) {
			v, ok := g.value(n.elem, depth+1)
			if !ok {
				return nil, false
			}
			out[g.new("k")] = v
		}
		return out, true
	case "union":
		return g.value(n.branches[0], depth+1)
	}
	out := map[string]any{}
	for _, f := range n.fields {
		if f.def != (nothing{}) && g.some(0.5) {
			continue
		}
		v, ok := g.value(f.typ, depth+1)
		if !ok {
			return nil, false
		}
		out[f.name] = v
	}
	return out, true
}

// datum appends data of the schema.
func (g *pairMaker) datum(dst []byte, s *avro.Schema, depth int) []byte {
	switch s.Kind {
	case avro.Null:
		return dst
	case avro.Boolean:
		return append(dst, byte(g.IntN(2)))
	case avro.Int:
		return binary.AppendVarint(dst, []int64{0, 1, -1, math.MaxInt32, math.MinInt32, g.Int64N(1000)}[g.IntN(6)])
	case avro.Long:
		return binary.AppendVarint(dst, []int64{0, 1, -1, math.MaxInt64, math.MinInt64, g.Int64()}[g.IntN(6)])
	case avro.Float:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32([]float64{0, -1.5, math.Inf(1), 0.1, g.Float64()}[g.IntN(5)])))
	case avro.Double:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits([]float64{0, -1.5, math.Inf(-1), 0.1, g.Float64()}[g.IntN(5)]))
	case avro.Bytes, avro.String:
		text := []string{"", "a", "bc", strings.Repeat("long", 50)}[g.IntN(4)]
		return append(binary.AppendVarint(dst, int64(len(text))), text...)
	case avro.Fixed:
		for range s.Size {
			dst = append(dst, byte(g.Uint32()))
		}
		return dst
	case avro.Enum:
		return binary.AppendVarint(dst, int64(g.IntN(len(s.Symbols))))
	case avro.Union:
		i := g.IntN(len(s.Branches))
		if depth > 8 {
			for j, b := range s.Branches {
				if b.Kind == avro.Null {
					i = j
				}
			}
		}
		return g.datum(binary.AppendVarint(dst, int64(i)), s.Branches[i], depth+1)
	case avro.Record:
		for _, f := range s.Fields {
			dst = g.datum(dst, f.Type, depth+1)
		}
		return dst
	}
	if depth > 8 {
		return append(dst, 0)
	}
	for range g.IntN(3) {
		var block []byte
		n := 1 + g.IntN(3)
		for range n {
			if s.Kind == avro.Map {
				key := g.new("k")
				block = append(binary.AppendVarint(block, int64(len(key))), key...)
			}
			block = g.datum(block, s.Elem, depth+1)
		}
		if g.some(0.3) {
			dst = binary.AppendVarint(binary.AppendVarint(dst, -int64(n)), int64(len(block)))
		} else {
			dst = binary.AppendVarint(dst, int64(n))
		}
		dst = append(dst, block...)
	}
	return append(dst, 0)
}

// exactly is canon with the bits of numbers, as Resolve.java prints them.
func exactly(v any) any {
	switch v := v.(type) {
	case float64:
		return fmt.Sprintf("f:%x", math.Float64bits(v))
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = exactly(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			out[k] = exactly(x)
		}
		return out
	}
	return canon(v)
}

type pair struct{ writer, reader, data []byte }

func (g *pairMaker) pair(t *testing.T) pair {
	t.Helper()
	g.named, g.n = nil, 0
	w := g.record(4, []string{"", "a"}[g.IntN(2)])
	if g.some(0.2) {
		w = g.schema(4, "")
	}
	g.named = nil // what the reader adds has names of its own
	r := g.evolve(w, map[*node]*node{})
	var p pair
	var err error
	if p.writer, err = json.Marshal(w.render("", map[*node]bool{}, g.Rand)); err != nil {
		t.Fatal(err)
	}
	if p.reader, err = json.Marshal(r.render("", map[*node]bool{}, g.Rand)); err != nil {
		t.Fatal(err)
	}
	schema, err := avro.Parse(p.writer, true)
	if err != nil {
		t.Fatalf("%s: %v", p.writer, err)
	}
	p.data = g.datum(nil, schema, 0)
	return p
}

// TestReference compares with what Avro for Java reads of random data with random pairs of schemas.
func TestReference(t *testing.T) {
	g := &pairMaker{Rand: rand.New(rand.NewPCG(servicetest.Seed(t), 1))}
	var pairs []pair
	var lines bytes.Buffer
	for len(pairs) < 5000 {
		if p := g.pair(t); len(p.data) < 300 && len(p.writer)+len(p.reader) < 3000 {
			pairs = append(pairs, p)
			fmt.Fprintf(&lines, "%s\t%s\t%x\n", p.writer, p.reader, p.data)
		}
	}
	file := filepath.Join(t.TempDir(), "pairs")
	if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	results := strings.Split(string(servicetest.Java(t, "testdata/reference", "Resolve", file)), "\n")
	if len(results) != len(pairs)+1 {
		t.Fatalf("%d results of %d pairs", len(results)-1, len(pairs))
	}
	read, refused := 0, 0
	for i, p := range pairs {
		v, err := decodeAny(p.writer, p.reader, p.data)
		switch says := p.compare(v, err, results[i]); {
		case says != "":
			t.Errorf("%s\nas %s\ndata %x\nJava: %.500s\nhere: %v %v: %s", p.writer, p.reader, p.data, results[i], exactly(v), err, says)
		case err == nil:
			read++
		default:
			refused++
		}
	}
	if read < 4000 || refused < 200 {
		t.Errorf("%d read alike, %d refused alike", read, refused)
	}
}

// compare says what is not as in Java.
func (p pair) compare(v any, err error, java string) string {
	refusal, refused := strings.CutPrefix(java, "!")
	switch {
	case refused && strings.Contains(refusal, "fields not set yet"): // Java knows no default of a record in itself
	case refused && err == nil:
		return "Java refuses"
	case refused:
	case err != nil && (strings.Contains(java, "[]") || strings.Contains(java, "{}")): // Java looks at items when there are some
	case err != nil:
		return "Java reads"
	default:
		var want any
		if err := json.Unmarshal([]byte(java), &want); err != nil {
			return err.Error()
		}
		if !reflect.DeepEqual(exactly(v), want) {
			return "they differ"
		}
	}
	return ""
}
