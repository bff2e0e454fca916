package vectorstore_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/vectorstore"
)

func TestSinkLifeOfARow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	row := product{ID: 1, Title: "red shoes", Price: 10, Picture: []byte("png")}

	f.handle(insert(10, row))
	f.wantKinds("created+text+image")
	f.wantRow(row)
	if got := f.get(1).Version; got != (cdc.Position{LSN: 10, Offset: "0000000a"}).String() {
		t.Errorf("Version is %q", got)
	}

	row.Price = 12
	f.handle(update(11, row))
	f.wantKinds("updated")
	f.wantRow(row)
	if f.texts.Calls() != 1 || f.pictures.Calls() != 1 {
		t.Errorf("a change of the price was embedded: %q", f.texts.Inputs())
	}

	row.Title = "blue shoes"
	f.handle(update(12, row))
	f.wantKinds("updated+text")
	f.wantRow(row)

	f.handle(update(12, row), update(11, row))
	f.wantKinds("unchanged stale")
	f.wantRow(row)

	f.handle(remove(20, 1), tombstone(21, 1))
	f.wantKinds("deleted unchanged")
	f.wantDeleted(1)
	f.restart()
	f.handle(tombstone(21, 1))
	f.handle(update(15, row))
	f.wantKinds("unchanged stale")
	f.wantDeleted(1)

	f.handle(insert(30, row))
	f.wantKinds("created+text+image")
	f.wantRow(row)
	f.handle(remove(20, 1), tombstone(21, 1))
	f.wantKinds("stale stale")
	f.wantRow(row)
}

func TestSinkOneCallEach(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.handle(insert(1, product{ID: 1, Title: "kept"}), insert(2, product{ID: 2, Title: "two"}))
	f.texts.Reset()
	f.store.applied, f.store.gets, f.outcomes = nil, 0, nil
	f.handle(
		update(10, product{ID: 1, Title: "never seen"}),
		insert(11, product{ID: 3, Title: "three"}),
		update(12, product{ID: 1, Title: "kept", Price: 5}),
		insert(13, product{ID: 4, Title: "four"}),
		remove(14, 2),
		remove(15, 4),
		update(16, product{ID: 3, Title: "three again"}),
		insert(17, product{ID: 5, Title: "five", Picture: []byte("jpg")}),
		insert(18, product{ID: 2, Title: "two is back"}),
	)
	f.wantKinds("collapsed collapsed updated collapsed collapsed deleted created+text created+text+image updated+text")
	if got, want := f.texts.Inputs(), []string{"three again", "two is back", "five"}; f.texts.Calls() != 1 || !equalSets(got, want) {
		t.Errorf("%d calls for %q, want one for %q", f.texts.Calls(), got, want)
	}
	if f.pictures.Calls() != 1 || f.store.gets != 1 || len(f.store.applied) != 1 || len(f.store.applied[0]) != 5 {
		t.Errorf("%d picture calls, %d Gets, writes %v", f.pictures.Calls(), f.store.gets, f.store.applied)
	}
	f.wantRow(product{ID: 1, Title: "kept", Price: 5})
	f.wantRow(product{ID: 2, Title: "two is back"})
	f.wantRow(product{ID: 3, Title: "three again"})
	f.wantDeleted(4)
	f.wantRow(product{ID: 5, Title: "five", Picture: []byte("jpg")})
	f.handle()
}

func equalSets(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func TestSinkBlankInput(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.handle(insert(1, product{ID: 1, Title: " \n\t"}))
	f.wantKinds("created")
	f.wantRow(product{ID: 1, Title: " \n\t"})
	if f.get(1).Inputs[textVector] == "" {
		t.Error("the blank input is not recorded")
	}
	f.handle(update(2, product{ID: 1, Title: "text", Picture: []byte("png")}))
	f.handle(update(3, product{ID: 1, Title: "", Picture: []byte("png")}))
	f.wantKinds("updated+text+image updated")
	f.wantRow(product{ID: 1, Picture: []byte("png")})
	f.handle(update(4, product{ID: 1, Title: "", Price: 3}))
	f.wantRow(product{ID: 1, Price: 3})
	f.handle(update(4, product{ID: 1, Title: "", Price: 3}))
	f.handle(update(5, product{ID: 1, Title: "text", Price: 3}))
	f.wantKinds("updated unchanged updated+text")
	f.wantRow(product{ID: 1, Title: "text", Price: 3})
	if got := f.texts.Inputs(); !slices.Equal(got, []string{"text", "text"}) {
		t.Errorf("embedded %q", got)
	}
}

func TestSinkKeyMapping(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) {
		f.mapping.Key = func(k cdc.Key) (cdc.Key, error) {
			if k[0].Value == int64(13) {
				return nil, errors.New("unlucky")
			}
			return cdc.Key{{Name: "product_id", Value: k[0].Value}}, nil
		}
	})
	errs := f.errs(insert(1, product{ID: 7, Title: "seven"}), insert(2, product{ID: 13}))
	if errs[0] != nil || !permanent(errs[1]) || !strings.Contains(errs[1].Error(), "unlucky") {
		t.Errorf("errors are %v", errs)
	}
	const id = "f14461fd-128c-5c6c-aede-8e5e06ef19ff"
	if o := f.outcomes[0]; o.Ref.ID != id || o.Key[0].Name != "id" {
		t.Errorf("outcome is %+v", o)
	}
	f.handle(remove(3, 7))
	if f.store.Len() != 0 {
		t.Error("the delete used another id")
	}
}

func TestSinkVectorOnly(t *testing.T) {
	t.Parallel()
	chosen := true
	f := newFixture(t, func(f *fixture) {
		next := vectorstore.Embed("next_vector", func(p product) string { return p.Title }, embedtest.NewNamed("next", 3))
		next.Only = func(key string) bool { return chosen && key == string(refOf(t, 2).ID) }
		f.mapping.Vectors = append(f.mapping.Vectors, next)
	})
	one, two := product{ID: 1, Title: "one"}, product{ID: 2, Title: "two"}
	f.handle(insert(1, one), insert(2, two))
	f.wantKinds("created+text created+text+next")
	if v := f.get(2).Vectors["next_vector"]; len(v) != 3 || f.get(1).Vectors["next_vector"] != nil {
		t.Errorf("next_vector is %v", v)
	}
	f.handle(insert(2, two))
	f.wantKinds("unchanged")
	chosen = false
	f.handle(update(3, two))
	f.wantKinds("updated")
	f.wantRow(two)
	if _, noted := f.get(2).Inputs["next_vector"]; noted {
		t.Error("the input of a vector that is not wanted is still noted")
	}
}

func TestSinkPropertiesThatGo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) {
		f.mapping.Properties = func(p product) map[string]any {
			if p.Price == 0 {
				return map[string]any{"title": p.Title}
			}
			return map[string]any{"title": p.Title, "price": p.Price}
		}
	})
	f.handle(insert(1, product{ID: 1, Title: "one", Price: 5}))
	f.handle(update(2, product{ID: 1, Title: "one"}))
	if got := f.get(1).Properties; !reflect.DeepEqual(got, map[string]any{"title": "one"}) {
		t.Errorf("properties are %v", got)
	}
	foreign := vectorstore.Object{Ref: refOf(t, 1), Vectors: map[string][]float32{"theirs": {1, 2}}}
	if err := f.store.Apply(t.Context(), []vectorstore.Mutation{{Action: vectorstore.Merge, Object: foreign}}); err != nil {
		t.Fatal(err)
	}
	f.handle(update(3, product{ID: 1, Title: "uno"}))
	if o := f.get(1); len(o.Vectors["theirs"]) != 2 || len(o.Vectors) != 2 {
		t.Errorf("vectors are %v; want the one that the mapping does not make, too", o.Vectors)
	}
}

func TestSinkAnotherModel(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	row := product{ID: 1, Title: "one", Picture: []byte("png")}
	log := []cdc.Event[product]{insert(1, product{ID: 1, Title: "zero"}), update(2, row)}
	f.handle(log...)
	next := embedtest.NewNamed("next", 8)
	f.mapping.Vectors[0] = vectorstore.Embed(textVector, func(p product) string { return p.Title }, next)
	f.restart()
	f.kinds()
	f.handle(log...) // the topic is read again
	f.handle(log...)
	f.wantKinds("stale updated+text stale unchanged")
	want, err := next.Embed(t.Context(), []string{"one"})
	if err != nil || !slices.Equal(f.get(1).Vectors[textVector], want[0]) || len(f.get(1).Vectors[imageVector]) != 4 {
		t.Errorf("vectors are %v, error %v", f.get(1).Vectors, err)
	}
}

func TestSinkLineage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) {
		f.options.Lineage, f.mapping.Version = true, "m1"
		shared := map[string]any{"title": "always"}
		f.mapping.Properties = func(product) map[string]any { return shared }
	})
	start := time.Now()
	f.handle(insert(1, product{ID: 1, Title: "one"}))
	got := f.get(1).Properties
	indexed, _ := got[vectorstore.LineageIndexedAt].(time.Time)
	models := []string{
		textVector + "=" + f.texts.Model().Fingerprint, imageVector + "=" + f.pictures.Model().Fingerprint,
	}
	if got["title"] != "always" || got[vectorstore.LineageMapping] != "m1" || got[vectorstore.LineagePosition] != f.get(1).Version ||
		!reflect.DeepEqual(got[vectorstore.LineageModels], models) || indexed.Before(start) || len(got) != 5 {
		t.Errorf("properties are %v", got)
	}
	f.handle(insert(1, product{ID: 1, Title: "one"}))
	f.mapping.Version = "m2"
	f.restart()
	f.handle(insert(1, product{ID: 1, Title: "one"}))
	f.wantKinds("created+text unchanged updated")
	if got := f.get(1).Properties[vectorstore.LineageMapping]; got != "m2" {
		t.Errorf("mapping is %v", got)
	}
}

func TestSinkOutcomes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.texts.Inject(embedtest.Fault{Kind: embedtest.Slow, Delay: 5 * time.Millisecond})
	snapshot := put(cdc.OpRead, 2, product{ID: 2, Title: "two"})
	snapshot.Source.Snapshot = true
	unknown := insert(3, product{ID: 3, Title: "three"})
	unknown.Source.CommitTime, unknown.Record.PublishTime = time.Time{}, time.Time{}
	ahead := insert(4, product{ID: 4, Title: "four"})
	ahead.Source.CommitTime = time.Now().Add(time.Hour)
	f.handle(insert(1, product{ID: 1, Title: "one"}), snapshot, unknown, ahead)
	o := f.outcomes
	if o[0].Freshness < time.Minute || o[0].Latency < time.Second || o[0].Freshness > time.Hour || o[0].Embed < 5*time.Millisecond || o[0].Write <= 0 {
		t.Errorf("outcome is %+v", o[0])
	}
	if o[0].Ref != refOf(t, 1) || o[0].Op != cdc.OpCreate || o[0].Position != (cdc.Position{LSN: 1, Offset: "00000001"}) || o[0].Key[0].Value != int64(1) {
		t.Errorf("outcome is %+v", o[0])
	}
	if o[1].Freshness != 0 || o[1].Latency == 0 || o[2].Freshness != 0 || o[2].Latency != 0 || o[3].Freshness != 0 {
		t.Errorf("outcomes are %+v", o[1:])
	}
	f.outcomes = nil
	f.handle(insert(1, product{ID: 1, Title: "one"}))
	if o := f.outcomes[0]; o.Freshness != 0 || o.Latency != 0 || o.Embed != 0 || o.Write != 0 {
		t.Errorf("an event that was not written has times: %+v", o)
	}
}

// TestSinkConcurrent handles different keys at once, as the workers of a consumer do.
func TestSinkConcurrent(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	outcomes := map[vectorstore.Kind]int{}
	f := newFixture(t, func(f *fixture) {
		f.options.Observe = func(o vectorstore.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			outcomes[o.Kind]++
		}
	})
	const workers, rounds = 8, 20
	var running sync.WaitGroup
	for w := range int64(workers) {
		running.Go(func() {
			for r := range uint64(rounds) {
				events := []cdc.Event[product]{
					put(cdc.OpUpdate, r+1, product{ID: w, Title: fmt.Sprint("title ", r/2), Price: float64(r)}),
					remove(r+1, 100+w),
				}
				if err := f.sink.Handle(t.Context(), events); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	for w := range int64(workers) {
		f.wantRow(product{ID: w, Title: fmt.Sprint("title ", (rounds-1)/2), Price: rounds - 1})
		f.wantDeleted(100 + w)
	}
	want := map[vectorstore.Kind]int{
		vectorstore.Created: workers, vectorstore.Updated: workers * (rounds - 1), vectorstore.Deleted: workers * rounds,
	}
	if !maps.Equal(outcomes, want) || len(f.texts.Inputs()) != workers*rounds/2 {
		t.Errorf("outcomes are %v, want %v; %d texts embedded", outcomes, want, len(f.texts.Inputs()))
	}
}
