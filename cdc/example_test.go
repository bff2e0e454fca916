package cdc_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
)

type Product struct {
	ID          int64 `cdc:"id,key"`
	Description *string
	Price       cdc.Decimal `cdc:"price,scale=2"`
	UpdatedAt   time.Time   `cdc:"updated_at,unit=us"`
}

func Example() {
	decoder, err := cdc.NewDecoder[Product](cdc.Options{})
	if err != nil {
		panic(err)
	}
	event, err := decoder.Decode(cdc.Record{
		Topic: "shop.public.products",
		Key:   `{"id":7}`,
		Value: []byte(`{"op":"u",
			"before":{"id":7,"description":"A mug","price":"BOI=","updated_at":1795960017391422},
			"after": {"id":7,"description":"A mug","price":"BLA=","updated_at":1795960018000000},
			"source":{"schema":"public","table":"products","lsn":70175728,"ts_ms":1795960018000}}`),
	})
	if err != nil {
		panic(err)
	}
	changed, known := event.Changed()
	fmt.Printf("%c of %v in %s at %v\n", event.Op, event.Key, event.Source.Table, event.Source.CommitTime)
	fmt.Println(event.Before.Price, "to", event.After.Price, "for", *event.After.Description)
	fmt.Println("changed:", changed, known)
	// Output:
	// u of [{id 7}] in products at 2026-11-29 13:46:58 +0000 UTC
	// 12.50 to 12.00 for A mug
	// changed: [price updated_at] true
}

func ExampleEvent_Unavailable() {
	type Article struct {
		ID   int64 `cdc:"id,key"`
		Body *string
	}
	decoder, err := cdc.NewDecoder[Article](cdc.Options{})
	if err != nil {
		panic(err)
	}
	for _, body := range []string{`"short"`, `null`, `"__debezium_unavailable_value"`} {
		event, err := decoder.Decode(cdc.Record{Value: []byte(`{"op":"u","before":null,"after":{"id":1,"body":` + body + `}}`)})
		switch {
		case err != nil:
			fmt.Println(err)
		case event.Unavailable("body"):
			fmt.Println("unavailable: keep what is stored")
		case event.After.Body == nil:
			fmt.Println("NULL")
		default:
			fmt.Println("value:", *event.After.Body)
		}
	}
	// Output:
	// value: short
	// NULL
	// unavailable: keep what is stored
}

func ExampleEvent_Merge() {
	type Article struct {
		ID    int64 `cdc:"id,key"`
		Title string
		Body  *string
	}
	decoder, err := cdc.NewDecoder[Article](cdc.Options{})
	if err != nil {
		panic(err)
	}
	var stored Article
	for _, value := range []string{
		`{"op":"c","before":null,"after":{"id":1,"title":"Mugs","body":"a long text"}}`,
		`{"op":"u","before":null,"after":{"id":1,"title":"Cups","body":"__debezium_unavailable_value"}}`,
	} {
		event, err := decoder.Decode(cdc.Record{Value: []byte(value)})
		if err != nil {
			panic(err)
		}
		event.Merge(&stored)
	}
	fmt.Println(stored.Title+":", *stored.Body)
	// Output:
	// Cups: a long text
}

func ExampleLinker() {
	decoder, err := cdc.NewDecoder[cdc.Row](cdc.Options{})
	if err != nil {
		panic(err)
	}
	// update products set id = 8 where id = 7
	var events []cdc.Event[cdc.Row]
	for _, r := range []cdc.Record{
		{Key: `{"id":7}`, Value: []byte(`{"op":"d","before":{"id":7},"after":null,"source":{"table":"products","lsn":500}}`)},
		{Key: `{"id":7}`},
		{Key: `{"id":8}`, Value: []byte(`{"op":"c","before":null,"after":{"id":8},"source":{"table":"products","lsn":500}}`)},
	} {
		event, err := decoder.Decode(r)
		if err != nil {
			panic(err)
		}
		events = append(events, event)
	}
	var linker cdc.Linker[cdc.Row]
	linker.Link(events)
	fmt.Println(events[0].Key, "becomes", events[0].NewKey)
	fmt.Println(events[2].Key, "was", events[2].OldKey)
	// Output:
	// [{id 7}] becomes [{id 8}]
	// [{id 8}] was [{id 7}]
}

func ExampleNotChangeEventError() {
	decoder, err := cdc.NewDecoder[cdc.Row](cdc.Options{})
	if err != nil {
		panic(err)
	}
	_, err = decoder.Decode(cdc.Record{Topic: "shop.transaction", Value: []byte(
		`{"status":"END","id":"1131:7","event_count":2,"data_collections":[{"data_collection":"public.products","event_count":2}]}`,
	)})
	var other *cdc.NotChangeEventError
	if errors.As(err, &other) && other.Kind == cdc.KindTransaction {
		fmt.Println(other.Transaction.ID, "has ended with", other.Transaction.Events, "events")
	}
	// Output:
	// 1131:7 has ended with 2 events
}

func ExampleRow() {
	decoder, err := cdc.NewDecoder[cdc.Row](cdc.Options{})
	if err != nil {
		panic(err)
	}
	event, err := decoder.Decode(cdc.Record{Key: `{"id":9007199254740993}`, Value: []byte(
		`{"op":"c","after":{"id":9007199254740993,"ratio":0.5,"tags":["a",null],"note":null}}`,
	)})
	if err != nil {
		panic(err)
	}
	for _, column := range *event.After {
		fmt.Printf("%s: %v (%T)\n", column.Name, column.Value, column.Value)
	}
	// Output:
	// id: 9007199254740993 (int64)
	// ratio: 0.5 (float64)
	// tags: [a <nil>] ([]interface {})
	// note: <nil> (<nil>)
}

func ExampleDecodeError() {
	decoder, err := cdc.NewDecoder[Product](cdc.Options{})
	if err != nil {
		panic(err)
	}
	for _, value := range []string{
		`{"op":"c","after":{"id":"seven"},"source":{"schema":"public","table":"products"}}`,
		`{"op":"c","after":{"id":7`,
		`{"ts_ms":1795959967656}`,
	} {
		_, err := decoder.Decode(cdc.Record{Topic: "shop.public.products", Value: []byte(value)})
		fmt.Println(err)
		fmt.Println(errors.Is(err, cdc.ErrNotChangeEvent))
	}
	// Output:
	// cdc: decode topic "shop.public.products" table "public.products" column "id" (string into int64): the string is no decimal number
	// false
	// cdc: decode topic "shop.public.products": message value: not JSON: unexpected end of JSON at byte 25
	// false
	// cdc: not a change event: topic "shop.public.products": heartbeat
	// true
}

func ExamplePosition_Compare() {
	before := cdc.Position{LSN: 70175728, Offset: "0000000000000001"}
	after := cdc.Position{LSN: 70175728, Offset: "0000000000000002"}
	order, known := before.Compare(after)
	fmt.Println(order, known)
	fmt.Println(before)
	// Output:
	// -1 true
	// 00000000-00000000042ecbf0-0000000000000001
}
