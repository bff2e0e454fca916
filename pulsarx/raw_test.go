package pulsarx_test

import (
	"reflect"
	"testing"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/pulsarx"
)

// The two convert into each other, and their documentation promises equal fields.
var (
	_ = cdc.Record(pulsarx.Raw{})
	_ = pulsarx.Raw(cdc.Record{})
)

func TestRawIsRecord(t *testing.T) {
	raw, record := reflect.TypeFor[pulsarx.Raw](), reflect.TypeFor[cdc.Record]()
	for i := range raw.NumField() {
		if raw.Field(i).Name != record.Field(i).Name {
			t.Errorf("field %d is %s and %s", i, raw.Field(i).Name, record.Field(i).Name)
		}
	}
}
