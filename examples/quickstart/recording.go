package main

import (
	"bytes"
	"context"
	_ "embed" // for the recording
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// message is a message of Debezium as it was recorded. One without a value is a tombstone.
type message struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value,omitempty"`
}

// The messages that Debezium sent for recording/snapshot.sql and recording/changes.sql; recording_test.go makes them.
//
//go:embed recording/products.jsonl
var recording []byte

// snapshotRows is how many messages at the beginning are the rows of the snapshot.
const snapshotRows = 16

// readRecording returns the messages of recording/products.jsonl.
func readRecording() ([]message, error) {
	var all []message
	for d := json.NewDecoder(bytes.NewReader(recording)); ; {
		var m message
		err := d.Decode(&m)
		if errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("recording: %w", err)
		}
		all = append(all, m)
	}
}

// play sends messages as Debezium Server does, and waits until they are acknowledged.
func play(ctx context.Context, producer *pulsarx.Producer[string], broker *pulsartest.Broker, messages []message) error {
	for _, m := range messages {
		var err error
		if m.Value == nil {
			_, err = producer.SendTombstone(ctx, m.Key)
		} else {
			_, err = producer.Send(ctx, string(m.Value), pulsarx.Key(m.Key))
		}
		if err != nil {
			return err
		}
	}
	return settle(ctx, broker)
}
