package pulsarx_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"maps"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// A struct for a union, and logical types from tags.
func ExampleAvro_tags() {
	type card struct {
		Number string `avro:"number"`
	}
	type payment struct {
		pulsarx.OneOf
		Card *card
		Cash *int64
	}
	type sale struct {
		_       struct{}  `avro:"com.example.Sale" doc:"one sale"`
		Price   string    `avro:"price,decimal=12.2"`
		Day     time.Time `avro:"day,date"`
		Size    string    `avro:"size,enum=S|M|L,default=M"`
		Payment payment   `avro:"payment"`
	}
	codec := pulsarx.Avro[sale]()
	schema, err := codec.Schema()
	if err != nil {
		log.Fatal(err)
	}
	var fields struct {
		Fields []struct {
			Name string
			Type json.RawMessage
		}
	}
	if err := json.Unmarshal(schema.Definition, &fields); err != nil {
		log.Fatal(err)
	}
	for _, f := range fields.Fields {
		fmt.Printf("%s %s\n", f.Name, f.Type)
	}
	// Output:
	// price {"type":"bytes","logicalType":"decimal","precision":12,"scale":2}
	// day {"type":"int","logicalType":"date"}
	// size {"type":"enum","name":"size","symbols":["S","M","L"]}
	// payment ["null",{"type":"record","name":"card","fields":[{"name":"number","type":"string"}]},"long"]
}

// A message is read with its writer's schema: an int that has become a long, a field with a new name, and one with a default.
func ExampleAvroCodec_Decode() {
	type customer struct {
		ID   int32  `avro:"id"`
		Name string `avro:"name"`
	}
	type customerNow struct {
		Name  string `avro:"full_name,alias=name"`
		ID    int64  `avro:"id"`
		Level string `avro:"level,default=basic"`
	}
	before := pulsarx.Avro[customer]()
	payload, err := before.Encode(nil, customer{7, "Ann"})
	if err != nil {
		log.Fatal(err)
	}
	schema, err := before.Schema()
	if err != nil {
		log.Fatal(err)
	}
	now, err := pulsarx.Avro[customerNow]().Decode(pulsarx.Raw{Value: payload, SchemaType: schema.Type, Schema: schema.Definition})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%+v\n", now)
	// Output: {Name:Ann ID:7 Level:basic}
}

// Any reads a topic whose schema nobody has told.
func ExampleAny() {
	broker, client := start()
	defer broker.Close()
	ctx := context.Background()
	defer client.Close(ctx)
	orders, err := pulsarx.NewProducer(ctx, client, pulsarx.Avro[Order](), pulsarx.ProducerOptions[Order]{Topic: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	defer orders.Close(ctx)
	if _, err := orders.Send(ctx, Order{"a", 1 << 60}); err != nil {
		log.Fatal(err)
	}
	err = pulsarx.Replay(ctx, client, pulsarx.Any(), pulsarx.ReplayOptions{Topics: []string{"orders"}},
		pulsarx.Values(func(_ context.Context, values []any) error {
			for _, v := range values {
				record := v.(map[string]any)
				for _, name := range slices.Sorted(maps.Keys(record)) {
					fmt.Printf("%s %v\n", name, record[name])
				}
			}
			return nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// id a
	// total 1152921504606846976
}

// Key and value have schemas of their own; the key is the message's, so that it routes and compacts.
func ExampleKeyValueSeparated() {
	type id struct {
		Tenant string `avro:"tenant"`
		Number int64  `avro:"number"`
	}
	type entry = pulsarx.KeyValue[id, *Order]
	broker, client := start()
	defer broker.Close()
	ctx := context.Background()
	defer client.Close(ctx)
	codec := pulsarx.KeyValueSeparated(pulsarx.Avro[id](), pulsarx.Avro[*Order]())
	entries, err := pulsarx.NewProducer(ctx, client, codec, pulsarx.ProducerOptions[entry]{Topic: "entries"})
	if err != nil {
		log.Fatal(err)
	}
	defer entries.Close(ctx)
	for _, e := range []entry{{id{"acme", 1}, &Order{"a", 5}}, {id{"acme", 1}, nil}} { // nil is a tombstone
		if _, err := entries.Send(ctx, e); err != nil {
			log.Fatal(err)
		}
	}
	err = pulsarx.Replay(ctx, client, codec, pulsarx.ReplayOptions{Topics: []string{"entries"}},
		pulsarx.Values(func(_ context.Context, entries []entry) error {
			for _, e := range entries {
				fmt.Println(e.Key, e.Value != nil)
			}
			return nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// {acme 1} true
	// {acme 1} false
}

// The registry is asked before a producer is upgraded, and lists what the topic has.
func ExampleSchemas() {
	type orderNext struct {
		ID    string `avro:"id"`
		Total string `avro:"total"` // was a number
	}
	broker, client := start()
	defer broker.Close()
	ctx := context.Background()
	defer client.Close(ctx)
	orders, err := pulsarx.NewProducer(ctx, client, pulsarx.Avro[Order](), pulsarx.ProducerOptions[Order]{Topic: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	defer orders.Close(ctx)
	next, err := pulsarx.Avro[orderNext]().Schema()
	if err != nil {
		log.Fatal(err)
	}
	err = client.Schemas().Compatible(ctx, "orders", next)
	fmt.Println("refused:", errors.Is(err, pulsarx.ErrIncompatibleSchema))
	versions, err := client.Schemas().List(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	for _, v := range versions {
		fmt.Println(v.Version, v.Type, string(v.Definition))
	}
	// Output:
	// refused: true
	// 0 AVRO {"type":"record","name":"Order","fields":[{"name":"id","type":"string"},{"name":"total","type":"long"}]}
}

// start starts a broker, and a client of it.
func start() (*pulsartest.Broker, *pulsarx.Client) {
	broker, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	client, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: broker.URL(), AdminURL: broker.AdminURL()})
	if err != nil {
		log.Fatal(err)
	}
	return broker, client
}
