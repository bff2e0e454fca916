package weaviate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

func TestServerEnsure(t *testing.T) {
	o := serverOptions(t)
	c := testConn(t, o)
	wrong := class{
		Class: o.Collection,
		VectorConfig: map[string]vectorConfig{
			"text_vector": {Vectorizer: map[string]any{"none": map[string]any{}}, VectorIndexType: "flat", VectorIndexConfig: indexConfig{Distance: "dot"}},
		},
		Properties: []classProperty{
			{Name: "n", DataType: []string{"text"}},
			{Name: "where", DataType: []string{o.Collection}},
			{Name: versionProperty, DataType: []string{"int"}},
			Property{Name: "d", DataType: Object, Nested: []Property{{Name: "x", DataType: Int}}}.class(),
		},
	}
	if err := c.rest(t.Context(), http.MethodPost, "/v1/schema", wrong, nil); err != nil {
		t.Fatal(err)
	}
	o.Properties = []Property{
		{Name: "n", DataType: Int},
		{Name: "fine", DataType: Int},
		{Name: "d", DataType: Object, Nested: []Property{{Name: "x", DataType: Text}, {Name: "y", DataType: Text}}},
	}
	_, err := New(t.Context(), o)
	if !errors.Is(err, ErrCollection) {
		t.Fatalf("error is %v", err)
	}
	for _, want := range []string{
		o.Collection, "vector text_vector: index is flat; want hnsw",
		"vector text_vector: distance is dot; want cosine", "property n: type is text; want int",
		"property tidemark_version: type is int; want text", "property where: type is " + o.Collection + "; want a type that is supported",
		"property d.x: type is int; want text", "property d.y is missing",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "fine") {
		t.Errorf("a property that can be added is in the error: %v", err)
	}
	if err := c.rest(t.Context(), http.MethodPost, "/v1/schema", o.wantedTombstones(), nil); err != nil { // for the clean-up
		t.Fatal(err)
	}
}

// TestServerEnsureAdds: a collection that someone else has made gets the properties that it lacks, and keeps the rest.
func TestServerEnsureAdds(t *testing.T) {
	o := serverOptions(t)
	c := testConn(t, o)
	theirs := o.withDefaults().wanted()
	theirs.Properties = []classProperty{{Name: "theirs", DataType: []string{"text"}}, {Name: "n", DataType: []string{"int"}}}
	if err := c.rest(t.Context(), http.MethodPost, "/v1/schema", theirs, nil); err != nil {
		t.Fatal(err)
	}
	o.Properties = []Property{{Name: "n", DataType: Int}, {Name: "ours", DataType: Text}}
	s := open(t, o)
	for _, name := range []string{"theirs", "n", "ours", versionProperty, inputsProperty} {
		if s.schema.Load().properties[name] == nil {
			t.Errorf("property %s is missing", name)
		}
	}
	m := upserts(1)
	m[0].Object.Properties["theirs"] = "x"
	m[0].Object.Inputs = map[string]string{"text_vector": "digest"}
	apply(t, s, m...)
	got := get(t, s, 1)
	if got.Properties["theirs"] != "x" || got.Version != "v1" || got.Inputs["text_vector"] != "digest" || len(got.Properties) != 2 {
		t.Errorf("stored %+v", got)
	}
	open(t, o) // and fits from then on
}

// TestServerNames: the name of a collection is the same whatever the case of its first letter; another case elsewhere is a conflict
// (weaviate#5789).
func TestServerNames(t *testing.T) {
	o := serverOptions(t)
	lower := o
	lower.Collection = strings.ToLower(o.Collection[:1]) + o.Collection[1:]
	s := open(t, lower)
	apply(t, s, upserts(1)...)
	if got := get(t, open(t, o), 1); got == nil {
		t.Error("the two spellings are two collections")
	}
	conflict := o
	conflict.Collection = strings.ToUpper(o.Collection)
	if _, err := New(t.Context(), conflict); !errors.Is(err, ErrCollection) || !strings.Contains(err.Error(), o.Collection) {
		t.Errorf("a name in other case: %v", err)
	}
	occupied := o
	occupied.Collection = o.Collection + tombstones
	if _, err := New(t.Context(), occupied); !errors.Is(err, ErrCollection) {
		t.Errorf("the name of a collection of deletions: %v", err)
	}
}

func TestServerConcurrentNew(t *testing.T) {
	o := serverOptions(t)
	o.Properties = []Property{{Name: "title", DataType: Text}}
	stores := make([]*Store, 4)
	var running sync.WaitGroup
	for i := range stores {
		running.Go(func() {
			var err error
			if stores[i], err = New(context.Background(), o); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for i, s := range stores { // each adds the same new properties at the same time
		running.Go(func() {
			m := upserts(i)
			m[0].Object.Properties["added"], m[0].Object.Properties["too"] = 1.5, []bool{true}
			if err := s.Apply(context.Background(), m); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
}

// TestServerConcurrentNewOfOthers: several processes find a collection that someone else has made, and each adds what it lacks: some the
// same, some what no other wants.
func TestServerConcurrentNewOfOthers(t *testing.T) {
	o := serverOptions(t)
	theirs := o.withDefaults().wanted()
	theirs.Properties = []classProperty{{Name: "n", DataType: []string{"int"}}}
	if err := testConn(t, o).rest(t.Context(), http.MethodPost, "/v1/schema", theirs, nil); err != nil {
		t.Fatal(err)
	}
	o.Replication.DeletionStrategy = DeleteOnConflict
	for i := range 6 {
		o.Properties = append(o.Properties, Property{Name: fmt.Sprintf("p%d", i), DataType: Text})
	}
	all := o
	var running sync.WaitGroup
	for i := range 8 {
		own := o
		own.Vectors = []Vector{{Name: "text_vector", EF: 90}, {Name: fmt.Sprintf("vector%d", i)}}
		own.Properties = slices.Concat(o.Properties, []Property{{Name: fmt.Sprintf("own%d", i), DataType: Int}})
		all.Vectors, all.Properties = append(all.Vectors, own.Vectors[1]), append(all.Properties, own.Properties[6])
		running.Go(func() {
			s, err := New(context.Background(), own)
			if err != nil {
				t.Error(err)
				return
			}
			for _, p := range slices.Concat(own.Properties, []Property{{Name: versionProperty}, {Name: inputsProperty}}) {
				if s.schema.Load().properties[p.Name] == nil {
					t.Errorf("property %s is missing", p.Name)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	all.OpenOnly = true
	open(t, all)
}

// TestExtendWaits: one call waits for a REST endpoint that does not answer. Another one, which waits for the first, ends with its own
// context; and an endpoint that is silent is asked once, not for every property.
func TestExtendWaits(t *testing.T) {
	asked := make(chan string, 100)
	rest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method
		if r.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, r.Body) // only then does the server see that the client is gone
			<-r.Context().Done()
			return
		}
		if _, err := io.WriteString(w, `{"class":"Product"}`); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(rest.Close)
	s := faultyStore(t, &faultyServer{}, Options{ReadTimeout: -1})
	s.conn.httpURL = rest.URL
	apply := func(ctx context.Context) error {
		m := upserts(1)
		m[0].Object.Properties["new"], m[0].Object.Properties["other"] = 1, 2
		return s.Apply(ctx, m)
	}
	long, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- apply(long) }()
	for method := <-asked; method != http.MethodPost; method = <-asked { // from then on, it adds a property
	}
	short, cancelShort := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancelShort()
	if err := apply(short); !errors.Is(err, context.DeadlineExceeded) || itemerror.IsPermanent(err) {
		t.Errorf("the second call: %v", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) || itemerror.IsPermanent(err) {
		t.Errorf("the first call: %v", err)
	}
	if len(asked) > 0 {
		t.Errorf("after a request without an answer, %d more", len(asked))
	}
}

func TestServerOtherDimensions(t *testing.T) {
	o := serverOptions(t)
	apply(t, open(t, o), upserts(1)...)
	o.Vectors = []Vector{{Name: "text_vector", Dimensions: 384}}
	_, err := New(t.Context(), o)
	if !errors.Is(err, ErrCollection) || !strings.Contains(err.Error(), "dimensions of what is stored is 2; want 384") {
		t.Errorf("error is %v", err)
	}
	o.Vectors[0].Dimensions = 2
	open(t, o)
}
