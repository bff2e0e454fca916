package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/pulsarx"
)

// changeSchema is the Avro form of a change of the products table, for producers that are not Debezium.
const changeSchema = `{
  "type": "record", "name": "ProductChangeEvent", "namespace": "com.example.events",
  "fields": [
    {"name": "before", "type": ["null", {
      "type": "record", "name": "Product",
      "fields": [
        {"name": "product_id", "type": "long"},
        {"name": "description", "type": ["null", "string"], "default": null},
        {"name": "image_path", "type": ["null", "string"], "default": null},
        {"name": "last_updated_at", "type": "long", "doc": "microseconds since 1970-01-01 UTC"}
      ]
    }], "default": null},
    {"name": "after", "type": ["null", "Product"], "default": null},
    {"name": "source", "type": {
      "type": "record", "name": "Source",
      "fields": [
        {"name": "ts_ms", "type": "long"},
        {"name": "db", "type": "string"},
        {"name": "schema", "type": "string"},
        {"name": "table", "type": "string"}
      ]
    }},
    {"name": "op", "type": "string"}
  ]
}`

// ProductChangeEvent is a record of changeSchema.
type ProductChangeEvent struct {
	Before *AvroProduct `avro:"before"`
	After  *AvroProduct `avro:"after"`
	Source ChangeSource `avro:"source"`
	Op     string       `avro:"op"`
}

// AvroProduct is a row of the products table in changeSchema.
type AvroProduct struct {
	ID            int64   `avro:"product_id"`
	Description   *string `avro:"description"`
	ImagePath     *string `avro:"image_path"`
	LastUpdatedAt int64   `avro:"last_updated_at"`
}

// ChangeSource says where a change comes from. It has no log position: Pulsar's message id orders such changes.
type ChangeSource struct {
	CommitMillis int64  `avro:"ts_ms"`
	Database     string `avro:"db"`
	Schema       string `avro:"schema"`
	Table        string `avro:"table"`
}

var (
	errMissingRow = errors.New("productsync: a change without the row that it needs")
	errUnknownOp  = errors.New("productsync: unknown operation")
)

// decodeAvro returns a decoder of ProductChangeEvents, and of the tombstones between them.
func decodeAvro() func(pulsarx.Raw) (cdc.Event[Product], error) {
	codec := pulsarx.AvroSchema[ProductChangeEvent](changeSchema)
	return func(r pulsarx.Raw) (cdc.Event[Product], error) {
		if r.Value == nil {
			return tombstone(r)
		}
		change, err := codec.Decode(r)
		if err != nil {
			return cdc.Event[Product]{}, err
		}
		return change.event(r)
	}
}

func tombstone(r pulsarx.Raw) (cdc.Event[Product], error) {
	id, err := strconv.ParseInt(r.Key, 10, 64)
	if err != nil {
		return cdc.Event[Product]{}, fmt.Errorf("productsync: the key of a tombstone is not a product_id: %w", errors.Unwrap(err))
	}
	return cdc.Event[Product]{Op: cdc.OpTombstone, Key: productKey(id), Record: cdc.Record(r)}, nil
}

// event turns the change into the event that Debezium's messages are decoded to.
func (c ProductChangeEvent) event(r pulsarx.Raw) (cdc.Event[Product], error) {
	e := cdc.Event[Product]{
		Before: c.Before.product(),
		After:  c.After.product(),
		Source: cdc.Source{
			Database: c.Source.Database, Schema: c.Source.Schema, Table: c.Source.Table,
			CommitTime: time.UnixMilli(c.Source.CommitMillis).UTC(),
		},
		Record: cdc.Record(r),
	}
	var row *Product
	var side string
	switch c.Op {
	case "c", "u", "r":
		row, side = e.After, "after"
	case "d":
		row, side = e.Before, "before"
	default:
		return e, fmt.Errorf("%w %q", errUnknownOp, c.Op)
	}
	if row == nil {
		return e, fmt.Errorf("%w: op %q with an empty %s", errMissingRow, c.Op, side)
	}
	e.Op, e.Key = cdc.Op(c.Op[0]), productKey(row.ID)
	return e, nil
}

func productKey(id int64) cdc.Key { return cdc.Key{{Name: "product_id", Value: id}} }

func (p *AvroProduct) product() *Product {
	if p == nil {
		return nil
	}
	return &Product{ID: p.ID, Description: p.Description}
}
