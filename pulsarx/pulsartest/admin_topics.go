package pulsartest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The admin routes about topics, their subscriptions and their schemas.

// exists tells whether a topic, partitioned or not, has this name.
func (b *Broker) exists(name topicName) bool {
	return b.topics[name.full] != nil || b.partitions[name.full] > 0
}

func adminCreateTopic(b *Broker, r *adminRequest) (any, error) {
	if b.exists(r.topic) {
		return nil, adminRefuse(http.StatusConflict, "This topic already exists")
	}
	if n, ok := b.partitions[r.topic.base]; ok && r.topic.partition >= n {
		return nil, adminRefuse(http.StatusPreconditionFailed, "%s has only %d partitions", r.topic.base, n)
	}
	b.createTopic(r.topic, 0)
	return nil, nil
}

func adminDeleteTopic(b *Broker, r *adminRequest) (any, error) {
	t := b.topics[r.topic.full]
	switch {
	case t == nil && b.partitions[r.topic.full] > 0:
		return nil, adminRefuse(http.StatusConflict, "%s is a partitioned topic, instead of calling delete topic, "+
			"please call delete-partitioned-topic.", r.topic.full)
	case t == nil:
		return nil, topicMissing(r.topic)
	case t.busy() && !r.force():
		return nil, adminRefuse(http.StatusPreconditionFailed, "Topic has active producers/subscriptions")
	}
	b.deleteTopic(t)
	if t.name.partition < 0 {
		b.forget(t.name)
	}
	return nil, nil
}

// forget drops what is known of a topic that is gone.
func (b *Broker) forget(name topicName) {
	delete(b.schemas, name.base)
	delete(b.namespaces[name.namespace].topics, name.base)
}

func (b *Broker) deleteTopic(t *topic) {
	delete(b.topics, t.name.full)
	b.tellWatchers(t.name, false)
	t.disconnect(nil)
}

// partitionCount reads the number of partitions in a body.
func (r *adminRequest) partitionCount() (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(string(r.body)))
	switch {
	case err != nil:
		return 0, adminRefuse(http.StatusBadRequest, "The body must be a number of partitions")
	case r.topic.partition >= 0:
		return 0, notPartitioned()
	}
	return n, nil
}

func notPartitioned() error {
	return adminRefuse(http.StatusPreconditionFailed, "Partitioned Topic Name should not contain '-partition-'")
}

// adminLookup is LOOKUP for clients that are given an http URL.
func adminLookup(b *Broker, r *adminRequest) (any, error) {
	url := b.nodeURL(b.owner(r.topic))
	if b.options.TLS != nil {
		return map[string]string{"brokerUrl": "", "brokerUrlSsl": url, "httpUrlTls": b.AdminURL(), "nativeUrl": ""}, nil
	}
	return map[string]string{"brokerUrl": url, "httpUrl": b.AdminURL(), "nativeUrl": url, "brokerUrlSsl": ""}, nil
}

// adminPartitions is also what such clients ask; a topic that they may create is one without partitions.
func adminPartitions(b *Broker, r *adminRequest) (any, error) {
	if !b.exists(r.topic) && r.URL.Query().Get("checkAllowAutoCreation") != "true" {
		return nil, topicMissing(r.topic)
	}
	return map[string]any{"partitions": b.partitions[r.topic.full], "deleted": false}, nil
}

func adminCreatePartitioned(b *Broker, r *adminRequest) (any, error) {
	n, err := r.partitionCount()
	if err != nil {
		return nil, err
	}
	switch {
	case n < 1:
		return nil, adminRefuse(http.StatusNotAcceptable, "Number of partitions should be more than 0")
	case b.exists(r.topic):
		return nil, adminRefuse(http.StatusConflict, "This topic already exists")
	case n > maxPartitions:
		return nil, adminRefuse(http.StatusNotAcceptable, "Number of partitions should be at most %d", maxPartitions)
	}
	b.createTopic(r.topic, n)
	return nil, nil
}

// adminGrow adds partitions; they get the topic's durable subscriptions, from their beginning.
func adminGrow(b *Broker, r *adminRequest) (any, error) {
	n, err := r.partitionCount()
	if err != nil {
		return nil, err
	}
	have := b.partitions[r.topic.full]
	switch {
	case have == 0:
		return nil, adminRefuse(http.StatusConflict, "Topic %s is not the partitioned topic.", r.topic.full)
	case n < have:
		return nil, adminRefuse(http.StatusUnprocessableEntity,
			"Desired partitions %d can't be less than the current partitions %d.", n, have)
	}
	if n > maxPartitions {
		return nil, adminRefuse(http.StatusNotAcceptable, "Number of partitions should be at most %d", maxPartitions)
	}
	b.createTopic(r.topic, n)
	parts := b.parts(r.topic.full)
	for _, sub := range subscriptionNames(parts) {
		for _, t := range parts[have:] {
			t.subscribed(sub, true, 0)
		}
	}
	return nil, nil
}

func adminDeletePartitioned(b *Broker, r *adminRequest) (any, error) {
	switch {
	case r.topic.partition >= 0:
		return nil, notPartitioned()
	case b.topics[r.topic.full] != nil:
		return nil, adminRefuse(http.StatusConflict, "%s is a non-partitioned topic. Instead of calling delete-partitioned-topic please call delete.", r.topic.full)
	case b.partitions[r.topic.full] == 0:
		return nil, adminRefuse(http.StatusNotFound, "Topic %s not found.", r.topic.full)
	}
	parts := b.parts(r.topic.full)
	if slices.ContainsFunc(parts, (*topic).busy) && !r.force() {
		return nil, adminRefuse(http.StatusPreconditionFailed, "Topic has active producers/subscriptions")
	}
	delete(b.partitions, r.topic.full)
	for _, t := range parts {
		b.deleteTopic(t)
	}
	b.forget(r.topic)
	return nil, nil
}

// adminUnload disconnects a topic's clients, who look it up again.
func adminUnload(b *Broker, r *adminRequest) (any, error) {
	parts := b.parts(r.topic.full)
	if len(parts) == 0 {
		return nil, topicMissing(r.topic)
	}
	for _, t := range parts {
		t.unload()
	}
	return nil, nil
}

func adminTerminate(b *Broker, r *adminRequest) (any, error) {
	if b.partitions[r.topic.full] > 0 {
		return nil, adminRefuse(http.StatusMethodNotAllowed, "Termination of a partitioned topic is not allowed")
	}
	t, err := b.single(r)
	if err != nil {
		return nil, err
	}
	t.terminate()
	return jsonID(t.id(len(t.entries) - 1)), nil
}

// single is the topic of a route that partitioned topics do not have.
func (b *Broker) single(r *adminRequest) (*topic, error) {
	if t := b.topics[r.topic.full]; t != nil {
		return t, nil
	}
	return nil, topicMissing(r.topic)
}

func jsonID(id messageID) map[string]any {
	return map[string]any{
		"ledgerId": id.ledger, "entryId": id.entry, "partitionIndex": id.partition, "batchIndex": id.batchIndex, "batchSize": 0,
	}
}

func adminLastMessageID(b *Broker, r *adminRequest) (any, error) {
	t, err := b.single(r)
	if err != nil {
		return nil, err
	}
	return jsonID(t.id(len(t.entries) - 1)), nil
}

func adminMessageIDAt(b *Broker, r *adminRequest) (any, error) {
	t, err := b.single(r)
	if err != nil {
		return nil, err
	}
	millis, err := r.number("millis")
	if err != nil {
		return nil, err
	}
	return jsonID(t.id(t.indexAt(millis))), nil
}

// subscriptionNames are the durable and other subscriptions of all parts of a topic.
func subscriptionNames(parts []*topic) []string {
	names := map[string]bool{}
	for _, t := range parts {
		for name, s := range t.subs {
			names[name] = names[name] || !s.gone()
		}
	}
	maps.DeleteFunc(names, func(_ string, there bool) bool { return !there })
	return append([]string{}, slices.Sorted(maps.Keys(names))...)
}

func adminSubscriptions(b *Broker, r *adminRequest) (any, error) {
	if !b.exists(r.topic) {
		return nil, topicMissing(r.topic)
	}
	return subscriptionNames(b.parts(r.topic.full)), nil
}

// jsonPosition is a message id in a body. Pulsar writes earliest as -1:-1 and latest as the largest numbers.
type jsonPosition struct {
	Ledger int64 `json:"ledgerId"`
	Entry  int64 `json:"entryId"`
}

func (r *adminRequest) position(otherwise messageID) (messageID, error) {
	if len(r.body) == 0 || string(r.body) == "null" {
		return otherwise, nil
	}
	switch string(r.body) {
	case `"earliest"`:
		return messageID{ledger: -1, entry: -1}, nil
	case `"latest"`:
		return messageID{ledger: math.MaxInt64, entry: math.MaxInt64}, nil
	}
	var p jsonPosition
	if err := json.Unmarshal(r.body, &p); err != nil {
		return messageID{}, adminRefuse(http.StatusBadRequest, "The body must be a message id")
	}
	return messageID{ledger: p.Ledger, entry: p.Entry}, nil
}

func adminSubscribe(b *Broker, r *adminRequest) (any, error) {
	at, err := r.position(messageID{ledger: math.MaxInt64, entry: math.MaxInt64})
	if err != nil {
		return nil, err
	}
	if !b.exists(r.topic) {
		if _, why := b.topic(r.topic.full, true); why != nil {
			return nil, adminRefuse(http.StatusPreconditionFailed, "Topic does not exist and cannot be auto-created")
		}
	}
	parts := b.parts(r.topic.full)
	if !slices.ContainsFunc(parts, func(t *topic) bool { return t.subs[r.sub] == nil }) {
		return nil, adminRefuse(http.StatusConflict, "Subscription already exists for topic")
	}
	for _, t := range parts {
		t.subscribed(r.sub, true, t.index(at))
	}
	return nil, nil
}

// eachSubscription calls f with the subscription of a route, of each partition, or fails if there is none.
func (b *Broker) eachSubscription(r *adminRequest, f func(*subscription) error) (any, error) {
	parts := b.parts(r.topic.full)
	if len(parts) == 0 {
		return nil, topicMissing(r.topic)
	}
	if !slices.Contains(subscriptionNames(parts), r.sub) {
		return nil, adminRefuse(http.StatusNotFound, "Subscription %s not found for topic %s", r.sub, r.topic.full)
	}
	var errs []error
	for _, t := range parts {
		if s := t.subs[r.sub]; s != nil {
			errs = append(errs, f(s))
		}
	}
	return nil, errors.Join(errs...)
}

func adminUnsubscribe(b *Broker, r *adminRequest) (any, error) {
	return b.eachSubscription(r, func(s *subscription) error {
		if len(s.consumers) > 0 && !r.force() {
			return adminRefuse(http.StatusPreconditionFailed, "Subscription has active connected consumers")
		}
		s.disconnect(nil)
		delete(s.topic.subs, s.name)
		return nil
	})
}

func adminResetToTime(b *Broker, r *adminRequest) (any, error) {
	millis, err := r.number("ms")
	if err != nil {
		return nil, err
	}
	return b.eachSubscription(r, func(s *subscription) error {
		s.seek(s.topic.indexAt(millis), nil)
		return nil
	})
}

func adminResetToID(b *Broker, r *adminRequest) (any, error) {
	if len(r.body) == 0 {
		return nil, adminRefuse(http.StatusInternalServerError, "The body must be a message id")
	}
	at, err := r.position(messageID{ledger: -1, entry: -1})
	if err != nil {
		return nil, err
	}
	return b.eachSubscription(r, func(s *subscription) error {
		s.seek(s.topic.index(at), nil)
		return nil
	})
}

// adminSkip acknowledges the first entries that are not acknowledged yet.
func adminSkip(b *Broker, r *adminRequest) (any, error) {
	count, err := r.number("count")
	if err != nil {
		return nil, err
	}
	if b.partitions[r.topic.full] > 0 {
		return nil, adminRefuse(http.StatusMethodNotAllowed, "Skip messages on a partitioned topic is not allowed")
	}
	return b.eachSubscription(r, func(s *subscription) error {
		for n := int64(0); n < count && s.cursor.markDelete < len(s.topic.entries); n++ {
			s.ack(s.topic.id(s.cursor.markDelete))
		}
		return nil
	})
}

func adminSkipAll(b *Broker, r *adminRequest) (any, error) {
	return b.eachSubscription(r, func(s *subscription) error {
		s.cursor = newCursor(len(s.topic.entries))
		return nil
	})
}

// adminReplicated reads or sets whether a subscription is to be replicated: it is kept, since there is nowhere to replicate to.
func adminReplicated(b *Broker, r *adminRequest) (any, error) {
	all := map[string]bool{}
	if _, err := b.eachSubscription(r, func(s *subscription) error {
		if r.Method == http.MethodPost {
			s.replicated = strings.TrimSpace(string(r.body)) == "true"
		}
		all[s.topic.name.full] = s.replicated
		return nil
	}); err != nil || r.Method == http.MethodPost {
		return nil, err
	}
	return all, nil
}

// jsonSchema is a schema as the admin routes answer it.
type jsonSchema struct {
	Version    int               `json:"version"`
	Type       string            `json:"type"`
	Timestamp  int64             `json:"timestamp"`
	Data       string            `json:"data"`
	Properties map[string]string `json:"properties"`
}

func (b *Broker) jsonSchema(base string, version int) jsonSchema {
	s := b.schemas[base][version]
	text := string(s.data)
	if s.kind == schemaKeyValue {
		text = s.keyValueText()
	}
	return jsonSchema{
		Version: version, Type: s.kind.String(), Timestamp: s.stored.UnixMilli(), Data: text, Properties: s.properties,
	}
}

func adminSchema(b *Broker, r *adminRequest) (any, error) {
	version := b.latestSchema(r.topic.base)
	if r.PathValue("version") != "" {
		v, err := r.number("version")
		if err != nil {
			return nil, err
		}
		version = b.schemaVersion(r.topic.base, versionBytes(int(v)))
	}
	if version < 0 {
		return nil, adminRefuse(http.StatusNotFound, "Schema not found")
	}
	return b.jsonSchema(r.topic.base, version), nil
}

func adminSchemas(b *Broker, r *adminRequest) (any, error) {
	all := []jsonSchema{}
	for v := range b.schemas[r.topic.base] {
		if b.schemaVersion(r.topic.base, versionBytes(v)) >= 0 {
			all = append(all, b.jsonSchema(r.topic.base, v))
		}
	}
	return map[string]any{"getSchemaResponses": all}, nil
}

// schema reads a schema in a body.
func (r *adminRequest) schema() (*schema, error) {
	var in struct {
		Type       string            `json:"type"`
		Schema     string            `json:"schema"`
		Properties map[string]string `json:"properties"`
	}
	if err := json.Unmarshal(r.body, &in); err != nil {
		return nil, adminRefuse(http.StatusBadRequest, "The body must be a schema")
	}
	kind := slices.Index(schemaTypeNames[:], in.Type)
	if in.Type == "BYTES" {
		kind = int(schemaBytes)
	} else if kind < 0 {
		return nil, adminRefuse(http.StatusUnprocessableEntity, "Unknown schema type %s", in.Type)
	}
	s := &schema{kind: schemaType(kind), data: []byte(in.Schema), properties: in.Properties}
	if s.properties == nil {
		s.properties = map[string]string{}
	}
	if s.kind == schemaKeyValue {
		var err error
		if s.data, err = joinKeyValue(s.data); err != nil {
			return nil, adminRefuse(http.StatusUnprocessableEntity, "The definition must be an object with key and value")
		}
	}
	return s, nil
}

func adminAddSchema(b *Broker, r *adminRequest) (any, error) {
	s, err := r.schema()
	if err != nil {
		return nil, err
	}
	if why := s.invalid(); why != nil {
		return nil, adminRefuse(http.StatusUnprocessableEntity, "%s", why.text)
	}
	version, why := b.addSchema(r.topic, s)
	if why != nil {
		return nil, adminRefuse(http.StatusConflict, "%s", why.text)
	}
	return map[string]any{"version": map[string]any{"version": version}}, nil
}

// adminCompatible tells whether a topic would take a schema. Like Pulsar, it fails where it would not.
func adminCompatible(b *Broker, r *adminRequest) (any, error) {
	s, err := r.schema()
	if err != nil {
		return nil, err
	}
	why := s.invalid()
	by := b.strategyOf(r.topic)
	if why == nil {
		why = s.compatible(b.history(r.topic.base), by)
	}
	if why != nil {
		return nil, adminRefuse(http.StatusInternalServerError, "%s", why.text)
	}
	return accepted{map[string]any{"compatibility": true, "schemaCompatibilityStrategy": by}}, nil
}

func adminSchemaVersion(b *Broker, r *adminRequest) (any, error) {
	s, err := r.schema()
	if err != nil {
		return nil, err
	}
	return map[string]any{"version": b.findSchema(r.topic.base, s)}, nil
}

// adminDeleteSchema marks a topic's schemas as deleted, or forgets them with force=true.
func adminDeleteSchema(b *Broker, r *adminRequest) (any, error) {
	if r.force() {
		delete(b.schemas, r.topic.base)
		return map[string]any{"version": -1}, nil
	}
	if b.latestSchema(r.topic.base) < 0 {
		return nil, adminRefuse(http.StatusNotFound, "Schema not found")
	}
	versions := append(b.schemas[r.topic.base], storedSchema{deleted: true, stored: time.Now()})
	b.schemas[r.topic.base] = versions
	return map[string]any{"version": len(versions) - 1}, nil
}

func position(id messageID) string { return fmt.Sprintf("%d:%d", id.ledger, id.entry) }
