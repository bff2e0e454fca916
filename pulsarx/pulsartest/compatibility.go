package pulsartest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-go/tidemark/pulsarx/internal/avro"
)

// strategy says which schemas a topic takes after each other.
type strategy string

const (
	undefined          strategy = "UNDEFINED" // as the broker is configured: FULL
	alwaysIncompatible strategy = "ALWAYS_INCOMPATIBLE"
	alwaysCompatible   strategy = "ALWAYS_COMPATIBLE"
	backward           strategy = "BACKWARD"
	forward            strategy = "FORWARD"
	full               strategy = "FULL"
	backwardTransitive strategy = "BACKWARD_TRANSITIVE"
	forwardTransitive  strategy = "FORWARD_TRANSITIVE"
	fullTransitive     strategy = "FULL_TRANSITIVE"
)

var strategies = []strategy{
	undefined, alwaysIncompatible, alwaysCompatible, backward, forward, full,
	backwardTransitive, forwardTransitive, fullTransitive,
}

func (s strategy) transitive() bool {
	return s == backwardTransitive || s == forwardTransitive || s == fullTransitive
}

// reads and isRead tell in which direction the new schema has to fit.
func (s strategy) reads() bool  { return s != forward && s != forwardTransitive }
func (s strategy) isRead() bool { return s != backward && s != backwardTransitive }

// schemaStrategy is the path of the policy.
const schemaStrategy = "schemaCompatibilityStrategy"

func readStrategy(value []byte) strategy {
	s := undefined
	_ = json.Unmarshal(value, &s) // what is not set leaves it undefined
	return s
}

// strategyOf is the strategy of a topic: its own, its namespace's, or the broker's.
func (b *Broker) strategyOf(name topicName) strategy {
	ns := b.namespaces[name.namespace]
	if ns == nil {
		return full
	}
	for _, set := range []policies{ns.topics[name.base], ns.policies} {
		if s := readStrategy(set[schemaStrategy]); s != undefined {
			return s
		}
	}
	return full
}

// compatible refuses a schema that does not fit those that a topic has, the newest first.
func (s *schema) compatible(older []storedSchema, by strategy) *refusal {
	if len(older) == 0 || by == alwaysCompatible {
		return nil
	}
	if !by.transitive() {
		older = older[:1]
	}
	for i := range older {
		if have := older[i].kind; have != s.kind {
			return refuse(incompatibleSchema, "Incompatible schema: exists schema type %s, new schema type %s", have, s.kind)
		}
	}
	if !by.transitive() && bytes.Equal(older[0].data, s.data) {
		return nil
	}
	for i := range older {
		if err := fits(s.kind, s.data, older[i].data, s.properties, older[i].properties, by); err != nil {
			return refuse(incompatibleSchema, "Error during schema compatibility check with strategy %s: %v", by, err)
		}
	}
	return nil
}

// fits compares two definitions of a type. Types that say nothing that could be compared fit always, but for ALWAYS_INCOMPATIBLE.
func fits(kind schemaType, data, older []byte, properties, olderProperties map[string]string, by strategy) error {
	switch kind {
	case schemaAvro, schemaJSON:
		return fitsAvro(data, older, by)
	case schemaProtobufNative:
		return fitsProtobuf(data, older, by)
	case schemaKeyValue:
		return fitsKeyValue(data, older, properties, olderProperties, by)
	}
	if by == alwaysIncompatible {
		return errors.New("schema compatibility strategy is ALWAYS_INCOMPATIBLE")
	}
	return nil
}

// fitsAvro compares Avro definitions. An older one that is none is not compared.
func fitsAvro(data, older []byte, by strategy) error {
	if by == alwaysIncompatible {
		return errors.New("no schema fits another")
	}
	reader, err := avro.Parse(data, false)
	writer, unknown := avro.Parse(older, false)
	if err != nil || unknown != nil {
		return err
	}
	if by.reads() {
		err = (resolution{}).check(reader, writer)
	}
	if err == nil && by.isRead() {
		err = (resolution{}).check(writer, reader)
	}
	return err
}

// fitsProtobuf is all that Pulsar 4.0 compares of Protobuf: the name of the message.
func fitsProtobuf(data, older []byte, by strategy) error {
	var now, before struct {
		Root string `json:"rootMessageTypeName"`
	}
	if by == alwaysIncompatible {
		return errors.New("unknown strategy")
	}
	if err := errors.Join(json.Unmarshal(data, &now), json.Unmarshal(older, &before)); err != nil {
		return err
	}
	if now.Root != before.Root {
		return fmt.Errorf("the root message was %s and is %s", before.Root, now.Root)
	}
	return nil
}

// fitsKeyValue compares keys with keys and values with values.
func fitsKeyValue(data, older []byte, properties, olderProperties map[string]string, by strategy) error {
	now, before := splitKeyValue(data, properties), splitKeyValue(older, olderProperties)
	for i := range now {
		if now[i].kind != before[i].kind {
			return fmt.Errorf("key or value was %s and is %s", before[i].kind, now[i].kind)
		}
		if err := fits(now[i].kind, now[i].data, before[i].data, now[i].properties, before[i].properties, by); err != nil {
			return err
		}
	}
	return nil
}

// splitKeyValue takes the two schemas of a KEY_VALUE apart: its data is each one's length and definition, its properties say their types.
func splitKeyValue(data []byte, properties map[string]string) [2]schema {
	var parts [2]schema
	for i, side := range []string{"key", "value"} {
		if len(data) >= 4 {
			n := int(int32(binary.BigEndian.Uint32(data)))
			n = min(max(n, 0), len(data)-4)
			parts[i].data, data = data[4:4+n], data[4+n:]
		}
		parts[i].kind = schemaBytes
		if k := slices.Index(schemaTypeNames[:], properties[side+".schema.type"]); k >= 0 {
			parts[i].kind = schemaType(k)
		}
		_ = json.Unmarshal([]byte(properties[side+".schema.properties"]), &parts[i].properties) // without any it has none
	}
	return parts
}

// joinKeyValue is splitKeyValue back, from the form that the admin routes have: an object with the definitions of key and value.
func joinKeyValue(text []byte) ([]byte, error) {
	var in struct{ Key, Value json.RawMessage }
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	var data []byte
	for _, part := range []json.RawMessage{in.Key, in.Value} {
		if string(part) == `""` {
			part = nil
		}
		data = binary.BigEndian.AppendUint32(data, uint32(len(part)))
		data = append(data, part...)
	}
	return data, nil
}

// keyValueText is that form of a schema.
func (s *schema) keyValueText() string {
	parts := splitKeyValue(s.data, s.properties)
	var out [2]string
	for i, part := range parts {
		if out[i] = string(part.data); out[i] == "" {
			out[i] = `""`
		}
	}
	return `{"key":` + out[0] + `,"value":` + out[1] + `}`
}
