package topology_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/topology"
)

// policies are each policy's first and second value in YAML, where it can be set, and what is there without it.
var policies = []struct {
	name, first, second string
	without             string // "" is nothing
	namespace, topic    bool
	final               bool // Pulsar knows no way back
}{
	{"allowedClusters", "[standalone]", "", "[]", true, false, true},
	{"retention", "{time: 1d, size: 1GiB}", "infinite", "", true, false, false},
	{"retention", "infinite", "none", "", false, true, false},
	{"ttl", "1h", "infinite", "", true, true, false},
	{"backlogSize", "{limit: 1GiB, policy: producer_request_hold}", "{limit: 2GiB, policy: producer_exception}", "", true, true, false},
	{"backlogAge", "{limit: 1h, policy: producer_exception}", "{limit: 2d, policy: consumer_backlog_eviction}", "", true, true, false},
	{"schemaCompatibility", "BACKWARD", "FORWARD_TRANSITIVE", "", true, true, false},
	{"schemaValidation", "on", "", "off", true, true, false},
	{"schemaAutoUpdate", "off", "", "on", true, false, false},
	{"offload", "{threshold: 1GiB}", "{thresholdTime: 2d, deletionLag: 4h}", "", true, false, false},
	{"offload", "{driver: aws-s3, bucket: a, threshold: 1GiB}", "{driver: filesystem, uri: 'hdfs://a', threshold: infinite, deletionLag: 1h}", "", true, true, false},
	{"persistence", "{ensemble: 1, writeQuorum: 1, ackQuorum: 1}", "{ensemble: 1, writeQuorum: 1, ackQuorum: 1, markDeleteRate: 0.5}", "", true, true, false},
	{"publishRate", "{messages: 100}", "{messages: 200, bytes: 1MiB}", "", true, true, false},
	{"dispatchRate", "{messages: 100, period: 1s}", "{bytes: 1MiB, period: 2s, relativeToPublish: true}", "", true, true, false},
	{"subscriptionDispatchRate", "{messages: 100, period: 1s}", "{messages: 200, period: 1s}", "", true, true, false},
	{"replicatorDispatchRate", "{messages: 100, period: 1s}", "{messages: 200, period: 1s}", "", true, true, false},
	{"subscribeRate", "{perConsumer: 10, period: 30s}", "{perConsumer: 20, period: 1m}", "", true, true, false},
	{"deduplication", "on", "off", "", true, true, false},
	{"replicationClusters", "[standalone]", "", "", false, true, false},
	{"compactionThreshold", "1MiB", "infinite", "", true, true, false},
	{"delayedDelivery", "{tick: 2s}", "{disabled: true, tick: 1s, max: 1d}", "", true, true, false},
	{"inactiveTopics", "{after: 1h}", "{keep: true, after: 1m}", "", true, true, false},
	{"autoTopicCreation", "{disabled: true}", "{partitions: 3}", "", true, false, false},
	{"autoSubscriptionCreation", "off", "on", "", true, true, false},
	{"maxProducers", "10", "infinite", "", true, true, false},
	{"maxConsumers", "10", "20", "", true, true, false},
	{"maxSubscriptions", "10", "20", "", true, true, false},
	{"maxUnackedPerConsumer", "10", "infinite", "", true, true, false},
	{"maxUnackedPerSubscription", "10", "20", "", true, true, false},
	{"maxTopics", "10", "20", "infinite", true, false, false},
	{"encryptionRequired", "on", "", "off", true, false, false},
	{"bookieAffinity", "{primary: a}", "{primary: a, secondary: b}", "", true, false, false},
	{"antiAffinity", "a", "b", "", true, false, false},
}

// TestPolicies: each policy is set, changed and taken back, on a namespace and on a topic, alone. Apply reads each back.
func TestPolicies(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			c := s.client(t)
			tenant := tenantName(t, c)
			apply(t, c, events(tenant, map[string]topology.Topic{"orders": {Partitions: 2}}), topology.Options{})
			declare := func(level, text string) topology.Topology {
				// Where a topic is open, some values would bring it down: groups of bookies and drivers that are not there.
				head := "tenants:\n  " + tenant + ":\n    namespaces:\n      empty:\n"
				if level == "topic" {
					head = strings.Replace(head, "empty", "events", 1) + "        topics:\n          orders:\n            partitions: 2\n    "
				}
				return parse(t, head+"        "+text)
			}
			apply(t, c, declare("namespace", "permissions: {}"), topology.Options{})
			for _, policy := range policies {
				for _, level := range []string{"namespace", "topic"} {
					if level == "namespace" && !policy.namespace || level == "topic" && !policy.topic {
						continue
					}
					t.Run(level+"/"+policy.name, func(t *testing.T) {
						step := func(text, from, to string) {
							t.Helper()
							got := apply(t, c, declare(level, text), topology.Options{})
							want := fmt.Sprintf("    ~ %s: %s -> %s\n", policy.name, from, to)
							switch {
							case from == "":
								want = fmt.Sprintf("    + %s: %s\n", policy.name, to)
							case to == "":
								want = fmt.Sprintf("    - %s: %s -> not set\n", policy.name, from)
							}
							contains(t, got, want)
							if strings.Count(got, "\n")-strings.Count(got, "\nwarning:") != 3 {
								t.Errorf("more is planned:\n%s", got)
							}
						}
						last := policy.first
						step(policy.name+": "+policy.first, policy.without, policy.first)
						if policy.second != "" {
							step(policy.name+": "+policy.second, policy.first, policy.second)
							last = policy.second
						}
						if policy.final {
							return
						}
						step("reset: ["+policy.name+"]", last, policy.without)
					})
				}
			}
		})
	}
}

// read is what the cluster has of a tenant, in YAML.
func read(tb testing.TB, c *pulsarx.Client, tenant string) string {
	tb.Helper()
	have, err := topology.Read(tb.Context(), c, tenant)
	if err != nil {
		tb.Fatal(err)
	}
	text, err := have.YAML()
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

func parse(tb testing.TB, text string) topology.Topology {
	tb.Helper()
	t, err := topology.Parse([]byte(text))
	if err != nil {
		tb.Fatalf("%v\n%s", err, text)
	}
	return t
}

// TestQuotas: whatever order of retention and quotas Pulsar wants, Apply finds it.
func TestQuotas(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			c := s.client(t)
			tenant := tenantName(t, c)
			small := topology.Policies{
				Retention:   &topology.Retention{Time: topology.Hour, Size: 100 * topology.MiB},
				BacklogSize: &topology.SizeQuota{Limit: 10 * topology.MiB}, BacklogAge: &topology.AgeQuota{Limit: topology.Minute},
			}
			large := topology.Policies{
				Retention:   &topology.Retention{Time: topology.Week, Size: 100 * topology.GiB},
				BacklogSize: &topology.SizeQuota{Limit: 50 * topology.GiB}, BacklogAge: &topology.AgeQuota{Limit: topology.Day},
			}
			between := small // a quota changes beside a finite retention
			between.BacklogAge = &topology.AgeQuota{Limit: 2 * topology.Minute}
			endless := topology.Policies{Retention: &topology.Retention{Size: topology.Infinite}, BacklogSize: &topology.SizeQuota{Limit: topology.Infinite}}
			for i, p := range []topology.Policies{small, large, small, between, endless, between, small} {
				n := topology.Namespace{Topics: map[string]topology.Topic{"orders": {}}}
				t.Logf("namespace, step %d", i)
				n.Policies = p
				apply(t, c, one(tenant, n), topology.Options{})
			}
			for i, p := range []topology.Policies{small, large, small, between, endless, between, small} {
				t.Logf("topic, step %d", i)
				apply(t, c, one(tenant, topology.Namespace{Topics: map[string]topology.Topic{"orders": {Policies: p}}}), topology.Options{})
			}
		})
	}
}

// TestCredentials: what an offload policy has beside what is declared stays, and is never shown.
func TestCredentials(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			c := s.client(t)
			tenant := tenantName(t, c)
			n := topology.Namespace{}
			apply(t, c, one(tenant, n), topology.Options{})
			path := "/namespaces/" + tenant + "/events/offloadPolicies"
			if err := c.Admin(t.Context(), "POST", path, map[string]any{
				"managedLedgerOffloadDriver": "aws-s3", "managedLedgerOffloadBucket": "a", "managedLedgerOffloadThresholdInBytes": 1 << 30,
				"s3ManagedLedgerOffloadCredentialId": "my-id", "s3ManagedLedgerOffloadCredentialSecret": "my-secret",
			}, nil); err != nil {
				t.Fatal(err)
			}
			if have := read(t, c, tenant); strings.Contains(have, "my-") {
				t.Errorf("credentials are read:\n%s", have)
			}
			n.Offload = &topology.Offload{Driver: "aws-s3", Bucket: "b", DeletionLag: topology.Hour}
			text := apply(t, c, one(tenant, n), topology.Options{})
			contains(t, text, "~ offload: {driver: aws-s3, bucket: a, threshold: 1GiB} -> {driver: aws-s3, bucket: b, deletionLag: 1h}")
			if strings.Contains(text, "my-") {
				t.Errorf("credentials are planned:\n%s", text)
			}
			var have map[string]any
			if err := c.Admin(t.Context(), "GET", path, nil, &have); err != nil || have["s3ManagedLedgerOffloadCredentialSecret"] != "my-secret" {
				t.Error("the secret is gone", err)
			}
		})
	}
}
