package pulsarx_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/tidemark-go/tidemark/pulsarx"
)

func avroDefinition(fields string) pulsarx.Schema {
	return pulsarx.Schema{Type: "AVRO", Definition: []byte(`{"type":"record","name":"R","fields":[` + fields + `]}`)}
}

// namespaced makes a namespace, so that its strategy is nobody else's.
func namespaced(t *testing.T, c *pulsarx.Client) string {
	t.Helper()
	name := fmt.Sprintf("public/schemas-%d-%d", os.Getpid(), time.Now().UnixNano())
	if err := c.Admin(t.Context(), http.MethodPut, "/namespaces/"+name, nil, nil); err != nil {
		t.Fatal(err)
	}
	return name
}

const (
	fieldA        = `{"name":"a","type":"int"}`
	fieldB        = `,{"name":"b","type":"string","default":"x"}`
	fieldRequired = `,{"name":"c","type":"string"}`
)

func second[T any](_ T, err error) error { return err }

// TestSchemas: list, get, upload, test and roll back.
func TestSchemas(t *testing.T) {
	for name, open := range servers {
		t.Run(name, func(t *testing.T) {
			c := open(t).client(t)
			ctx, schemas, at := t.Context(), c.Schemas(), topic(t)
			if none, err := schemas.List(ctx, at); err != nil || len(none) != 0 {
				t.Fatal(none, err)
			}
			for i, s := range []pulsarx.Schema{avroDefinition(fieldA), avroDefinition(fieldA + fieldB), avroDefinition(fieldA + fieldB)} {
				if version, err := schemas.Upload(ctx, at, s); err != nil || version != int64(min(i, 1)) {
					t.Fatal(version, err)
				}
			}
			all, err := schemas.List(ctx, at)
			if err != nil || len(all) != 2 || all[0].Version != 0 || all[1].Version != 1 || all[0].Type != "AVRO" ||
				string(all[1].Definition) != string(avroDefinition(fieldA+fieldB).Definition) || time.Since(all[0].Created).Abs() > time.Hour {
				t.Errorf("%+v %v", all, err)
			}
			for version, want := range map[int64]int64{0: 0, 1: 1, pulsarx.LatestVersion: 1} {
				if got, err := schemas.Get(ctx, at, version); err != nil || got.Version != want {
					t.Errorf("version %d: %+v %v", version, got, err)
				}
			}
			var refused *pulsarx.AdminError
			if _, err := schemas.Get(ctx, at, 9); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
				t.Errorf("a version that is not there: %v", err)
			}
			bad := avroDefinition(fieldA + fieldB + fieldRequired)
			if err := schemas.Compatible(ctx, at, avroDefinition(fieldA)); err != nil {
				t.Error(err)
			}
			if err := schemas.Compatible(ctx, at, bad); !errors.Is(err, pulsarx.ErrIncompatibleSchema) || !strings.Contains(err.Error(), "strategy FULL") {
				t.Errorf("a required field: %v", err)
			}
			if _, err := schemas.Upload(ctx, at, bad); !errors.Is(err, pulsarx.ErrIncompatibleSchema) || !strings.Contains(err.Error(), "strategy FULL") {
				t.Errorf("a required field: %v", err)
			}
			if _, err := schemas.Upload(ctx, at, pulsarx.Schema{Type: "STRING"}); !errors.Is(err, pulsarx.ErrIncompatibleSchema) {
				t.Errorf("another type: %v", err)
			}
			for wrong, err := range map[string]error{
				"unknown type":         second(schemas.Upload(ctx, at, pulsarx.Schema{Type: "nothing"})),
				"no type":              second(schemas.Upload(ctx, at, pulsarx.Schema{})),
				`strategy "nothing"`:   schemas.SetTopicStrategy(ctx, at, "nothing"),
				`strategy "backwards"`: schemas.SetNamespaceStrategy(ctx, "public/default", "backwards"),
			} {
				if err == nil || !strings.Contains(err.Error(), wrong) {
					t.Errorf("%s: %v", wrong, err)
				}
			}
			// Back: the broker knows the definition, and answers with its version; the newest stays.
			if version, err := schemas.Rollback(ctx, at, 0); err != nil || version != 0 {
				t.Error(version, err)
			}
			if latest, err := schemas.Get(ctx, at, pulsarx.LatestVersion); err != nil || latest.Version != 1 {
				t.Errorf("%+v %v", latest, err)
			}
		})
	}
}

// TestSchemaStrategies: what each strategy takes after {a} with {a, b default}, {a, c} and {}, and the broker's reason at the
// producer's creation.
func TestSchemaStrategies(t *testing.T) {
	for name, open := range servers {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			c := s.client(t)
			ctx, schemas, space := t.Context(), c.Schemas(), namespaced(t, c)
			for strategy, takes := range map[pulsarx.SchemaStrategy][]bool{
				pulsarx.Full:               {true, false, false},
				pulsarx.FullTransitive:     {true, false, false},
				pulsarx.Backward:           {true, false, true},
				pulsarx.BackwardTransitive: {true, false, true},
				pulsarx.Forward:            {true, true, false},
				pulsarx.ForwardTransitive:  {true, true, false},
				pulsarx.AlwaysCompatible:   {true, true, true},
				pulsarx.AlwaysIncompatible: {false, false, false},
			} {
				if err := schemas.SetNamespaceStrategy(ctx, space, strategy); err != nil {
					t.Fatal(err)
				}
				if got, err := schemas.NamespaceStrategy(ctx, space); err != nil || got != strategy {
					t.Fatalf("%s is %s %v", strategy, got, err)
				}
				at := "persistent://" + space + "/" + strings.ToLower(string(strategy))
				if _, err := schemas.Upload(ctx, at, avroDefinition(fieldA)); err != nil {
					t.Fatal(err)
				}
				for i, fields := range []string{fieldA + fieldB, fieldA + fieldRequired, ""} {
					err := schemas.Compatible(ctx, at, avroDefinition(fields))
					if (err == nil) != takes[i] || err != nil && !errors.Is(err, pulsarx.ErrIncompatibleSchema) {
						t.Errorf("%s of {%s}: %v", strategy, fields, err)
					}
				}
			}
		})
	}
}

// TestTransitiveStrategies: a third schema that goes with the second and not with the first, in either direction.
func TestTransitiveStrategies(t *testing.T) {
	const required = `,{"name":"b","type":"string"}`
	chains := map[string][]string{
		"backward": {fieldA, fieldA + fieldB, fieldA + required},
		"forward":  {fieldA + required, fieldA + fieldB, fieldA},
	}
	for name, open := range servers {
		t.Run(name, func(t *testing.T) {
			c := open(t).client(t)
			ctx, schemas, space := t.Context(), c.Schemas(), namespaced(t, c)
			for strategy, refuses := range map[pulsarx.SchemaStrategy]string{
				pulsarx.Full: "", pulsarx.Backward: "", pulsarx.Forward: "", pulsarx.AlwaysCompatible: "",
				pulsarx.BackwardTransitive: "backward", pulsarx.ForwardTransitive: "forward", pulsarx.FullTransitive: "backward forward",
			} {
				if err := schemas.SetNamespaceStrategy(ctx, space, strategy); err != nil {
					t.Fatal(err)
				}
				for direction, chain := range chains {
					at := fmt.Sprintf("persistent://%s/%s-%s", space, strategy, direction)
					for i, fields := range chain {
						_, err := schemas.Upload(ctx, at, avroDefinition(fields))
						refused := i == 2 && strings.Contains(refuses, direction)
						if refused != errors.Is(err, pulsarx.ErrIncompatibleSchema) || !refused && err != nil {
							t.Errorf("%s, %s, version %d: %v", strategy, direction, i, err)
						}
						if refused && !strings.Contains(err.Error(), "strategy "+string(strategy)) {
							t.Errorf("no reason: %v", err)
						}
					}
				}
			}
		})
	}
}

// TestTopicStrategy: a topic's own strategy goes before its namespace's, and a producer is refused by it before it sends.
func TestTopicStrategy(t *testing.T) {
	for name, open := range servers {
		t.Run(name, func(t *testing.T) {
			c := open(t).client(t)
			ctx, schemas, space := t.Context(), c.Schemas(), namespaced(t, c)
			at := "persistent://" + space + "/t"
			producer(t, c, pulsarx.Avro[renamed](), pulsarx.ProducerOptions[renamed]{Topic: at})
			_, err := pulsarx.NewProducer(ctx, c, pulsarx.Avro[v2](), pulsarx.ProducerOptions[v2]{Topic: at})
			if !errors.Is(err, pulsarx.ErrIncompatibleSchema) || !strings.Contains(err.Error(), "strategy FULL") {
				t.Errorf("renamed under %v: %v", pulsarx.Full, err)
			}
			if err := schemas.SetTopicStrategy(ctx, at, pulsarx.AlwaysCompatible); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the strategy", func() bool {
				strategy, err := schemas.TopicStrategy(ctx, at)
				return err == nil && strategy == pulsarx.AlwaysCompatible
			})
			eventually(t, "the producer", func() bool {
				p, err := pulsarx.NewProducer(ctx, c, pulsarx.Avro[v2](), pulsarx.ProducerOptions[v2]{Topic: at})
				if err == nil {
					err = p.Close(ctx)
				}
				return err == nil
			})
			if err := schemas.SetAutoUpdate(ctx, space, false); err != nil {
				t.Fatal(err)
			}
			tries := 0
			eventually(t, "the end of updates", func() bool {
				tries++ // another one each time: what was taken once is taken again
				another := pulsarx.AvroSchema[map[string]any](string(avroDefinition(fmt.Sprintf(`{"name":"f%d","type":"int"}`, tries)).Definition))
				p, err := pulsarx.NewProducer(ctx, c, another, pulsarx.ProducerOptions[map[string]any]{Topic: at})
				if err == nil {
					_ = p.Close(ctx)
				}
				return errors.Is(err, pulsarx.ErrIncompatibleSchema)
			})
		})
	}
}

// TestSchemasOfAllTypes: an upload is the same schema as a producer registers.
func TestSchemasOfAllTypes(t *testing.T) {
	for name, open := range servers {
		t.Run(name, func(t *testing.T) {
			c := open(t).client(t)
			same(t, c, "avro", pulsarx.Avro[everything]())
			same(t, c, "json", pulsarx.JSON[event]())
			same(t, c, "string", pulsarx.String())
			same(t, c, "int32", pulsarx.Int32())
			same(t, c, "kv", pulsarx.KeyValueSeparated(pulsarx.Avro[kvKey](), pulsarx.JSON[event]()))
			same(t, c, "kvstring", pulsarx.KeyValueInline(pulsarx.String(), pulsarx.Avro[v2]()))
			same(t, c, "protobuf", pulsarx.Protobuf[*OrderV2]())
			same(t, c, "protobufnative", pulsarx.ProtobufNative[*OrderV2]())
		})
	}
}

func same[T any](t *testing.T, c *pulsarx.Client, name string, codec pulsarx.Codec[T]) {
	t.Helper()
	at := topic(t) + "-" + name
	producer(t, c, codec, pulsarx.ProducerOptions[T]{Topic: at})
	schema, _ := codec.Schema()
	if version, err := c.Schemas().Upload(t.Context(), at, schema); err != nil || version != 0 {
		t.Errorf("%s: version %d %v", name, version, err)
	}
	got, err := c.Schemas().Get(t.Context(), at, 0)
	if err != nil || got.Type != schema.Type || !slices.Equal(got.Definition, schema.Definition) {
		t.Errorf("%s: %s\nbecame %s %v", name, schema.Definition, got.Definition, err)
	}
}

// TestProtobufCompatibility: what the broker checks of Protobuf's two schemas. Of PROTOBUF_NATIVE that is the message's name; of PROTOBUF,
// which has no checker in the default configuration, nothing but that it is one.
func TestProtobufCompatibility(t *testing.T) {
	for name, open := range servers {
		t.Run(name, func(t *testing.T) {
			c := open(t).client(t)
			ctx, schemas, native, older := t.Context(), c.Schemas(), topic(t)+"-native", topic(t)+"-older"
			producer(t, c, pulsarx.ProtobufNative[*OrderV1](), pulsarx.ProducerOptions[*OrderV1]{Topic: native})
			_, err := pulsarx.NewProducer(ctx, c, pulsarx.ProtobufNative[*OrderV2](), pulsarx.ProducerOptions[*OrderV2]{Topic: native})
			if !errors.Is(err, pulsarx.ErrIncompatibleSchema) || !strings.Contains(err.Error(), "OrderV2") {
				t.Errorf("another message: %v", err)
			}
			for what, edit := range map[string]func(*descriptorpb.DescriptorProto){
				"a field less":    func(d *descriptorpb.DescriptorProto) { d.Field = d.Field[:2] },
				"a field renamed": func(d *descriptorpb.DescriptorProto) { d.Field[1].Name, d.Field[1].JsonName = proto.String("sum"), nil },
				"a type, unreadably": func(d *descriptorpb.DescriptorProto) {
					d.Field[1].Type = descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum()
				},
			} {
				if err := schemas.Compatible(ctx, native, editedOrder(t, edit)); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			producer(t, c, pulsarx.Protobuf[*OrderV1](), pulsarx.ProducerOptions[*OrderV1]{Topic: older})
			producer(t, c, pulsarx.Protobuf[*OrderV2](), pulsarx.ProducerOptions[*OrderV2]{Topic: older}) // all fields have defaults
			changed, _ := pulsarx.Protobuf[*OrderV1]().Schema()
			changed.Definition = []byte(strings.Replace(string(changed.Definition), `"type":"long","default":0`, `"type":"string","default":""`, 1))
			if err := schemas.Compatible(ctx, older, changed); err != nil {
				t.Errorf("another type: %v", err)
			}
			if err := schemas.Compatible(ctx, older, pulsarx.Schema{Type: "STRING"}); !errors.Is(err, pulsarx.ErrIncompatibleSchema) {
				t.Errorf("another kind of schema: %v", err)
			}
		})
	}
}

// editedOrder is the PROTOBUF_NATIVE schema of another OrderV1.
func editedOrder(t *testing.T, edit func(*descriptorpb.DescriptorProto)) pulsarx.Schema {
	t.Helper()
	schema, err := pulsarx.ProtobufNative[*OrderV1]().Schema()
	if err != nil {
		t.Fatal(err)
	}
	var definition map[string]any
	if err := json.Unmarshal(schema.Definition, &definition); err != nil {
		t.Fatal(err)
	}
	text, _ := base64.StdEncoding.DecodeString(definition["fileDescriptorSet"].(string))
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	for _, m := range set.File[len(set.File)-1].MessageType {
		if m.GetName() == "OrderV1" {
			edit(m)
		}
	}
	if text, err = proto.Marshal(&set); err != nil {
		t.Fatal(err)
	}
	definition["fileDescriptorSet"] = text
	schema.Definition, err = json.Marshal(definition)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}
