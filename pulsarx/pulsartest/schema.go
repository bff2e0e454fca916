package pulsartest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
)

// schemaType is the type of a schema as it travels; on the admin routes it goes by name.
type schemaType int32

const (
	schemaBytes          schemaType = -1
	schemaNone           schemaType = 0
	schemaString         schemaType = 1
	schemaJSON           schemaType = 2
	schemaProtobuf       schemaType = 3
	schemaAvro           schemaType = 4
	schemaKeyValue       schemaType = 15
	schemaProtobufNative schemaType = 20
)

var schemaTypeNames = [...]string{
	"NONE", "STRING", "JSON", "PROTOBUF", "AVRO", "BOOLEAN", "INT8", "INT16", "INT32", "INT64", "FLOAT", "DOUBLE", "DATE", "TIME",
	"TIMESTAMP", "KEY_VALUE", "INSTANT", "LOCAL_DATE", "LOCAL_TIME", "LOCAL_DATE_TIME", "PROTOBUF_NATIVE",
}

func (t schemaType) String() string {
	if t >= 0 && int(t) < len(schemaTypeNames) {
		return schemaTypeNames[t]
	}
	return "BYTES"
}

// schema is what a client says that its messages are.
type schema struct {
	kind       schemaType
	data       []byte
	properties map[string]string
}

// storedSchema is a version in a topic's registry.
type storedSchema struct {
	schema
	deleted bool // a marker: what is before it counts no more
	stored  time.Time
}

func (d *decoder) schema() *schema {
	s := &schema{properties: map[string]string{}}
	d.message(func(f *decoder) {
		switch f.num {
		case 3:
			s.data = append([]byte{}, f.bytes...)
		case 4:
			s.kind = schemaType(int32(f.value))
		case 5:
			key, value := f.pair()
			s.properties[key] = value
		}
	})
	return s
}

// empty tells whether a client has said nothing by its schema: plain bytes, or whatever there is.
func (s *schema) empty() bool { return s == nil || s.kind < schemaNone }

// equal tells whether two schemas say the same. Avro definitions are compared for what they mean, without documentation and aliases.
func (s *schema) equal(o *schema) bool {
	if s.kind != o.kind {
		return false
	}
	if bytes.Equal(s.data, o.data) {
		return true
	}
	if s.kind != schemaAvro && s.kind != schemaJSON {
		return false
	}
	var a, b any
	return json.Unmarshal(s.data, &a) == nil && json.Unmarshal(o.data, &b) == nil && reflect.DeepEqual(essence(a, ""), essence(b, ""))
}

// essence is what Pulsar compares of an Avro definition, with whole names; space is the namespace around it.
func essence(v any, space string) any {
	switch v := v.(type) {
	case string:
		if space != "" && !strings.Contains(v, ".") && !slices.Contains(plainTypes, v) {
			return space + "." + v
		}
	case []any:
		for i := range v {
			v[i] = essence(v[i], space)
		}
	case map[string]any:
		if len(v) == 1 { // {"type": "int"}
			return essence(v["type"], space)
		}
		return essenceOf(v, space)
	}
	return v
}

var plainTypes = []string{"null", "boolean", "int", "long", "float", "double", "bytes", "string", "record", "enum", "fixed", "array", "map"}

func essenceOf(v map[string]any, space string) any {
	if name, ok := v["name"].(string); ok {
		if own, ok := v["namespace"].(string); ok {
			space = own
		}
		if at := strings.LastIndexByte(name, '.'); at >= 0 {
			space, name = name[:at], name[at+1:]
		}
		v["name"] = strings.TrimPrefix(space+"."+name, ".")
	}
	fields, _ := v["fields"].([]any)
	for _, field := range fields {
		if f, ok := field.(map[string]any); ok {
			f["type"] = essence(f["type"], space)
			drop(f, "doc", "aliases")
		}
	}
	for _, part := range []string{"type", "items", "values"} {
		if inner, ok := v[part]; ok {
			v[part] = essence(inner, space)
		}
	}
	if v["type"] == "enum" {
		drop(v, "default")
	}
	drop(v, "doc", "aliases", "namespace")
	return v
}

func drop(v map[string]any, names ...string) {
	for _, name := range names {
		delete(v, name)
	}
}

// versionBytes is a schema version as it travels: 8 bytes, big-endian.
func versionBytes(version int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(version)) }

// latestSchema is the newest version of a topic, -1 without one.
func (b *Broker) latestSchema(base string) int {
	versions := b.schemas[base]
	if n := len(versions); n > 0 && !versions[n-1].deleted {
		return n - 1
	}
	return -1
}

// history are the schemas of a topic that count, the newest first.
func (b *Broker) history(base string) []storedSchema {
	versions := b.schemas[base]
	start := len(versions)
	for start > 0 && !versions[start-1].deleted {
		start--
	}
	newest := slices.Clone(versions[start:])
	slices.Reverse(newest)
	return newest
}

// addSchema returns the version of a schema, stored as a new one if the topic does not have it.
func (b *Broker) addSchema(name topicName, s *schema) (int, *refusal) {
	if v := b.findSchema(name.base, s); v >= 0 {
		return v, nil
	}
	if why := s.invalid(); why != nil {
		return -1, why
	}
	if why := s.compatible(b.history(name.base), b.strategyOf(name)); why != nil {
		return -1, why
	}
	b.schemas[name.base] = append(b.schemas[name.base], storedSchema{schema: *s, stored: time.Now()})
	return len(b.schemas[name.base]) - 1, nil
}

// findSchema is the version of a schema, -1 if the topic does not have it.
func (b *Broker) findSchema(base string, s *schema) int {
	versions := b.schemas[base]
	v := len(versions) - 1
	for v >= 0 && !versions[v].deleted {
		if versions[v].equal(s) {
			return v
		}
		v--
	}
	return -1
}

// invalid refuses a definition that is none.
func (s *schema) invalid() *refusal {
	ok := true
	switch {
	case s.kind == schemaAvro || s.kind == schemaJSON || s.kind == schemaProtobuf || s.kind == schemaProtobufNative:
		ok = json.Valid(s.data)
	case s.kind == schemaKeyValue:
		parts := splitKeyValue(s.data, s.properties)
		if why := parts[0].invalid(); why != nil {
			return why
		}
		return parts[1].invalid()
	case s.kind > schemaNone && s.kind != schemaString:
		ok = len(s.data) == 0
	}
	if !ok {
		return refuse(incompatibleSchema, "Invalid schema definition data for %s schema", s.kind)
	}
	return nil
}

// schemaFor is the version that a producer's messages have, empty without a schema.
func (b *Broker) schemaFor(t *topic, s *schema) ([]byte, *refusal) {
	if s.empty() {
		if b.on(t.name, "schemaValidationEnforced", "schemaValidationEnforced", false) && b.latestSchema(t.name.base) >= 0 {
			return nil, refuse(incompatibleSchema, "Producers cannot connect or send message without a schema to topics with a schema when SchemaValidationEnforced is enabled")
		}
		return nil, nil
	}
	version, why := b.clientSchema(t.name, s)
	if why != nil {
		return nil, why
	}
	return versionBytes(version), nil
}

// clientSchema is addSchema for a client, which may not bring new ones everywhere.
func (b *Broker) clientSchema(name topicName, s *schema) (int, *refusal) {
	if !b.on(name, "", "isAllowAutoUpdateSchema", true) {
		if v := b.findSchema(name.base, s); v >= 0 {
			return v, nil
		}
		return -1, refuse(incompatibleSchema, "Schema not found and schema auto updating is disabled.")
	}
	return b.addSchema(name, s)
}

// checkConsumerSchema lets a consumer's schema be a topic's first one; otherwise it must fit by what the strategy means for readers.
func (b *Broker) checkConsumerSchema(t *topic, s *schema) *refusal {
	if s.empty() {
		return nil
	}
	older := b.history(t.name.base)
	if len(older) == 0 && !t.busy() && len(t.entries) == 0 {
		_, why := b.clientSchema(t.name, s)
		return why
	}
	by := b.strategyOf(t.name)
	switch {
	case by == alwaysCompatible:
		return nil
	case len(older) == 0:
		return refuse(incompatibleSchema, "Topic does not have schema to check")
	case by == backward || by == forward || by == forwardTransitive || by == full:
		by = backward
	}
	return s.compatible(older, by)
}

func (r *getSchemaRequest) serve(c *conn) {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	name, err := parseTopic(r.name)
	if err != nil {
		r.fail(c, asRefusal(err))
		return
	}
	version := b.latestSchema(name.base)
	if len(r.version) > 0 {
		version = b.schemaVersion(name.base, r.version)
	}
	if version < 0 {
		r.fail(c, refuse(topicNotFound, "Topic not found or no-schema"))
		return
	}
	s := b.schemas[name.base][version]
	body := appendUint(nil, 1, r.requestID)
	body = appendBytes(body, 4, s.encode(strings.TrimPrefix(name.base, name.domain+"://")))
	c.reply(cmdGetSchemaResponse, appendBytes(body, 5, versionBytes(version)))
}

// schemaVersion reads a version as it travels; -1 for one that the topic does not have.
func (b *Broker) schemaVersion(base string, version []byte) int {
	if len(version) != 8 {
		return -1
	}
	v := binary.BigEndian.Uint64(version)
	versions := b.schemas[base]
	if v >= uint64(len(versions)) {
		return -1
	}
	if slices.ContainsFunc(versions[v:], func(s storedSchema) bool { return s.deleted }) {
		return -1
	}
	return int(v)
}

func (s *schema) encode(name string) []byte {
	body := appendString(nil, 1, name)
	body = appendBytes(body, 3, s.data)
	body = appendUint(body, 4, uint64(s.kind))
	for key, value := range s.properties {
		body = appendBytes(body, 5, appendString(appendString(nil, 1, key), 2, value))
	}
	return body
}

func (r *createSchemaRequest) serve(c *conn) {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	name, err := parseTopic(r.name)
	if err != nil {
		r.fail(c, asRefusal(err))
		return
	}
	if len(b.parts(r.name)) == 0 {
		r.fail(c, refuse(topicNotFound, "Topic not found %s", name.full))
		return
	}
	version, why := b.clientSchema(name, r.schema)
	if why != nil {
		r.fail(c, why)
		return
	}
	body := appendUint(nil, 1, r.requestID)
	c.reply(cmdGetOrCreateSchemaResp, appendBytes(body, 4, versionBytes(version)))
}
