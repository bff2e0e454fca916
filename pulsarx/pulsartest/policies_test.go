package pulsartest_test

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	examplePersistence = `{"bookkeeperEnsemble":1,"bookkeeperWriteQuorum":1,"bookkeeperAckQuorum":1,"managedLedgerMaxMarkDeleteRate":0.0}`
	exampleDispatch    = `{"dispatchThrottlingRateInMsg":1000,"dispatchThrottlingRateInByte":-1,"relativeToPublishRate":false,"ratePeriodInSecond":1}`
	exampleInactive    = `{"inactiveTopicDeleteMode":"delete_when_no_subscriptions","maxInactiveDurationSeconds":60,"deleteWhileInactive":true}`
	exampleQuota       = `{"limitSize":1000,"limitTime":-1,"policy":"producer_request_hold"}`
)

// policyExamples are values of policies by their paths: those of both levels, of namespaces, and of topics. A path that ends with "=" has
// its value in the query.
var policyExamples = [3]map[string]string{
	{
		"POST retention": `{"retentionTimeInMinutes":10,"retentionSizeInMB":-1}`, "POST persistence": examplePersistence,
		"POST publishRate":  `{"publishThrottlingRateInMsg":1000,"publishThrottlingRateInByte":-1}`,
		"POST dispatchRate": exampleDispatch, "POST subscriptionDispatchRate": exampleDispatch, "POST replicatorDispatchRate": exampleDispatch,
		"POST subscribeRate":         `{"subscribeThrottlingRatePerConsumer":10,"ratePeriodInSecond":30}`,
		"POST delayedDelivery":       `{"tickTime":1000,"active":true,"maxDeliveryDelayInMillis":0}`,
		"POST inactiveTopicPolicies": exampleInactive, "POST autoSubscriptionCreation": `{"allowAutoSubscriptionCreation":true}`,
		"POST maxSubscriptionsPerTopic": "5", "POST maxConsumersPerSubscription": "3", "POST deduplicationSnapshotInterval": "7",
		"POST subscriptionTypesEnabled": `["Shared"]`, "POST schemaValidationEnforced": "true", "PUT schemaCompatibilityStrategy": `"BACKWARD"`,
		"POST replication": `["standalone"]`,
	},
	{
		"POST messageTTL": "60", "POST maxProducersPerTopic": "5", "POST maxConsumersPerTopic": "5", "POST maxUnackedMessagesPerConsumer": "5",
		"POST maxUnackedMessagesPerSubscription": "5", "POST deduplication": "true", "POST maxTopicsPerNamespace": "100",
		"POST autoTopicCreation":          `{"allowAutoTopicCreation":true,"topicType":"partitioned","defaultNumPartitions":3}`,
		"POST persistence/bookieAffinity": `{"bookkeeperAffinityGroupPrimary":"g"}`,
		"POST isAllowAutoUpdateSchema":    "false",
		"POST encryptionRequired":         "true",
		"POST allowedClusters":            `["standalone"]`,
		"PUT compactionThreshold":         "1000",
		"PUT offloadThreshold":            "7",
		"PUT offloadDeletionLagMs":        "7",
		"PUT properties":                  `{"a":"b"}`,
		"POST antiAffinity":               `"g"`,
		"POST subscriptionExpirationTime": "3",
	},
	{
		"POST messageTTL?messageTTL=60": "", "POST deduplicationEnabled": "true", "POST maxProducers": "5", "POST maxConsumers": "5",
		"POST maxUnackedMessagesOnConsumer": "5", "POST maxUnackedMessagesOnSubscription": "5", "POST maxMessageSize": "1000",
		"POST compactionThreshold": "1000",
	},
}

// TestPolicies sets, reads and unsets each policy of a namespace and of a topic: the answers are those of Pulsar 4.0.8. They were recorded,
// rather than compared with a broker that runs: there, topics' policies take their time, and one of two changes at once is lost.
func TestPolicies(t *testing.T) {
	want := recorded(t, "testdata/policies.json")
	on := inProcess(t)
	if *record {
		on = realBroker(t)
	}
	ns := fmt.Sprintf("public/policies-%d", time.Now().UnixNano())
	on.must(t, "PUT", "/namespaces/"+ns, "")
	on.must(t, "PUT", "/persistent/"+ns+"/t", "")
	for level, base := range map[string]string{"namespace": "/namespaces/" + ns, "topic": "/persistent/" + ns + "/t"} {
		own := policyExamples[1]
		if level == "topic" {
			own = policyExamples[2]
		}
		for _, examples := range []map[string]string{policyExamples[0], own} {
			for route, value := range examples {
				t.Run(level+"/"+route, func(t *testing.T) { on.policy(t, want, level, base, route, value) })
			}
		}
	}
	want.save(t)
}

var htmlPage = regexp.MustCompile(`(?s)^<.*`)

// policy plays one policy's routes.
func (on target) policy(t *testing.T, want *recording, level, base, route, value string) {
	t.Helper()
	set, path, _ := strings.Cut(strings.TrimSpace(route), " ")
	path = strings.TrimSpace(path)
	read, _, _ := strings.Cut(path, "?")
	for i, step := range []string{"GET", set, "GET", "DELETE", "GET"} {
		name := fmt.Sprintf("%s %s: %d %s", level, route, i, step)
		call := func() string {
			target, body := read, ""
			if step == set && i == 1 {
				target, body = path, value
			}
			status, answer := on.admin(step, base+"/"+target, body)
			switch {
			case status >= 400:
				answer = "" // the wording is each one's own
			case answer == "":
				status = http.StatusNoContent // or 200, which says as much
			}
			return strings.TrimSpace(fmt.Sprint(status, " ", htmlPage.ReplaceAllString(answer, "")))
		}
		if *record && level == "topic" && i > 1 {
			time.Sleep(time.Second)
		}
		want.check(t, name, call())
	}
}

// TestPermissions grants and revokes, on both levels, and reads the answer for the namespace.
func TestPermissions(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)
			ns := fmt.Sprintf("public/permissions-%d", time.Now().UnixNano())
			on.must(t, "PUT", "/namespaces/"+ns, "")
			on.must(t, "PUT", "/persistent/"+ns+"/t", "")
			on.must(t, "POST", "/namespaces/"+ns+"/permissions/role", `["produce"]`)
			on.must(t, "POST", "/persistent/"+ns+"/t/permissions/other", `["consume"]`)
			answer := on.must(t, "GET", "/namespaces/"+ns, "")
			for _, want := range []string{`"namespace_auth":{"role":["produce"]}`, `"destination_auth":{"persistent://` + ns + `/t":{"other":["consume"]}}`} {
				if !strings.Contains(answer, want) {
					t.Errorf("%s\nis not in %s", want, answer)
				}
			}
			on.must(t, "DELETE", "/namespaces/"+ns+"/permissions/role", "")
			on.must(t, "DELETE", "/persistent/"+ns+"/t/permissions/other", "")
			if answer := on.must(t, "GET", "/namespaces/"+ns+"/permissions", ""); answer != "{}" {
				t.Error(answer)
			}
			on.must(t, "POST", "/namespaces/"+ns+"/backlogQuota?backlogQuotaType=message_age", exampleQuota)
			if answer := on.must(t, "GET", "/namespaces/"+ns+"/backlogQuotaMap", ""); !strings.Contains(answer, `"message_age":{`) || !strings.Contains(answer, `"limitSize":1000`) {
				t.Error(answer)
			}
			on.must(t, "PUT", "/namespaces/"+ns+"/schemaCompatibilityStrategy", `"NONE_OF_THEM"`)
			if answer := on.must(t, "GET", "/namespaces/"+ns+"/schemaCompatibilityStrategy", ""); answer != `"UNDEFINED"` {
				t.Error(answer)
			}
			if status, answer := on.admin("POST", "/namespaces/"+ns+"/retention", `"no"`); status != http.StatusBadRequest {
				t.Error(status, answer)
			}
			on.must(t, "DELETE", "/namespaces/"+ns+"/backlogQuota?backlogQuotaType=message_age", "")
			if answer := on.must(t, "GET", "/namespaces/"+ns+"/backlogQuotaMap", ""); answer != "{}" {
				t.Error(answer)
			}
		})
	}
}

// TestForeignPolicies: clusters and drivers of an offload that a broker does not have are refused as Pulsar does, and the limits of an
// offload are fields of its policy, with a driver or without.
func TestForeignPolicies(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)
			ns := fmt.Sprintf("public/foreign-%d", time.Now().UnixNano())
			for _, bad := range []string{`[]`, `{"message_ttl_in_seconds":"x"}`, `{"replication_clusters":["nowhere"]}`, `{"backlog_quota_map":1}`} {
				if status, answer := on.admin("PUT", "/namespaces/"+ns, bad); status < 400 || status >= 500 {
					t.Error(bad, status, answer)
				}
			}
			on.must(t, "PUT", "/namespaces/"+ns, `{"replication_clusters":["standalone"],"message_ttl_in_seconds":60,"max_producers_per_topic":5,
				"backlog_quota_map":{"destination_storage":{"limitSize":1000,"limitTime":-1,"policy":"producer_exception"}},"nonsense":1}`)
			on.must(t, "PUT", "/persistent/"+ns+"/t", "")
			for _, call := range []struct {
				method, path, body string
				status             int
				want               string // in the answer
			}{
				{"GET", "/namespaces/$N/messageTTL", "", 200, "60"},
				{"GET", "/namespaces/$N/maxProducersPerTopic", "", 200, "5"},
				{"GET", "/namespaces/$N/backlogQuotaMap", "", 200, `"limitSize":1000`},
				{"POST", "/namespaces/$N/replication", `["nowhere"]`, 403, "Invalid cluster id: nowhere"},
				{"POST", "/namespaces/$N/replication", `["standalone","nowhere"]`, 403, "Invalid cluster id: nowhere"},
				{"POST", "/namespaces/$N/replication", `[]`, 412, "ClusterIds should not be null or empty"},
				{"POST", "/namespaces/$N/replication", `["standalone"]`, 204, ""},
				{"GET", "/namespaces/$N/replication", "", 200, `["standalone"]`},
				{"POST", "/persistent/$N/t/replication", `["nowhere"]`, 412, "Can not remove local cluster"},
				{"POST", "/persistent/$N/t/replication", `["standalone","nowhere"]`, 403, "Invalid cluster id: nowhere"},
				{"POST", "/persistent/$N/t/replication", `[]`, 412, "ClusterIds should not be null or empty"},
				{"POST", "/namespaces/$N/allowedClusters", `["nowhere"]`, 403, "Cluster [nowhere] is not in the list of allowed clusters"},
				{"POST", "/namespaces/$N/allowedClusters", `[]`, 400, "Allowed clusters do not contain the replication cluster [standalone]"},

				{"PUT", "/namespaces/$N/offloadThreshold", "7", 204, ""},
				{"GET", "/namespaces/$N/offloadPolicies", "", 200, `"managedLedgerOffloadThresholdInBytes":7`},
				{"PUT", "/namespaces/$N/offloadThresholdInSeconds", "9", 204, ""},
				{"PUT", "/namespaces/$N/offloadDeletionLagMs", "11", 204, ""},
				{"GET", "/namespaces/$N/offloadPolicies", "", 200, `"managedLedgerOffloadDeletionLagInMillis":11`},
				{"GET", "/namespaces/$N/offloadThreshold", "", 200, "7"},
				{"GET", "/namespaces/$N/offloadThresholdInSeconds", "", 200, "9"},
				{"DELETE", "/namespaces/$N/offloadDeletionLagMs", "", 204, ""},
				{"GET", "/namespaces/$N/offloadThreshold", "", 200, "7"},
				{"PUT", "/namespaces/$N/offloadThreshold", `"x"`, 400, ""},
				{"DELETE", "/namespaces/$N/offloadThreshold", "", 412, "Invalid bundle range"},
				{"GET", "/namespaces/$N", "", 200, `"offload_threshold":-1`},
				{"DELETE", "/namespaces/$N/removeOffloadPolicies", "", 204, ""},
				{"GET", "/namespaces/$N/offloadThreshold", "", 200, "-1"},
				{"POST", "/namespaces/$N/offloadPolicies", `{}`, 412, "The driver is not supported"},
				{"POST", "/namespaces/$N/offloadPolicies", `{"managedLedgerOffloadDriver":"nope"}`, 412, "The driver is not supported"},
				{"POST", "/namespaces/$N/offloadPolicies", `{"managedLedgerOffloadDriver":"azureblob"}`, 412, "The bucket must be specified"},
				{"POST", "/namespaces/$N/offloadPolicies", `{"managedLedgerOffloadDriver":"filesystem"}`, 204, ""},
				{"POST", "/namespaces/$N/offloadPolicies", `{"managedLedgerOffloadDriver":"aws-s3","s3ManagedLedgerOffloadBucket":"b"}`, 204, ""},
				{"PUT", "/namespaces/$N/offloadThreshold", "17", 204, ""},
				{"GET", "/namespaces/$N/offloadPolicies", "", 200, `"managedLedgerOffloadThresholdInBytes":17`},
				{"GET", "/namespaces/$N/offloadPolicies", "", 200, `"managedLedgerOffloadDriver":"aws-s3"`},
				{"POST", "/persistent/$N/t/offloadPolicies", `{"managedLedgerOffloadThresholdInBytes":5}`, 412, "The driver is not supported"},
			} {
				status, answer := on.admin(call.method, strings.ReplaceAll(call.path, "$N", ns), call.body)
				if status == http.StatusOK && answer == "" {
					status = http.StatusNoContent // says as much
				}
				if status != call.status || !strings.Contains(answer, call.want) {
					t.Errorf("%s %s %s:\n got %d %s\nwant %d %s", call.method, call.path, call.body, status, answer, call.status, call.want)
				}
			}
		})
	}
}

// TestBacklogQuota: a producer that comes to a topic whose backlog is too large is refused, until the backlog is read.
func TestBacklogQuota(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)
			client := on.client(t)
			for policy, want := range map[string]string{
				"producer_exception": "ProducerBlockedQuotaExceededException", "producer_request_hold": "ProducerBlockedQuotaExceededError",
				"consumer_backlog_eviction": "",
			} {
				ns := fmt.Sprintf("public/quota-%d", time.Now().UnixNano())
				on.must(t, "PUT", "/namespaces/"+ns, "")
				on.must(t, "POST", "/namespaces/"+ns+"/backlogQuota", `{"limitSize":1000,"limitTime":-1,"policy":"`+policy+`"}`)
				topic := "persistent://" + ns + "/t"
				consumer := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic, AckWithResponse: true})
				// One message: Pulsar disconnects producers that are over the quota, once a minute.
				produce(t, client, pulsar.ProducerOptions{Topic: topic}, &pulsar.ProducerMessage{Payload: bytes.Repeat([]byte("x"), 2000)})
				second, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic})
				if want == "" && err == nil {
					second.Close()
					continue
				}
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Fatalf("%s: %v", policy, err)
				}
				payloads(t, consumer, 1)
				eventually(t, func() bool {
					second, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic})
					if err == nil {
						second.Close()
					}
					return err == nil
				})
			}
		})
	}
}
