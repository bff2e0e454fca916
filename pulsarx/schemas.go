package pulsarx

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx/internal/admin"
)

// Schemas is the schema registry of a cluster, over the admin interface: what a person does with schemas beside producers, which
// register theirs themselves. It is safe for concurrent use. examples/evolution upgrades a producer under running consumers.
//
// Which schemas a topic accepts beside each other is its strategy, else its namespace's, else the broker's, FULL by default: each of two
// must read the other's messages, so that fields are added and dropped with defaults and never renamed. Pulsar's check does not look at
// aliases: a field that is renamed, with an alias for its older name, needs a default too, and the strategy BACKWARD unless the old one
// has a default as well; ALWAYS_COMPATIBLE takes the alias alone. Names of records do not matter to the broker or to Avro. Pulsar
// 4.0.8 refuses names that Avro forbids, such as Outer$Inner; where an older broker has taken one, it is read. Of PROTOBUF_NATIVE it
// compares the message's name alone, and of PROTOBUF nothing.
type Schemas struct{ client *Client }

// Schemas returns the registry. It needs ClientOptions.AdminURL.
func (c *Client) Schemas() Schemas { return Schemas{c} }

// SchemaVersion is a version of a topic's schema.
type SchemaVersion struct {
	Schema
	// Version counts from 0.
	Version int64
	Created time.Time
}

// LatestVersion asks Get for the newest version.
const LatestVersion = -1

// SchemaStrategy says which schemas a topic takes beside those that it has. The names are Pulsar's. What reads what:
//
//	AlwaysCompatible      everything is taken; whether it can be read turns out message by message
//	AlwaysIncompatible    nothing but what is there
//	Backward              the new schema reads messages of the newest one: upgrade consumers first
//	Forward               the newest one reads messages of the new schema: upgrade producers first
//	Full                  both, in any order; Pulsar's default
//	...Transitive         the same with all earlier versions in place of the newest
type SchemaStrategy string

// The strategies. UndefinedStrategy is none of its own: a topic's is its namespace's, a namespace's the broker's.
const (
	UndefinedStrategy  SchemaStrategy = "UNDEFINED"
	AlwaysCompatible   SchemaStrategy = "ALWAYS_COMPATIBLE"
	AlwaysIncompatible SchemaStrategy = "ALWAYS_INCOMPATIBLE"
	Backward           SchemaStrategy = "BACKWARD"
	BackwardTransitive SchemaStrategy = "BACKWARD_TRANSITIVE"
	Forward            SchemaStrategy = "FORWARD"
	ForwardTransitive  SchemaStrategy = "FORWARD_TRANSITIVE"
	Full               SchemaStrategy = "FULL"
	FullTransitive     SchemaStrategy = "FULL_TRANSITIVE"
)

var schemaStrategies = []SchemaStrategy{
	UndefinedStrategy, AlwaysCompatible, AlwaysIncompatible, Backward, BackwardTransitive, Forward, ForwardTransitive, Full, FullTransitive,
}

// setStrategy sets the strategy of what stands at path. Pulsar takes a name that it does not know, and forgets the one before.
func (s Schemas) setStrategy(ctx context.Context, path string, strategy SchemaStrategy) error {
	if !slices.Contains(schemaStrategies, strategy) {
		return fmt.Errorf("pulsarx: unknown schema strategy %q", strategy)
	}
	return s.client.Admin(ctx, http.MethodPut, path+"/schemaCompatibilityStrategy", strategy, nil)
}

// schemaBody is a schema as the admin interface has it.
type schemaBody struct {
	Version    int64             `json:"version,omitempty"`
	Type       string            `json:"type"`
	Timestamp  int64             `json:"timestamp,omitempty"`
	Data       string            `json:"data,omitempty"`
	Schema     string            `json:"schema"`
	Properties map[string]string `json:"properties"`
}

// List returns the versions of the topic's schema, oldest first; none is no error.
func (s Schemas) List(ctx context.Context, topic string) ([]SchemaVersion, error) {
	var answer struct {
		Versions []schemaBody `json:"getSchemaResponses"`
	}
	if err := s.call(ctx, http.MethodGet, topic, "/schemas", nil, &answer); err != nil {
		return nil, err
	}
	all := make([]SchemaVersion, 0, len(answer.Versions))
	for _, body := range answer.Versions {
		version, err := s.version(ctx, topic, body)
		if err != nil {
			return nil, err
		}
		all = append(all, version)
	}
	slices.SortFunc(all, func(a, b SchemaVersion) int { return cmp.Compare(a.Version, b.Version) })
	return all, nil
}

// Get returns a version of the topic's schema, or the newest for LatestVersion. One that is not there is an *AdminError with the
// status 404.
func (s Schemas) Get(ctx context.Context, topic string, version int64) (SchemaVersion, error) {
	body, err := s.get(ctx, topic, version)
	if err != nil {
		return SchemaVersion{}, err
	}
	return s.version(ctx, topic, body)
}

func (s Schemas) get(ctx context.Context, topic string, version int64) (body schemaBody, err error) {
	at := "/schema"
	if version != LatestVersion {
		at = fmt.Sprintf("/schema/%d", version)
	}
	return body, s.call(ctx, http.MethodGet, topic, at, nil, &body)
}

func (s Schemas) version(ctx context.Context, topic string, body schemaBody) (SchemaVersion, error) {
	v := SchemaVersion{
		Schema: Schema{Type: body.Type, Definition: []byte(body.Data)}, Version: body.Version, Created: time.UnixMilli(body.Timestamp),
	}
	if body.Type != "KEY_VALUE" {
		return v, nil
	}
	// The admin interface writes both definitions anew; the protocol has them as they are.
	exact, err := registry{s.client.options}.schema(ctx, fullTopic(topic), binary.BigEndian.AppendUint64(nil, uint64(body.Version)))
	v.Schema = exact
	return v, err
}

// Upload adds a schema to the topic, which need not exist, and returns its version: a new one, or the one that it has already. What
// the topic's strategy does not take is ErrIncompatibleSchema with the broker's reason.
func (s Schemas) Upload(ctx context.Context, topic string, schema Schema) (version int64, err error) {
	body, err := uploadBody(schema)
	if err != nil {
		return 0, fmt.Errorf("pulsarx: schema of %s: %w", topic, err)
	}
	return s.upload(ctx, topic, body)
}

func (s Schemas) upload(ctx context.Context, topic string, body schemaBody) (int64, error) {
	var answer struct{ Version struct{ Version int64 } }
	err := s.call(ctx, http.MethodPost, topic, "/schema", body, &answer)
	return answer.Version.Version, incompatible(err)
}

// Compatible says whether the topic's strategy takes the schema, and changes nothing: nil, or ErrIncompatibleSchema with the
// broker's reason.
func (s Schemas) Compatible(ctx context.Context, topic string, schema Schema) error {
	body, err := uploadBody(schema)
	if err != nil {
		return fmt.Errorf("pulsarx: schema of %s: %w", topic, err)
	}
	var answer struct {
		Compatibility bool           `json:"compatibility"`
		Strategy      SchemaStrategy `json:"schemaCompatibilityStrategy"`
	}
	if err := s.call(ctx, http.MethodPost, topic, "/compatibility", body, &answer); err != nil {
		return incompatible(err)
	}
	if !answer.Compatibility {
		return fmt.Errorf("%w under %s", ErrIncompatibleSchema, answer.Strategy)
	}
	return nil
}

// Rollback uploads an earlier version again, for producers that go back to it, and returns the version that the broker gives their
// messages. Pulsar keeps a definition once: it answers with the earlier version, without regard to the strategy, and the newest
// version, which new schemas are compared with, stays the newest. A version that is not there is an *AdminError with the status 404.
func (s Schemas) Rollback(ctx context.Context, topic string, version int64) (int64, error) {
	body, err := s.get(ctx, topic, version)
	if err != nil {
		return 0, err
	}
	return s.upload(ctx, topic, schemaBody{Type: body.Type, Schema: body.Data, Properties: body.Properties})
}

// NamespaceStrategy returns the strategy of a namespace, tenant/namespace; UndefinedStrategy where it has the broker's.
func (s Schemas) NamespaceStrategy(ctx context.Context, namespace string) (strategy SchemaStrategy, err error) {
	err = s.client.Admin(ctx, http.MethodGet, namespacePath(namespace)+"/schemaCompatibilityStrategy", nil, &strategy)
	return strategy, err
}

// SetNamespaceStrategy sets the strategy of all topics of a namespace that have none of their own.
func (s Schemas) SetNamespaceStrategy(ctx context.Context, namespace string, strategy SchemaStrategy) error {
	return s.setStrategy(ctx, namespacePath(namespace), strategy)
}

// SetAutoUpdate says whether producers may add schemas to the topics of a namespace, as they may by default. Without, new schemas
// come by Upload alone, and a producer with another one gets ErrIncompatibleSchema.
func (s Schemas) SetAutoUpdate(ctx context.Context, namespace string, on bool) error {
	return s.client.Admin(ctx, http.MethodPost, namespacePath(namespace)+"/isAllowAutoUpdateSchema", on, nil)
}

// TopicStrategy returns the strategy that applies to a topic, which exists: its own, else the namespace's, else the broker's.
func (s Schemas) TopicStrategy(ctx context.Context, topic string) (strategy SchemaStrategy, err error) {
	err = s.client.Admin(ctx, http.MethodGet, topicPath(topic)+"/schemaCompatibilityStrategy?applied=true", nil, &strategy)
	return strategy, err
}

// SetTopicStrategy sets the strategy of a topic, which exists. The broker applies it within moments, through a topic of its own.
func (s Schemas) SetTopicStrategy(ctx context.Context, topic string, strategy SchemaStrategy) error {
	return s.setStrategy(ctx, topicPath(topic), strategy)
}

func namespacePath(namespace string) string {
	tenant, name, _ := strings.Cut(namespace, "/")
	return admin.Path("namespaces", tenant, name)
}

// topicPath is the admin path of a topic: its domain, tenant, namespace and name.
func topicPath(topic string) string {
	domain, rest, _ := strings.Cut(fullTopic(topic), "://")
	return admin.Path(append([]string{domain}, strings.SplitN(rest, "/", 3)...)...)
}

func (s Schemas) call(ctx context.Context, method, topic, at string, in, out any) error {
	_, rest, _ := strings.Cut(fullTopic(topic), "://")
	return s.client.Admin(ctx, method, admin.Path(append([]string{"schemas"}, strings.SplitN(rest, "/", 3)...)...)+at, in, out)
}

// uploadBody is a schema as the admin interface takes it: in a KEY_VALUE, definitions stand as JSON, empty ones as empty text.
func uploadBody(schema Schema) (schemaBody, error) {
	if schema.Type == "" {
		return schemaBody{}, errors.New("it has no type")
	}
	if _, err := schema.register(); err != nil {
		return schemaBody{}, err
	}
	body := schemaBody{Type: schema.Type, Schema: string(schema.Definition), Properties: map[string]string{}}
	if schema.Type != "KEY_VALUE" {
		return body, nil
	}
	parts, err := keyValueWriter{}.compiled(schema.Definition)
	if err != nil {
		return body, err
	}
	_, body.Properties = parts.wire()
	both := map[string]json.RawMessage{"key": jsonOrText(parts.Key.Definition), "value": jsonOrText(parts.Value.Definition)}
	text, err := json.Marshal(both)
	body.Schema = string(text)
	return body, err
}

func jsonOrText(definition []byte) json.RawMessage {
	if len(definition) == 0 {
		return json.RawMessage(`""`)
	}
	return definition
}

// incompatible gives the broker's refusals their name. The test of compatibility answers as if the broker had failed.
func incompatible(err error) error {
	var refused *AdminError
	if !errors.As(err, &refused) {
		return err
	}
	switch text := strings.ToLower(refused.Reason); {
	case refused.Status == http.StatusConflict,
		refused.Status == http.StatusInternalServerError && (strings.Contains(text, "compatib") || strings.Contains(text, "not allowed under")):
		return fmt.Errorf("%w: %w", ErrIncompatibleSchema, err)
	}
	return err
}
