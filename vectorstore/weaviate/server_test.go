package weaviate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serverOptions are options for the real server and a collection of the test's own, which is dropped at its end.
func serverOptions(t testing.TB) Options {
	t.Helper()
	o := Options{
		HTTP: servicetest.Env(t, "WEAVIATE_HTTP"), GRPC: servicetest.Env(t, "WEAVIATE_GRPC"),
		Collection: fmt.Sprintf("Test_%x", rand.Uint64()), ConnectTimeout: 30 * time.Second,
	}
	t.Cleanup(func() {
		c := testConn(t, o)
		for _, name := range []string{o.Collection, o.Collection + tombstones} {
			if err := c.rest(context.Background(), http.MethodDelete, "/v1/schema/"+name, nil, nil); err != nil {
				t.Errorf("dropping %s: %v", name, err)
			}
		}
	})
	return o
}

// testConn returns a connection for what a test does behind the store's back.
func testConn(t testing.TB, o Options) *conn {
	t.Helper()
	o = o.withDefaults()
	rest, rpc, err := o.endpoints()
	if err != nil {
		t.Fatal(err)
	}
	c, err := newConn(o, rest, rpc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// open returns a store that is closed at the end of the test.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := New(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	types := map[string]DataType{"bool": Boolean}
	for _, declared := range []bool{true, false} {
		t.Run(fmt.Sprintf("declared=%v", declared), func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) vectorstore.Store {
				o := serverOptions(t)
				o.Vectors = nil
				for name := range storetest.Vectors() {
					o.Vectors = append(o.Vectors, Vector{Name: name})
				}
				for _, p := range storetest.Properties() {
					if !declared {
						break // the store adds them as they come
					}
					kind, ok := types[p.Type]
					if !ok {
						kind = DataType(p.Type)
					}
					o.Properties = append(o.Properties, Property{Name: p.Name, DataType: kind})
				}
				return open(t, o)
			})
		})
	}
}
