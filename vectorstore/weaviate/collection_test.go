package weaviate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// TestServerDeletionStrategy: a collection that New creates never has the server's default, which differs between versions.
func TestServerDeletionStrategy(t *testing.T) {
	o := serverOptions(t)
	open(t, o)
	for _, name := range []string{o.Collection, o.Collection + tombstones} {
		have, err := testConn(t, o).class(t.Context(), name)
		if err != nil || have.Replication == nil || have.Replication.DeletionStrategy != TimeBasedResolution {
			t.Errorf("%s has %+v, error %v", name, have.Replication, err)
		}
	}
}

// TestServerAddsVectors: a second named vector for a second model, added by several at once; what is there stays.
func TestServerAddsVectors(t *testing.T) {
	o := serverOptions(t)
	s := open(t, o)
	apply(t, s, upserts(1, 2)...)
	var adding sync.WaitGroup
	for _, name := range []string{"second", "third"} {
		adding.Go(func() {
			more := o
			more.Vectors = []Vector{{Name: "text_vector"}, {Name: name, Distance: Dot}}
			added, err := New(t.Context(), more)
			if err != nil {
				t.Error(err)
				return
			}
			if err := added.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	adding.Wait()
	o.Vectors = []Vector{{Name: "text_vector"}, {Name: "image_vector"}, {Name: "second", Distance: Dot}, {Name: "third", Distance: Dot}}
	o.OpenOnly = true
	both := open(t, o)
	apply(t, both, vectorstore.Mutation{Action: vectorstore.Merge, Object: vectorstore.Object{
		Ref: vectorstore.Ref{ID: idOf(1)}, Vectors: map[string][]float32{"second": {0, 0, 0}}, // no direction, which Dot allows
	}})
	if got := get(t, both, 1); len(got.Vectors["text_vector"]) != 2 || len(got.Vectors["second"]) != 3 || got.Properties["title"] != "1" {
		t.Errorf("stored %+v", got)
	}
	matches, err := both.Search(t.Context(), vectorstore.Query{Vector: "second", Near: []float32{1, 0, 0}})
	if err != nil || len(matches) != 1 || matches[0].Object.ID != idOf(1) {
		t.Errorf("found %+v, error %v", matches, err)
	}
}

// TestServerReindex changes the model without downtime: a second vector, of another length, is filled while the first is searched and
// rows change, and then searched instead. What changes meanwhile is found by both.
func TestServerReindex(t *testing.T) {
	o := serverOptions(t)
	o.Vectors = []Vector{{Name: "text_vector"}}
	before := open(t, o)
	apply(t, before, upserts(numbered(50)...)...)
	o.Vectors = append(o.Vectors, Vector{Name: "text_vector_2", Dimensions: 3})
	after := open(t, o) // adds it; before goes on
	again := func(n int) []float32 { return []float32{1, float32(n), 0} }

	live := upserts(3, 100) // changes of live, with both vectors: the old model stays until the new one is complete
	for i, n := range []int{3, 100} {
		live[i].Object.Vectors["text_vector_2"], live[i].Object.Version = again(n), "v999"
		live[i].Object.Properties["title"] = "changed"
	}
	apply(t, after, live...)
	apply(t, after, deletes(4)...)
	for o, err := range vectorstore.All(t.Context(), before, "") { // the backfill keeps all else
		if err != nil {
			t.Fatal(err)
		}
		if found, err := before.Search(t.Context(), vectorstore.Query{Vector: "text_vector", Near: []float32{1, 7}, Limit: 1}); err != nil || len(found) != 1 {
			t.Fatalf("meanwhile %v are found, error %v", found, err)
		}
		var n int
		if _, err := fmt.Sscanf(string(o.ID), "%x", &n); err != nil {
			t.Fatal(err)
		}
		apply(t, after, vectorstore.Mutation{Action: vectorstore.Merge, Object: vectorstore.Object{
			Ref: o.Ref, Vectors: map[string][]float32{"text_vector_2": again(n)},
		}})
	}
	for name, near := range map[string][]float32{"text_vector": {1, 100}, "text_vector_2": again(100)} {
		found, err := after.Search(t.Context(), vectorstore.Query{Vector: name, Near: near, Limit: 200})
		if err != nil || len(found) != 50 || found[0].Object.Properties["title"] != "changed" {
			t.Errorf("%s finds %d objects, error %v", name, len(found), err)
		}
	}
	if got := get(t, after, 7); got.Properties["title"] != "7" || got.Version != "v7" || len(got.Vectors) != 2 {
		t.Errorf("stored %+v", got)
	}
}

// TestServerOpenOnly: a name with a typo creates nothing.
func TestServerOpenOnly(t *testing.T) {
	o := serverOptions(t)
	open(t, o)
	typo := o
	typo.Collection, typo.OpenOnly = o.Collection+"x", true
	_, err := New(t.Context(), typo)
	if !errors.Is(err, ErrCollection) || !strings.Contains(err.Error(), typo.Collection+" is missing") {
		t.Errorf("error is %v", err)
	}
	for _, name := range []string{typo.Collection, typo.Collection + tombstones} {
		if _, err := testConn(t, o).class(t.Context(), name); restCode(err) != http.StatusNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	o.OpenOnly = true
	open(t, o)
	o.Vectors = []Vector{{Name: "other"}}
	o.Properties = []Property{{Name: "added", DataType: Text}}
	_, err = New(t.Context(), o)
	for _, want := range []string{"vector other is missing; want hnsw", "property added is missing; want text"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}

// TestServerDynamicNeedsAsync: the server says why it makes no such collection, and so does the error.
func TestServerDynamicNeedsAsync(t *testing.T) {
	o := serverOptions(t)
	open(t, o) // so that there is something to drop
	o.Collection += "D"
	o.Vectors = []Vector{{Name: "text_vector", Index: Dynamic, Quantizer: RQ}}
	s, err := New(t.Context(), o)
	if err == nil { // a server with ASYNC_INDEXING
		t.Cleanup(func() { _ = s.Close() })
		for _, name := range []string{o.Collection, o.Collection + tombstones} {
			if err := s.conn.rest(t.Context(), http.MethodDelete, "/v1/schema/"+name, nil, nil); err != nil {
				t.Error(err)
			}
		}
	} else if !errors.Is(err, ErrCollection) || !strings.Contains(err.Error(), "async") {
		t.Errorf("error is %v", err)
	}
}

type inner struct {
	Name string
	At   *time.Time `json:"at" weaviate:",rangefilter"`
	Skip any        `json:"-"`
}

type embedded struct {
	Shared bool `json:"shared,omitempty"`
}

type product struct {
	embedded
	ID       int64     `weaviate:"product_id,rangefilter"`
	Title    string    `weaviate:"title,tokenization=field,nosearch"`
	Text     *string   `json:"description,omitempty"`
	Changed  time.Time `cdc:"changed_at,key"`
	Price    float32   `weaviate:",nofilter"`
	Sizes    []uint8   `weaviate:"picture"`
	UID      [16]byte  `json:"-"`
	Tags     []*string `weaviate:"tags"`
	Day      string    `weaviate:"day,type=date"`
	Text2    textual   `json:"label"`
	Maker    inner     `json:"maker"`
	Parts    []inner   `json:"parts"`
	Internal any       `weaviate:"-"`
	hidden   int       //nolint:unused // what is not exported is left out
}

func TestPropertiesOf(t *testing.T) {
	nested := []Property{{Name: "Name", DataType: Text}, {Name: "at", DataType: Date, RangeFilter: true}}
	want := []Property{
		{Name: "shared", DataType: Boolean},
		{Name: "product_id", DataType: Int, RangeFilter: true},
		{Name: "title", DataType: Text, Tokenization: Field, NoSearch: true},
		{Name: "description", DataType: Text},
		{Name: "changed_at", DataType: Date},
		{Name: "price", DataType: Number, NoFilter: true},
		{Name: "picture", DataType: Blob},
		{Name: "uID", DataType: UUID},
		{Name: "tags", DataType: TextArray},
		{Name: "day", DataType: Date},
		{Name: "label", DataType: Text},
		{Name: "maker", DataType: Object, Nested: nested},
		{Name: "parts", DataType: ObjectArray, Nested: nested},
	}
	got, err := PropertiesOf[*product]()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v", got, err)
	}
}

func TestServerPropertiesOf(t *testing.T) {
	o := serverOptions(t)
	var err error
	if o.Properties, err = PropertiesOf[product](); err != nil {
		t.Fatal(err)
	}
	open(t, o)
	o.OpenOnly = true
	open(t, o)
}

// book has the tags of a mapping.
type book struct {
	base
	Title   string  `store:",vector=text_vector" weaviate:"ignored,tokenization=field"`
	Blurb   string  `store:"-,vector=text_vector"`
	Maker   inner   `store:"made_by"`
	Printed []inner `store:""`
	Other   map[string]int
}

type base struct {
	BookID int64 `cdc:"id,key" store:""`
}

// TestServerPropertiesOfMapping: the properties that a struct declares hold what the mapping of the same struct makes of it, objects too,
// under the same names.
func TestServerPropertiesOfMapping(t *testing.T) {
	o := serverOptions(t)
	var err error
	if o.Properties, err = PropertiesOf[book](); err != nil {
		t.Fatal(err)
	}
	nested := []Property{{Name: "Name", DataType: Text}, {Name: "at", DataType: Date, RangeFilter: true}}
	want := []Property{
		{Name: "book_id", DataType: Int},
		{Name: "title", DataType: Text, Tokenization: Field},
		{Name: "made_by", DataType: Object, Nested: nested},
		{Name: "printed", DataType: ObjectArray, Nested: nested},
	}
	if !reflect.DeepEqual(o.Properties, want) {
		t.Errorf("got %+v", o.Properties)
	}
	o.FixedProperties = true
	s := open(t, o)
	mapping, err := vectorstore.MappingOf[book](vectorstore.Models{Texts: map[string]embed.Embedder[string]{"text_vector": embedtest.New(2)}})
	if err != nil {
		t.Fatal(err)
	}
	when := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	row := book{base: base{7}, Title: "Tides", Maker: inner{Name: "a", At: &when}, Printed: []inner{{Name: "b"}}}
	apply(t, s, vectorstore.Mutation{Object: vectorstore.Object{Ref: vectorstore.Ref{ID: idOf(1)}, Properties: mapping.Properties(row)}})
	got := get(t, s, 1).Properties
	if !reflect.DeepEqual(got, map[string]any{
		"book_id": int64(7), "title": "Tides", "made_by": map[string]any{"Name": "a", "at": when}, "printed": []map[string]any{{"Name": "b"}},
	}) {
		t.Errorf("stored %#v", got)
	}
	var have class
	if err := s.conn.rest(t.Context(), http.MethodGet, "/v1/schema/"+s.collection, nil, &have); err != nil {
		t.Fatal(err)
	}
	if c := o.wanted().compare(have); len(c.fixed)+len(c.mutable) > 0 || len(have.Properties) != len(want)+2 {
		t.Errorf("the server has %+v: %+v", have.Properties, c)
	}
	if nested := newProperties(have.Properties)["made_by"].nested; len(nested) != 2 {
		t.Errorf("the server has added nested properties: %v", nested)
	}
}

type recursive struct {
	Next *recursive `json:"next"`
}

type embedsItself struct {
	*embedsItself //nolint:unused // read by its type
	A             int
}

func TestPropertiesOfRefuses(t *testing.T) {
	for want, properties := range map[string]func() ([]Property, error){
		"is no struct":          PropertiesOf[int],
		"contains itself":       PropertiesOf[recursive],
		"embedsItself contains": PropertiesOf[embedsItself],
		`in the object is "name"`: PropertiesOf[struct {
			A struct {
				Name string `json:"name" weaviate:"title"`
			}
		}],
		"field M: map[string]int": PropertiesOf[struct{ M map[string]int }],
		"field A: interface {}":   PropertiesOf[struct{ A any }],
		"field L: [][]string":     PropertiesOf[struct{ L [][]string }],
		`"id" is a reserved name`: PropertiesOf[struct {
			ID int `json:"id"`
		}],
		`"a" is there twice`: PropertiesOf[struct {
			A int
			B int `json:"a"`
		}],
		`option "fast" is unknown`: PropertiesOf[struct {
			A int `weaviate:"a,fast"`
		}],
		`type "money" is not supported`: PropertiesOf[struct {
			A int `weaviate:"a,type=money"`
		}],
		"give it with type=": PropertiesOf[struct {
			A []byte `weaviate:"a"`
			N json.Number
		}],
	} {
		if got, err := properties(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, error %v; want %q", got, err, want)
		}
	}
}
