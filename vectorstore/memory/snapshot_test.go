package memory_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
	"github.com/tidemark-go/tidemark/vectorstore/storetest"
)

func TestSnapshot(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "objects")
	if _, err := memory.Load(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
	s := memory.New()
	put(t, s, "a", 1, 1, 0)
	all := vectorstore.Object{
		Ref: ref("", 2), Version: "v2", Vectors: map[string][]float32{"v": {1, 2}}, Inputs: map[string]string{"v": "digest"},
		Properties: map[string]any{
			"text": "x", "zero": int64(0), "false": false, "number": 0.5, "at": time.Date(2024, 2, 29, 1, 2, 3, 4, time.UTC), "none": []string{},
			"ints": []int64{1, 2}, "numbers": []float64{1}, "bools": []bool{true}, "times": []time.Time{time.Unix(1, 0).UTC()},
			"empty": map[string]any{"e": map[string]any{}, "l": []int64{}}, "nothing": map[string]any{},
			"nested": map[string]any{"a": map[string]any{"b": []string{"c"}}}, "list": []map[string]any{{"a": "b"}},
			"place": vectorstore.Geo{Latitude: 47.4, Longitude: 8.5}, "phone": vectorstore.Phone{Input: "044 123 45 67", Country: "CH"},
		},
	}
	gone := vectorstore.Object{Ref: ref("b", 3), Version: "v3"}
	if err := s.Apply(t.Context(), []vectorstore.Mutation{{Object: all}, {Action: vectorstore.Delete, Object: gone}}); err != nil {
		t.Fatal(err)
	}
	refs := []vectorstore.Ref{ref("a", 1), all.Ref, gone.Ref}
	want, err := s.Get(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second takes the place of the first
		if err := s.Save(t.Context(), path); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := memory.Load(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := loaded.Get(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("object %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Save(cancelled, path); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("files are %v, error %v", entries, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut < len(whole); cut += 7 {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := memory.Load(t.Context(), path); err == nil {
			t.Fatalf("no error for %d of %d bytes", cut, len(whole))
		}
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	storetest.RunRestart(t, func(t *testing.T) func(t *testing.T) vectorstore.Store {
		t.Helper()
		last := memory.New()
		return func(t *testing.T) vectorstore.Store {
			t.Helper()
			path := filepath.Join(t.TempDir(), "objects")
			if err := last.Save(t.Context(), path); err != nil {
				t.Fatal(err)
			}
			var err error
			if last, err = memory.Load(t.Context(), path); err != nil {
				t.Fatal(err)
			}
			return last
		}
	})
}

// TestStoreFromSnapshot runs the suite on stores that were loaded.
func TestStoreFromSnapshot(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) vectorstore.Store {
		t.Helper()
		path := filepath.Join(t.TempDir(), "objects")
		if err := memory.New().Save(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		s, err := memory.Load(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
