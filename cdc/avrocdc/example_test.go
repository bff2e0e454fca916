package avrocdc_test

import (
	"fmt"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/cdc/avrocdc"
)

func Example() {
	type product struct {
		ID int64     `cdc:"id,key"`
		At time.Time // the schema says that the number counts microseconds
	}
	decoder, err := avrocdc.NewDecoder[product](cdc.Options{})
	if err != nil {
		panic(err)
	}
	// With package pulsarx the record is cdc.Record(raw), which has the writer's schema from Pulsar's registry.
	event, err := decoder.Decode(cdc.Record{
		SchemaType: "AVRO",
		Schema: []byte(`{"type":"record","name":"Envelope","fields":[
			{"name":"after","type":["null",{"type":"record","name":"Value","fields":[
				{"name":"id","type":"long"},
				{"name":"at","type":{"type":"long","connect.name":"io.debezium.time.MicroTimestamp"}}]}]},
			{"name":"op","type":"string"}]}`),
		Value: []byte("\x02\x0e\x80\x80\xbe\x82\xa3\xd7\x1c\x02c"),
	})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%c of %v: %v\n", event.Op, event.Key, event.After.At)
	// Output:
	// c of [{id 7}]: 1972-01-01 00:00:00 +0000 UTC
}
