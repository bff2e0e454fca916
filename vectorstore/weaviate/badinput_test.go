package weaviate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// Bad input has its tests elsewhere, too: reserved names (TestServerWeaviate1932), names in other case (TestServerNames), invalid dates
// (TestServerWeaviate1929), objects that are too large (TestServerMessageSize), a server that is read-only (TestServerReadOnly) or whose
// disk is full (TestServerFullDisk), cold tenants (TestServerColdTenants), a restart in the middle of a batch (TestServerRestarts), lost
// replies (TestServerPython127).

// TestServerTypeConflict: a property has the type that another process gave it meanwhile. What does not fit is that object's error, for
// good, and its neighbours are stored, whether the property is known here or not.
func TestServerTypeConflict(t *testing.T) {
	o := serverOptions(t)
	ours, theirs := open(t, o), open(t, o)
	with := func(n int, v any) vectorstore.Mutation {
		m := upserts(n)[0]
		m.Object.Properties["size"] = v
		return m
	}
	apply(t, theirs, with(1, 7))
	for range 2 { // at first, ours does not know it
		err := ours.Apply(t.Context(), []vectorstore.Mutation{with(2, "XL"), with(3, 8.0), with(4, 8.5), with(5, []int{1}), with(6, nil)})
		if got := failed(t, err); !slices.Equal(got, []int{0, 2, 3}) || !itemerror.IsPermanent(err) || !errors.Is(err, vectorstore.ErrValue) {
			t.Errorf("failed are %v: %v", got, err)
		}
		if !strings.Contains(fmt.Sprint(err), `"size"`) || strings.Contains(fmt.Sprint(err), "XL") {
			t.Errorf("the error names no property, or tells its value: %v", err)
		}
	}
	if got := get(t, ours, 3).Properties["size"]; got != int64(8) {
		t.Errorf("stored %v", got)
	}
	// Two objects of one call that do not agree: the first one's type is the property's.
	both := []vectorstore.Mutation{with(7, nil), with(8, nil)}
	both[0].Object.Properties["new"], both[1].Object.Properties["new"] = true, "yes"
	if got := failed(t, ours.Apply(t.Context(), both)); !slices.Equal(got, []int{1}) {
		t.Errorf("failed are %v", got)
	}
}
