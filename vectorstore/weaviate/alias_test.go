package weaviate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// TestServerAlias: a reader that has opened an alias searches without a failure while the alias goes from one collection to another
// with vectors of another length and other properties, and then reads the other.
func TestServerAlias(t *testing.T) {
	first, second := open(t, serverOptions(t)), open(t, serverOptions(t))
	name := fmt.Sprintf("alias_%x", rand.Uint64())
	conn := first.conn
	t.Cleanup(func() {
		if err := conn.rest(context.Background(), http.MethodDelete, "/v1/aliases/"+canonicalName(name), nil, nil); err != nil {
			t.Error(err)
		}
	})
	apply(t, first, upserts(1, 2)...)
	m := upserts(2, 3)
	for i := range m {
		m[i].Object.Vectors["text_vector"] = []float32{1, 0, float32(i)}
		m[i].Object.Properties["rank"] = int64(i)
	}
	apply(t, second, m...)

	o := serverOptions(t)
	collection := o.Collection
	o.Collection, o.OpenOnly = name, true
	if _, err := New(t.Context(), o); !errors.Is(err, ErrCollection) {
		t.Errorf("before the alias is there: %v", err)
	}
	for range 2 { // pointing it there again changes nothing
		if err := first.PointAlias(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	reader := open(t, o)
	o.OpenOnly = false
	if _, err := New(t.Context(), o); !errors.Is(err, ErrCollection) || !strings.Contains(err.Error(), "an alias of "+first.collection) {
		t.Errorf("an alias without OpenOnly: %v", err)
	}
	found := func(q vectorstore.Query) (ids []vectorstore.ID) {
		matches, err := reader.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range matches {
			ids = append(ids, m.Object.ID)
		}
		slices.Sort(ids)
		return ids
	}
	if got := found(vectorstore.Query{Vector: "text_vector", Near: []float32{1, 0}}); !slices.Equal(got, []vectorstore.ID{idOf(1), idOf(2)}) {
		t.Errorf("found %v", got)
	}

	var searching sync.WaitGroup
	moved := make(chan struct{})
	searching.Go(func() {
		for done := false; !done; {
			select {
			case <-moved:
				done = true
			default:
			}
			got, err := reader.Search(t.Context(), vectorstore.Query{Filter: vectorstore.IDs(idOf(2))})
			if err != nil || len(got) != 1 {
				t.Errorf("while the alias moves: %d found, error %v", len(got), err)
				return
			}
		}
	})
	for range 3 {
		for _, s := range []*Store{second, first, second} {
			if err := s.PointAlias(t.Context(), name); err != nil {
				t.Error(err)
			}
		}
	}
	close(moved)
	searching.Wait()
	q := vectorstore.Query{Vector: "text_vector", Near: []float32{1, 0, 0}, Filter: vectorstore.Less("rank", 5)}
	if got := found(q); !slices.Equal(got, []vectorstore.ID{idOf(2), idOf(3)}) {
		t.Errorf("after the move, found %v", got)
	}
	if got, old := get(t, reader, 3), get(t, reader, 1); got == nil || got.Properties["rank"] != int64(1) || old != nil {
		t.Errorf("after the move, read %+v and %+v", got, old)
	}
	if _, err := reader.Search(t.Context(), vectorstore.Query{Vector: "text_vector", Near: []float32{1, 0}}); !errors.Is(err, vectorstore.ErrVector) {
		t.Errorf("a vector of the old length: %v", err)
	}
	names, err := second.Aliases(t.Context())
	if gone, errGone := first.Aliases(t.Context()); !slices.Equal(names, []string{canonicalName(name)}) || len(gone) > 0 || err != nil || errGone != nil {
		t.Errorf("aliases %v and %v, errors %v and %v", names, gone, err, errGone)
	}
	for what, err := range map[string]error{
		"Apply": reader.Apply(t.Context(), upserts(9)), "Clear": reader.Clear(t.Context(), ""),
		"ClearBefore": reader.ClearBefore(t.Context(), "", "x"), "PointAlias": reader.PointAlias(t.Context(), "other"),
	} {
		if err == nil || !itemerror.IsPermanent(err) {
			t.Errorf("%s through an alias: %v", what, err)
		}
	}
	open(t, func() Options { o.Collection = collection; return o }())
	if err := first.PointAlias(t.Context(), collection); !errors.Is(err, ErrCollection) || !itemerror.IsPermanent(err) {
		t.Errorf("an alias with the name of a collection: %v", err)
	}
}
