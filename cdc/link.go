package cdc

import "errors"

// Primary-key changes: Postgres logs one change, which Debezium writes as a delete of the old key, perhaps a tombstone, and a create of
// the new one. It links them by headers, which Debezium Server sends as properties of the message.
const (
	propertyNewKey = "__debezium.newkey" // of the delete
	propertyOldKey = "__debezium.oldkey" // of the create
)

// readLink reads the other half's key from the message's properties.
func (d *Decoder[T]) readLink(event *Event[T]) (err error) {
	var name string
	var key *Key
	switch event.Op {
	case OpDelete:
		name, key = propertyNewKey, &event.NewKey
	case OpCreate:
		name, key = propertyOldKey, &event.OldKey
	default:
		return nil
	}
	if text := event.Record.Properties[name]; text != "" {
		*key, err = parseKey([]byte(text), &d.keySchemas, nil)
	}
	var bad *DecodeError
	if errors.As(err, &bad) {
		located := *bad
		located.Reason = "property " + name + ": " + bad.Reason
		return &located
	}
	return err
}

// Linker links the halves of primary-key changes by their neighbourhood, for messages that came without the headers, as those of Pulsar
// IO do: a delete, perhaps its tombstone, and a create next to each other, of one table, with one log position. It needs the events of a
// partition in its order, with nothing left out between the two, and so finds nothing where keys are spread over partitions. The zero
// value is ready; it is for one goroutine.
type Linker[T any] struct {
	deleted map[partition]half
}

type partition struct {
	topic  string
	number int
}

// half is a delete that may be the first half of a key change.
type half struct {
	source Source
	key    Key
}

// maxPartitions bounds a Linker's memory.
const maxPartitions = 4096

// Link sets OldKey of creates, and NewKey of the deletes that are in the same batch, where they are not known yet.
func (l *Linker[T]) Link(events []Event[T]) {
	for i := range events {
		e := &events[i]
		at := partition{e.Record.Topic, e.Record.Partition}
		first, pending := l.deleted[at]
		switch e.Op {
		case OpTombstone:
			continue
		case OpDelete:
			if e.Source.LSN != 0 && len(e.Key) > 0 {
				l.remember(at, half{e.Source, e.Key})
				continue
			}
		case OpCreate:
			if pending && first.isOf(e.Source) && e.OldKey == nil {
				e.OldKey = first.key
				tell(events[:i], at, e.Key)
			}
		}
		delete(l.deleted, at)
	}
}

func (l *Linker[T]) remember(at partition, first half) {
	if l.deleted == nil || len(l.deleted) >= maxPartitions {
		l.deleted = make(map[partition]half)
	}
	l.deleted[at] = first
}

// isOf says whether the create is of the same change: one entry of the log.
func (h half) isOf(created Source) bool {
	deleted := h.source
	return deleted.LSN == created.LSN && deleted.TxID == created.TxID && deleted.Database == created.Database &&
		deleted.Schema == created.Schema && deleted.Table == created.Table
}

// tell gives the last delete of the partition its new key.
func tell[T any](events []Event[T], at partition, key Key) {
	for i := len(events) - 1; i >= 0; i-- {
		if e := &events[i]; e.Op == OpDelete && (partition{e.Record.Topic, e.Record.Partition}) == at {
			e.NewKey = key
			return
		}
	}
}
