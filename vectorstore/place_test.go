package vectorstore_test

import (
	"errors"
	"math"
	"testing"

	"github.com/tidemark-go/tidemark/vectorstore"
)

func TestPlaces(t *testing.T) {
	t.Parallel()
	berlin, paris := vectorstore.Geo{Latitude: 52.52, Longitude: 13.405}, vectorstore.Geo{Latitude: 48.8566, Longitude: 2.3522}
	if d := berlin.Metres(paris); math.Abs(d-877_460) > 1000 || math.Abs(paris.Metres(berlin)-d) > 1e-3 {
		t.Errorf("Berlin to Paris: %v m", d)
	}
	if d := (vectorstore.Geo{Longitude: -180}).Metres(vectorstore.Geo{}); math.Abs(d-math.Pi*6_371_000) > 1 {
		t.Errorf("half around the earth: %v m", d)
	}
	if d := berlin.Metres(berlin); d != 0 {
		t.Errorf("nowhere: %v m", d)
	}
	nan := float32(math.NaN())
	for _, v := range []any{
		vectorstore.Geo{Latitude: 90.1},
		vectorstore.Geo{Longitude: -180.1},
		vectorstore.Geo{Latitude: nan},
		vectorstore.Geo{Longitude: nan},
		[]vectorstore.Geo{berlin},
		vectorstore.Phone{},
		vectorstore.Phone{Input: "030 1"},
		vectorstore.Phone{Input: "030 1", Country: "de"},
		vectorstore.Phone{Input: "030 1", Country: "DEU"},
		vectorstore.Phone{Input: "\xff", Country: "DE"},
	} {
		if got, err := vectorstore.Value(v); !errors.Is(err, vectorstore.ErrValue) && got != nil {
			t.Errorf("%#v is %#v, error %v", v, got, err)
		}
	}
	type shop struct {
		At    *vectorstore.Geo `json:"at"`
		Phone vectorstore.Phone
	}
	got, err := vectorstore.Value(shop{&berlin, vectorstore.Phone{Input: "+1"}})
	if m, ok := got.(map[string]any); err != nil || !ok || m["at"] != berlin || m["Phone"] != (vectorstore.Phone{Input: "+1"}) {
		t.Errorf("in a struct: %#v, error %v", got, err)
	}
}
