package weaviate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// wish is a change of the options for a collection that is there.
type wish struct {
	field  string // that New names, where the server cannot change it
	change func(*Options)
	done   func(class) bool // of a field that it can, says whether it has
}

// randomCollection makes options that a server takes.
type randomCollection struct{ *rand.Rand }

func pick[E any](r randomCollection, of ...E) E { return of[r.IntN(len(of))] }

func (r randomCollection) options(o Options) Options {
	for i := range 1 + r.IntN(3) {
		o.Vectors = append(o.Vectors, r.vector(fmt.Sprintf("%s_%d", pick(r, "text", "Text", "_x"), i)))
	}
	o.Properties = r.properties(2+r.IntN(4), true)
	o.Replication.DeletionStrategy = pick(r, "", TimeBasedResolution, DeleteOnConflict, NoAutomatedResolution)
	o.Replication.Factor, o.Tenants = r.IntN(2), r.IntN(3) == 0
	return o
}

func (r randomCollection) vector(name string) Vector {
	v := Vector{Name: name, Index: pick(r, "", HNSW, HNSW, Flat), Distance: pick(r, "", Cosine, Dot, L2Squared, Manhattan, Hamming)}
	measured := v.Distance != Manhattan && v.Distance != Hamming // by what all quantizers can
	switch {
	case v.Index == Flat:
		v.Quantizer = pick(r, "", Unquantized, BQ)
	case r.IntN(4) == 0:
		v.Distance, v.Multi, v.Muvera = pick(r, "", Cosine), true, r.IntN(2) == 0
	case measured:
		v.Quantizer = pick(r, "", Unquantized, PQ, BQ, SQ, RQ)
	}
	if v.Index != Flat {
		v.EF, v.EFConstruction, v.MaxConnections = pick(r, 0, -1, 60), pick(r, 0, 70), pick(r, 0, 20)
	}
	return v
}

func (r randomCollection) properties(n int, top bool) []Property {
	types := []DataType{Text, TextArray, Int, IntArray, Number, NumberArray, Boolean, BooleanArray, Date, DateArray, UUID, UUIDArray, Object, ObjectArray}
	if top {
		types = append(types, Blob, Geo, Phone)
	}
	var out []Property
	for i := range n {
		p := Property{Name: fmt.Sprintf("%s%d", pick(r, "some", "snake_case_", "camelCase", "_"), i), DataType: pick(r, types...)}
		switch {
		case p.DataType == Text, p.DataType == TextArray:
			p.Tokenization, p.NoSearch = pick(r, "", Word, Lowercase, Whitespace, Field), r.IntN(3) == 0
		case p.DataType == Object, p.DataType == ObjectArray:
			p.Nested = r.properties(1+r.IntN(2), false)
		case top && p.ranged(): // in objects, see TestServerRangesInObjects
			p.RangeFilter = r.IntN(2) == 0
		}
		p.NoFilter = r.IntN(3) == 0
		out = append(out, p)
	}
	return out
}

// wishes are one for each field of the options, whose collection is there.
func (r randomCollection) wishes(o Options, have class) []wish {
	out := []wish{
		{field: "multi-tenancy: enabled", change: func(o *Options) { o.Tenants = !o.Tenants }},
		{field: "replication: factor", change: func(o *Options) { o.Replication.Factor = 7 }},
		{
			change: func(o *Options) { o.Vectors = append(o.Vectors, Vector{Name: "new"}) },
			done:   func(c class) bool { return c.VectorConfig["new"].VectorIndexType == HNSW },
		},
		{
			change: func(o *Options) { o.Properties = append(o.Properties, Property{Name: "new", DataType: Date}) },
			done:   func(c class) bool { return newProperties(c.Properties)["new"].dataType == Date },
		},
		{
			field:  "property theIRs: name",
			change: func(o *Options) { o.Properties = append(o.Properties, Property{Name: "theIRs", DataType: Text}) },
		},
	}
	for _, s := range []DeletionStrategy{TimeBasedResolution, DeleteOnConflict, NoAutomatedResolution} {
		out = append(out, wish{
			change: func(o *Options) { o.Replication.DeletionStrategy = s },
			done:   func(c class) bool { return c.Replication.DeletionStrategy == s },
		})
	}
	for i := range o.Vectors {
		out = append(out, r.vectorWishes(i, o.Vectors[i], have.VectorConfig[o.Vectors[i].Name])...)
	}
	for i := range o.Properties {
		out = append(out, propertyWishes("property ", o.Properties[i], func(o *Options) *Property { return &o.Properties[i] })...)
	}
	return out
}

func (r randomCollection) vectorWishes(i int, v Vector, have vectorConfig) []wish {
	field := "vector " + v.Name + ": "
	on := func(change func(*Vector)) func(*Options) { return func(o *Options) { change(&o.Vectors[i]) } }
	config := func(c class) indexConfig { return c.VectorConfig[v.Name].VectorIndexConfig }
	var out []wish
	if !v.Multi {
		other := Dot
		if have.VectorIndexConfig.Distance == Dot {
			other = Cosine
		}
		out = append(out, wish{field: field + "distance", change: on(func(v *Vector) { v.Distance = other })})
	}
	if v.Index == Flat {
		is := have.VectorIndexConfig.quantizer()
		out = append(
			out, wish{field: field + "index", change: on(func(v *Vector) { v.Index = HNSW })},
			wish{field: field + "quantizer", change: on(func(v *Vector) { v.Quantizer = cmp.Or(map[Quantizer]Quantizer{BQ: Unquantized}[is], BQ) })},
		)
		return out
	}
	out = append(
		out, wish{field: field + "efConstruction", change: on(func(v *Vector) { v.EFConstruction = 77 })},
		wish{field: field + "maxConnections", change: on(func(v *Vector) { v.MaxConnections = 33 })},
		wish{change: on(func(v *Vector) { v.EF = 88 }), done: func(c class) bool { return config(c).EF == 88 }},
	)
	switch {
	case v.Muvera:
		out = append(out, wish{field: field + "multi-vector: MUVERA", change: on(func(v *Vector) { v.Muvera = false })})
	case v.Multi:
		out = append(out, wish{field: field + "multi-vector", change: on(func(v *Vector) { v.Multi = false })})
	case v.Distance == Manhattan, v.Distance == Hamming:
	case have.VectorIndexConfig.quantizer() == Unquantized:
		q := pick(r, quantizers...)
		out = append(out, wish{
			change: on(func(v *Vector) { v.Quantizer = q }), done: func(c class) bool { return config(c).quantizer() == q },
		})
	default:
		out = append(out, wish{field: field + "quantizer", change: on(func(v *Vector) { v.Quantizer = Unquantized })})
	}
	return out
}

// propertyWishes are those for a property, which is found in options by at.
func propertyWishes(prefix string, p Property, at func(*Options) *Property) []wish {
	field := prefix + p.Name
	on := func(name string, change func(*Property)) wish {
		return wish{field: field + ": " + name, change: func(o *Options) { change(at(o)) }}
	}
	out := []wish{
		on("filterable", func(p *Property) { p.NoFilter = !p.NoFilter }),
		on("type", func(p *Property) {
			*p = Property{Name: p.Name, DataType: map[DataType]DataType{Boolean: BooleanArray}[p.DataType]}
			p.DataType = cmp.Or(p.DataType, Boolean)
		}),
	}
	if p.DataType == Text || p.DataType == TextArray {
		out = append(out, on("searchable", func(p *Property) { p.NoSearch = !p.NoSearch }), on("tokenization", func(p *Property) {
			p.Tokenization = map[Tokenization]Tokenization{Field: Word, Trigram: Word, Lowercase: Field, Whitespace: Field}[p.Tokenization]
			p.Tokenization = cmp.Or(p.Tokenization, Trigram)
		}))
	}
	if p.ranged() && prefix == "property " {
		out = append(out, on("range filters", func(p *Property) { p.RangeFilter = !p.RangeFilter }))
	}
	for i := range p.Nested {
		out = append(out, propertyWishes(field+".", p.Nested[i], func(o *Options) *Property { return &at(o).Nested[i] })...)
	}
	if len(p.Nested) > 0 {
		out = append(out, wish{field: field + ".more", change: func(o *Options) {
			p := at(o)
			p.Nested = append(p.Nested, Property{Name: "more", DataType: Text})
		}})
	}
	return out
}

// with returns options with wishes, which share nothing with o.
func (o Options) with(wishes ...wish) Options {
	text, err := json.Marshal([]any{o.Vectors, o.Properties})
	o.Vectors, o.Properties = nil, nil
	if err == nil {
		err = json.Unmarshal(text, &[]any{&o.Vectors, &o.Properties})
	}
	if err != nil {
		panic(err)
	}
	for _, w := range wishes {
		w.change(&o)
	}
	return o
}

// others adds to a collection what only others make.
func others(t *testing.T, want class) map[string]any {
	t.Helper()
	text, err := json.Marshal(want.created())
	var out map[string]any
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	out["description"] = "Theirs."
	out["moduleConfig"] = map[string]any{"generative-openai": map[string]any{"model": "gpt-4o"}, "reranker-cohere": map[string]any{}}
	out["invertedIndexConfig"] = map[string]any{"bm25": map[string]any{"b": 0.6, "k1": 1.1}, "indexNullState": true}
	out["vectorConfig"].(map[string]any)["theirs"] = map[string]any{
		"vectorizer":      map[string]any{"text2vec-openai": map[string]any{"properties": []string{"theirs"}}},
		"vectorIndexType": "hnsw",
	}
	out["properties"] = append(out["properties"].([]any), map[string]any{
		"name": "theirs", "dataType": []string{"text"}, "description": "Also theirs.",
		"moduleConfig": map[string]any{"text2vec-openai": map[string]any{"skip": true}},
	})
	return out
}

// raw is the JSON of a collection as the server has it.
func raw(t *testing.T, c *conn, name string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := c.rest(t.Context(), http.MethodGet, "/v1/schema/"+name, nil, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestServerRandomCollections opens random collections that others made, with more than the options ask for, and wants them to fit. Then each field of the options
// in turn is another one: New names it and changes nothing, even where another difference is one that it can mend; or it changes that
// field and none of the others.
func TestServerRandomCollections(t *testing.T) {
	seed := servicetest.Seed(t)
	for i := range uint64(4) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := randomCollection{rand.New(rand.NewPCG(seed, i))}
			o := r.options(serverOptions(t))
			c := testConn(t, o)
			if err := c.rest(t.Context(), http.MethodPost, "/v1/schema", others(t, o.withDefaults().wanted()), nil); err != nil {
				t.Fatal(err)
			}
			open(t, o)
			r.attack(t, c, o)
		})
	}
}

func (r randomCollection) attack(t *testing.T, c *conn, o Options) { //nolint:thelper // its failures are the test's
	both := func() [2]map[string]any {
		return [2]map[string]any{raw(t, c, o.Collection), raw(t, c, o.Collection+tombstones)}
	}
	before := both()
	open(t, o)
	if after := both(); !reflect.DeepEqual(after, before) {
		t.Errorf("opened again, the collection changes from %v to %v", before, after)
	}
	have, err := c.class(t.Context(), o.Collection)
	if err != nil {
		t.Fatal(err)
	}
	wishes := r.wishes(o, have)
	refused := slices.DeleteFunc(slices.Clone(wishes), func(w wish) bool { return w.field == "" })
	mended := slices.DeleteFunc(wishes, func(w wish) bool { return w.field != "" })
	for _, w := range refused {
		for _, all := range [][]wish{{w}, {pick(r, mended...), w}} {
			_, err := New(t.Context(), o.with(all...))
			var differs *CollectionError
			if !errors.As(err, &differs) || !errors.Is(err, ErrCollection) || !itemerror.IsPermanent(err) ||
				len(differs.Differences) != 1 || differs.Differences[0].Field != w.field {
				t.Errorf("%s: error %v", w.field, err)
			}
		}
	}
	if after := both(); !reflect.DeepEqual(after, before) {
		t.Errorf("refused, and yet the collection changes\nfrom %v\nto   %v", before, after)
	}
	o = o.with()
	for _, w := range mended {
		o = o.with(w)
		s := open(t, o)
		have, err := c.class(t.Context(), o.Collection)
		if err != nil || !w.done(have) {
			t.Errorf("a difference that can be mended is there still: %+v, error %v", have, err)
		}
		if kept := s.schema.Load().properties["theirs"]; kept == nil {
			t.Error("the Store does not know the property of others")
		}
	}
	after := both()
	for _, name := range []string{"description", "moduleConfig", "invertedIndexConfig", "multiTenancyConfig"} {
		if !reflect.DeepEqual(after[0][name], before[0][name]) {
			t.Errorf("%s was %v and is %v", name, before[0][name], after[0][name])
		}
	}
	for name, v := range before[0]["vectorConfig"].(map[string]any) {
		if name == "theirs" && !reflect.DeepEqual(v, after[0]["vectorConfig"].(map[string]any)[name]) {
			t.Errorf("the vector of others was %v", v)
		}
	}
	o.OpenOnly = true
	open(t, o)
	if again := both(); !reflect.DeepEqual(again, after) {
		t.Errorf("opened alone, the collection changes from %v to %v", after, again)
	}
}

// TestServerRangesInObjects: of a collection with indexes for ranges in objects, properties are added alone, since the server would lose
// those indexes.
func TestServerRangesInObjects(t *testing.T) {
	o := serverOptions(t)
	c := testConn(t, o)
	leaf := Property{Name: "n", DataType: Number, RangeFilter: true}
	o.Properties = []Property{{Name: "o", DataType: Object, Nested: []Property{{Name: "p", DataType: ObjectArray, Nested: []Property{leaf}}}}}
	open(t, o)
	before := raw(t, c, o.Collection)
	vector := wish{change: func(o *Options) { o.Vectors = []Vector{{Name: "new"}} }}
	_, err := New(t.Context(), o.with(vector))
	if !errors.Is(err, ErrCollection) || !strings.Contains(err.Error(), "vector new is missing; want hnsw; the server changes no collection") {
		t.Errorf("error is %v", err)
	}
	if after := raw(t, c, o.Collection); !reflect.DeepEqual(after, before) {
		t.Errorf("the collection changes from %v to %v", before, after)
	}
	o.Properties = append(o.Properties, Property{Name: "new", DataType: Text})
	open(t, o)
	open(t, o)
}

// TestServerQuantizes: the index of a quantizer that is asked for later does compress what it holds.
func TestServerQuantizes(t *testing.T) {
	o := serverOptions(t)
	o.Vectors = []Vector{{Name: "text_vector", Quantizer: Unquantized}}
	s := open(t, o)
	apply(t, s, upserts(numbered(300)...)...)
	o.Vectors[0].Quantizer = RQ
	again := open(t, o)
	for {
		var nodes struct {
			Nodes []struct {
				Shards []struct{ Compressed bool }
			}
		}
		if err := s.conn.rest(t.Context(), http.MethodGet, "/v1/nodes/"+o.Collection+"?output=verbose", nil, &nodes); err != nil {
			t.Fatal(err)
		}
		if n := nodes.Nodes; len(n) > 0 && len(n[0].Shards) > 0 && n[0].Shards[0].Compressed {
			break
		}
		if !sleep(t.Context(), 50*time.Millisecond) {
			t.Fatal("not compressed")
		}
	}
	if found, err := again.Search(t.Context(), vectorstore.Query{Vector: "text_vector", Near: []float32{1, 7}, Limit: 5}); err != nil || len(found) != 5 {
		t.Errorf("found %v, error %v", found, err)
	}
}

// TestServerUnnamedVector: a collection that was made with one vector without a name gets named ones beside it. What is stored stays; a
// Merge keeps it, as it keeps everything.
func TestServerUnnamedVector(t *testing.T) {
	o := serverOptions(t)
	c := testConn(t, o)
	legacy := map[string]any{"class": o.Collection, "vectorizer": "none", "properties": []any{map[string]any{"name": "title", "dataType": []string{"text"}}}}
	if err := c.rest(t.Context(), http.MethodPost, "/v1/schema", legacy, nil); err != nil {
		t.Fatal(err)
	}
	theirs := map[string]any{"class": o.Collection, "id": idOf(1), "properties": map[string]any{"title": "old"}, "vector": []float32{3, 4, 5}}
	if err := c.rest(t.Context(), http.MethodPost, "/v1/objects", theirs, nil); err != nil {
		t.Fatal(err)
	}
	s := open(t, o)
	check := func(title string, vectors map[string][]float32) {
		t.Helper()
		if got := get(t, s, 1); got.Properties["title"] != title || !reflect.DeepEqual(got.Vectors, vectors) {
			t.Errorf("stored %+v", got)
		}
	}
	old, named := []float32{3, 4, 5}, []float32{1, 0}
	check("old", map[string][]float32{"": old})
	apply(t, s, vectorstore.Mutation{Action: vectorstore.Merge, Object: vectorstore.Object{
		Ref: vectorstore.Ref{ID: idOf(1)}, Vectors: map[string][]float32{"text_vector": named},
	}})
	check("old", map[string][]float32{"": old, "text_vector": named})
	s = open(t, o)
	apply(t, s, vectorstore.Mutation{Action: vectorstore.Merge, Object: vectorstore.Object{
		Ref: vectorstore.Ref{ID: idOf(1)}, Properties: map[string]any{"title": "new"},
	}})
	check("new", map[string][]float32{"": old, "text_vector": named})
	if found, err := s.Search(t.Context(), vectorstore.Query{Vector: "text_vector", Near: named}); err != nil || len(found) != 1 {
		t.Errorf("found %v, error %v", found, err)
	}
	for name, bad := range map[string][]float32{"shorter": {1, 2}, "not finite": {1, float32(math.Inf(1)), 0}, "zero": {0, 0, 0}} {
		err := s.Apply(t.Context(), []vectorstore.Mutation{{Action: vectorstore.Merge, Object: vectorstore.Object{
			Ref: vectorstore.Ref{ID: idOf(1)}, Vectors: map[string][]float32{"": bad},
		}}})
		if !errors.Is(err, vectorstore.ErrVector) || !itemerror.IsPermanent(err) {
			t.Errorf("%s: %v, want a permanent error that is ErrVector", name, err)
		}
	}
	check("new", map[string][]float32{"": old, "text_vector": named})
	apply(t, s, vectorstore.Mutation{Object: vectorstore.Object{Ref: vectorstore.Ref{ID: idOf(2)}, Vectors: map[string][]float32{"": {3, 4, 6}}}})
	for _, q := range []vectorstore.Query{{Near: old}, {Near: old, Text: "new"}, {Object: idOf(1), Targets: []vectorstore.Target{{}}}} {
		if found, err := s.Search(t.Context(), q); err != nil || len(found) != 2 || found[0].Object.ID != idOf(1) {
			t.Errorf("near the vector without a name: found %v, error %v", found, err)
		}
	}
	for _, near := range []vectorstore.Query{
		{Near: []float32{1, 0}}, {Targets: []vectorstore.Target{{Near: old}, {Vector: "text_vector", Near: named}}},
	} {
		if found, err := s.Search(t.Context(), near); !itemerror.IsPermanent(err) {
			t.Errorf("%+v: found %v, error %v, want a permanent one", near, found, err)
		}
	}
	apply(t, s, vectorstore.Mutation{Action: vectorstore.Merge, Object: vectorstore.Object{
		Ref: vectorstore.Ref{ID: idOf(1)}, Vectors: map[string][]float32{"": nil},
	}})
	check("new", map[string][]float32{"text_vector": named})
	apply(t, s, upserts(1)...)
	if got := get(t, s, 1); len(got.Vectors) != 1 {
		t.Errorf("stored %+v", got)
	}
}

// TestServerCollectionsOfPython opens collections as users of the Python client make them.
func TestServerCollectionsOfPython(t *testing.T) {
	o := serverOptions(t)
	c := testConn(t, o)
	open(t, o) // for the clean-up
	names := map[string]string{}
	out := servicetest.Python(t, []string{"weaviate-client==4.24.1"}, "testdata/collections.py", o.HTTP, o.GRPC, o.Collection)
	if err := json.Unmarshal(out, &names); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, name := range slices.Sorted(maps.Values(names)) {
			for _, name := range []string{name, name + tombstones} {
				if err := c.rest(context.Background(), http.MethodDelete, "/v1/schema/"+name, nil, nil); err != nil {
					t.Errorf("dropping %s: %v", name, err)
				}
			}
		}
	})
	text := []Property{{Name: "title", DataType: Text}}
	for name, change := range map[string]func(*Options){
		"plain":   func(o *Options) { o.Vectors = []Vector{{Name: "default"}}; o.Properties = text },
		"two":     func(o *Options) { o.Properties = text },
		"legacy":  func(o *Options) { o.Properties = text },
		"tenants": func(o *Options) { o.Vectors = []Vector{{Name: "default"}}; o.Tenants = true },
		"tuned": func(o *Options) {
			o.Vectors = []Vector{{Name: "text_vector", Distance: L2Squared, EFConstruction: 90, MaxConnections: 24, EF: 99, Quantizer: RQ}}
			o.Properties = []Property{
				{Name: "title", DataType: Text, Tokenization: Field, NoSearch: true},
				{Name: "price", DataType: Number, RangeFilter: true},
				{Name: "maker", DataType: Object, Nested: []Property{{Name: "name", DataType: Text}}},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := o
			o.Collection = names[name]
			change(&o)
			s := open(t, o)
			open(t, o)
			vector := slices.Concat(o.Vectors, []Vector{{Name: "text_vector"}})[0].Name
			object := vectorstore.Object{
				Ref: vectorstore.Ref{ID: idOf(1)}, Properties: map[string]any{"title": "new"}, Vectors: map[string][]float32{vector: {1, 2, 3}}, Version: "v1",
			}
			if o.Tenants {
				object.Tenant = "newcomer"
			}
			apply(t, s, vectorstore.Mutation{Object: object})
			found, err := s.Search(t.Context(), vectorstore.Query{Tenant: object.Tenant, Vector: vector, Near: []float32{1, 2, 3}, Limit: 1})
			if err != nil || len(found) != 1 || found[0].Object.Properties["title"] != "new" || found[0].Object.Version != "v1" {
				t.Errorf("found %+v, error %v", found, err)
			}
		})
	}
	o.Collection = names["module"]
	if _, err := New(t.Context(), o); !errors.Is(err, ErrCollection) || !strings.Contains(err.Error(), "vector text_vector: vectorizer is text2vec-openai; want none") {
		t.Errorf("a collection whose vectors the server makes: %v", err)
	}
}
