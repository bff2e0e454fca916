package main

import (
	"bufio"
	"errors"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/cdc/avrocdc"
)

// report is what there is to say about one message.
type report struct {
	event cdc.Event[cdc.Row]
	// kind is change, or what the message is instead.
	kind string
	// key, oldKey and newKey have their values as rows have them.
	key, oldKey, newKey cdc.Row
	// boundary is set for transactions.
	boundary *cdc.TransactionBoundary
	// time is when the change was committed, or when the connector wrote a record that is no change.
	time time.Time
}

// The kinds of messages that have an envelope, or none at all. Those of other records are cdc's.
const (
	kindChange    = "change"
	kindTombstone = "tombstone"
	kindTruncate  = "truncate"
	kindMessage   = "message"
)

// op is Debezium's letter for changes of rows, and the kind of everything else.
func (r *report) op() string {
	if r.kind == kindChange {
		return string(r.event.Op)
	}
	return r.kind
}

// outputError is one after which nothing more can be printed.
type outputError struct{ error }

func (e *outputError) Unwrap() error { return e.error }

// printer decodes messages and prints what they say.
type printer struct {
	decoder *avrocdc.Decoder[cdc.Row] // decodes JSON as well
	out     *bufio.Writer
	form    func([]byte, *report) []byte
	buffer  []byte
}

func newPrinter(c config, out *bufio.Writer) (*printer, error) {
	decoder, err := avrocdc.NewDecoder[cdc.Row](c.decoder)
	if err != nil {
		return nil, err
	}
	form := appendText
	if c.json {
		form = appendCanonical
	}
	return &printer{decoder: decoder, out: out, form: form}, nil
}

// print prints one message. Its error is the message's fault, or an *outputError.
func (p *printer) print(r cdc.Record) error {
	report, err := p.read(r)
	if err != nil {
		return err
	}
	p.buffer = p.form(p.buffer[:0], report)
	if _, err := p.out.Write(p.buffer); err != nil {
		return &outputError{err}
	}
	return nil
}

func (p *printer) flush() error {
	if err := p.out.Flush(); err != nil {
		return &outputError{err}
	}
	return nil
}

func (p *printer) read(r cdc.Record) (*report, error) {
	event, err := p.decoder.Decode(r)
	var other *cdc.NotChangeEventError
	if errors.As(err, &other) && other.Kind != cdc.KindUnknown {
		rep := &report{kind: other.Kind, time: other.Time, boundary: other.Transaction}
		rep.event.Record = r
		return rep, nil
	}
	if err != nil {
		return nil, err
	}
	rep := &report{event: event, kind: kindChange, time: event.Source.CommitTime}
	switch event.Op {
	case cdc.OpTombstone:
		rep.kind = kindTombstone
	case cdc.OpTruncate:
		rep.kind = kindTruncate
	case cdc.OpMessage:
		rep.kind = kindMessage
	}
	rep.key = p.keyRow(event.Key, r.Key)
	rep.oldKey = p.keyRow(event.OldKey, r.Properties["__debezium.oldkey"])
	rep.newKey = p.keyRow(event.NewKey, r.Properties["__debezium.newkey"])
	return rep, nil
}

// keyRow gives a key the values that a row has, times for example: the text of a key is that of a row without an envelope.
func (p *printer) keyRow(key cdc.Key, text string) cdc.Row {
	if len(key) == 0 || text == "" {
		return cdc.Row(key)
	}
	event, err := p.decoder.Decode(cdc.Record{Value: []byte(text)})
	if err != nil || event.After == nil || len(*event.After) != len(key) {
		return cdc.Row(key) // base64 as Pulsar IO sends it, or names that only an envelope has
	}
	return *event.After
}
