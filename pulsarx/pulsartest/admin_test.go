package pulsartest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// TestAdmin calls the admin routes one after the other: status and answer must be those of Pulsar 4.0.8. An answer is compared
// from its beginning; where it is given as "", only the status is.
func TestAdmin(t *testing.T) {
	const avro = `{"type":"AVRO","schema":"{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"a\",\"type\":\"int\"}]}","properties":{"k":"v"}}`
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)
			full := on.topic(t, "admin")
			names := strings.NewReplacer("$T", topicPath(full), "$N", full, "$S", "/schemas/"+strings.TrimPrefix(full, "persistent://"),
				"$O", fmt.Sprint("tenant", time.Now().UnixNano()))
			for _, call := range []struct {
				method, path, body string
				status             int
				want               string
			}{
				{"PUT", "$T/partitions", "0", 406, `{"reason":"Number of partitions should be more than 0"}`},
				{"GET", "$T/partitions", "", 404, `{"reason":"Topic $N not found"}`},
				{"GET", "$T/partitions?checkAllowAutoCreation=true", "", 200, `{"deleted":false,"partitions":0}`},
				{"GET", "$T/stats", "", 404, `{"reason":"Topic $N not found"}`},
				{"PUT", "$T/partitions", "3", 204, ""},
				{"PUT", "$T/partitions", "3", 409, `{"reason":"This topic already exists"}`},
				{"GET", "$T/partitions", "", 200, `{"deleted":false,"partitions":3}`},
				{"PUT", "$T/partitions", "x", 400, ""},
				{"PUT", "$T-partition-1/partitions", "2", 412, `{"reason":"Partitioned Topic Name should not contain '-partition-'"}`},
				{"POST", "$T-partition-1/partitions", "4", 412, ""},
				{"DELETE", "$T-partition-1/partitions", "", 412, ""},
				{"POST", "$T-none/partitions", "-1", 409, `{"reason":"Topic $N-none is not the partitioned topic."}`},
				{"POST", "$T/partitions", "-1", 422, ""},
				{"POST", "$T/terminate", "", 405, `{"reason":"Termination of a partitioned topic is not allowed"}`},
				{"PUT", "$T-partition-7/subscription/s", "", 412, `{"reason":"Topic does not exist and cannot be auto-created"}`},
				{"PUT", "$T-partition-1/subscription/s", "", 204, ""},
				{"PUT", "$T/subscription/s", "", 204, ""},
				{"PUT", "$T-new/subscription/s", `"earliest"`, 204, ""},
				{"GET", "$T-new/subscriptions", "", 200, `["s"]`},
				{"DELETE", "$T-new/partitions", "", 409, ""},
				{"GET", "$T-new/messageid/x", "", 404, ""},
				{"POST", "$T-new/subscription/s/resetcursor/x", "", 404, ""},
				{"POST", "$T-new/subscription/s/resetcursor", "x", 400, ""},
				{"POST", "$T/partitions", "5", 204, ""},
				{"POST", "$T/partitions", "2", 422, `{"reason":"Desired partitions 2 can't be less than the current partitions 5."}`},
				{"GET", "$T/partitions", "", 200, `{"deleted":false,"partitions":5}`},
				{"GET", "$T-partition-4/subscriptions", "", 200, `["s"]`},
				{"GET", "$T/subscriptions", "", 200, `["s"]`},
				{"PUT", "$T/subscription/s", "", 409, `{"reason":"Subscription already exists for topic"}`},
				{"POST", "$T/subscription/s/resetcursor/1000", "", 204, ""},
				{"POST", "$T/subscription/s/skip/1", "", 405, ""},
				{"GET", "$T/stats", "", 404, `{"reason":"Topic $N not found"}`},
				{"GET", "$T/partitioned-stats", "", 200, ""},
				{"DELETE", "$T", "", 409, ""},
				{"DELETE", "$T/subscription/s", "", 204, ""},
				{"DELETE", "$T/partitions", "", 204, ""},
				{"DELETE", "$T/partitions", "", 404, `{"reason":"Topic $N not found."}`},

				{"PUT", "$T", "", 204, ""},
				{"PUT", "$T", "", 409, `{"reason":"This topic already exists"}`},
				{"GET", "$T/partitions", "", 200, `{"deleted":false,"partitions":0}`},
				{"PUT", "$T/subscription/s1", `{"ledgerId":-1,"entryId":-1,"partitionIndex":-1}`, 204, ""},
				{"GET", "$T/subscriptions", "", 200, `["s1"]`},
				{"GET", "$T/stats", "", 200, ""},
				{"GET", "$T/internalStats", "", 200, ""},
				{"GET", "$T/lastMessageId", "", 200, ""},
				{"POST", "$T/subscription/s1/resetcursor/1000", "", 204, ""},
				{"POST", "$T/subscription/none/resetcursor/1000", "", 404, `{"reason":"Subscription none not found for topic $N"}`},
				{"POST", "$T/subscription/s1/skip/2", "", 204, ""},
				{"POST", "$T/subscription/s1/skip/x", "", 404, ""},
				{"POST", "$T/subscription/none/skip/2", "", 404, ""},
				{"POST", "$T/subscription/s1/skip_all", "", 204, ""},
				{"DELETE", "$T/subscription/s1", "", 204, ""},
				{"DELETE", "$T/subscription/s1", "", 404, `{"reason":"Subscription s1 not found for topic $N"}`},

				{"GET", "$S/schema", "", 404, `{"reason":"Schema not found"}`},
				{"POST", "$S/schema", avro, 200, `{"version":{"version":0}}`},
				{"POST", "$S/schema", avro, 200, `{"version":{"version":0}}`},
				{"POST", "$S/version", avro, 200, `{"version":0}`},
				{"GET", "$S/schema", "", 200, `{"version":0,"type":"AVRO","timestamp":`},
				{"GET", "$S/schema/0", "", 200, `{"version":0,"type":"AVRO","timestamp":`},
				{"GET", "$S/schema/5", "", 404, `{"reason":"Schema not found"}`},
				{"GET", "$S/schemas", "", 200, `{"getSchemaResponses":[{"version":0,"type":"AVRO","timestamp":`},
				{"POST", "$S/schema", `{"type":"STRING","schema":"","properties":{}}`, 409, ""},
				{"POST", "$S/schema", `{"type":"AVRO","schema":"no","properties":{}}`, 422, ""},
				{"DELETE", "$S/schema", "", 200, `{"version":1}`},
				{"GET", "$S/schema", "", 404, `{"reason":"Schema not found"}`},
				{"GET", "$S/schemas", "", 200, `{"getSchemaResponses":[]}`},
				{"POST", "$S/schema", `{"type":"STRING","schema":"","properties":{}}`, 200, `{"version":{"version":2}}`},
				{"GET", "$S/schema/0", "", 404, `{"reason":"Schema not found"}`},
				{"DELETE", "$S/schema?force=true", "", 200, `{"version":-1}`},

				{"DELETE", "$T", "", 204, ""},
				{"DELETE", "$T", "", 404, `{"reason":"Topic $N not found"}`},
				{"GET", "$T/subscriptions", "", 404, `{"reason":"Topic $N not found"}`},
				{"PUT", "/persistent/nobody/nowhere/x", "", 404, `{"reason":"Namespace not found"}`},

				{"GET", "/tenants/$O", "", 404, `{"reason":"Tenant does not exist"}`},
				{"PUT", "/tenants/$O", `{"allowedClusters":["standalone"]}`, 204, ""},
				{"PUT", "/tenants/$O", `{"allowedClusters":["standalone"]}`, 409, `{"reason":"Tenant already exist"}`},
				{"GET", "/tenants/$O", "", 200, `{"allowedClusters":["standalone"]}`},
				{"GET", "/namespaces/$O/n", "", 404, `{"reason":"Namespace does not exist"}`},
				{"PUT", "/namespaces/$O/n", "", 204, ""},
				{"PUT", "/namespaces/$O/n", "", 409, `{"reason":"Namespace already exists"}`},
				{"GET", "/namespaces/$O", "", 200, `["$O/n"]`},
				{"GET", "/namespaces/$O/n", "", 200, ""},
				{"GET", "/namespaces/$O/n/topics", "", 200, `[]`},
				{"POST", "/namespaces/$O/n/deduplication", "true", 204, ""},
				{"GET", "/namespaces/$O/n/deduplication", "", 200, `true`},
				{"PUT", "/persistent/$O/n/t", "", 204, ""},
				{"GET", "/persistent/$O/n", "", 200, `["persistent://$O/n/t"]`},
				{"DELETE", "/namespaces/$O/n", "", 409, ""},
				{"DELETE", "/persistent/$O/n/t", "", 204, ""},
				{"DELETE", "/namespaces/$O/n", "", 204, ""},
				{"DELETE", "/tenants/$O", "", 204, ""},
				{"DELETE", "/tenants/$O", "", 404, `{"reason":"Tenant doesn't exist"}`},
				{"GET", "/namespaces/$O", "", 404, `{"reason":"Tenant not found"}`},
				{"PUT", "/namespaces/$O/n", "", 404, `{"reason":"Tenant does not exist"}`},
				{"GET", "/brokers/health", "", 200, "ok"},
				{"GET", "/brokers/version", "", 200, "4.0.8"},
				{"GET", "/clusters", "", 200, `["standalone"]`},
			} {
				status, answer := on.admin(call.method, names.Replace(call.path), call.body)
				answer = strings.Replace(answer, `{"partitions":`, `{"deleted":false,"partitions":`, 1) // the order is free
				answer = strings.Replace(answer, `,"deleted":false}`, `}`, 1)
				if want := names.Replace(call.want); status != call.status || !strings.HasPrefix(answer, want) {
					t.Errorf("%s %s %s:\n got %d %s\nwant %d %s", call.method, call.path, call.body, status, answer, call.status, want)
				}
			}
		})
	}
}

// TestSkip skips some messages of a subscription.
func TestSkip(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)
			topic := on.topic(t, "skip")
			on.must(t, "PUT", topicPath(topic), "")
			on.must(t, "PUT", topicPath(topic)+"/subscription/s", "")
			produce(t, on.client(t), pulsar.ProducerOptions{Topic: topic, DisableBatching: true}, numbered(5, nil)...)
			for _, try := range []struct{ skip, left int64 }{{2, 3}, {0, 3}, {9, 0}} {
				on.must(t, "POST", topicPath(topic)+"/subscription/s/skip/"+fmt.Sprint(try.skip), "")
				eventually(t, func() bool { return on.stats(t, topic).Subscriptions["s"].MsgBacklog == try.left })
			}
		})
	}
}
