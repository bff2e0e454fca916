package topology_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/pulsarx/topology"
)

func TestDuration(t *testing.T) {
	for text, want := range map[string]topology.Duration{
		"7d": 7 * topology.Day, "2w": 14 * topology.Day, "1d12h": 36 * topology.Hour, "1w1d1h": 8*topology.Day + topology.Hour, "90s": 90 * topology.Second,
		"500ms": 500 * topology.Millisecond, "1h30m": 90 * topology.Minute, "0s": 0, "infinite": topology.Infinite, "0": 0, "106751d": 106751 * topology.Day,
	} {
		if got, err := topology.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "d", "7", "7 d", "-1d", "-5s", "1.5d", "7D", "forever", "1d-2h", "1h1d", "99999999d", "106751d24h", "-1ns", "Infinite", "1d1d", "1e3s", "+1d",
	} {
		if got, err := topology.ParseDuration(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
	for d, want := range map[topology.Duration]string{
		7 * topology.Day: "7d", 36 * topology.Hour: "36h", 90 * topology.Minute: "1h30m", topology.Minute: "1m", 60 * topology.Hour: "60h", topology.Infinite: "infinite",
		1500 * topology.Millisecond: "1.5s", 0: "0s", 10 * topology.Minute: "10m", 10 * topology.Second: "10s", 20 * topology.Hour: "20h", topology.Hour + topology.Second: "1h0m1s",
	} {
		if got := d.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]topology.Size{
		"10GiB": 10 * topology.GiB, "512MiB": 512 * topology.MiB, "1.5GiB": 1536 * topology.MiB, "5GB": 5e9, "1kB": 1000, "100": 100, "100B": 100, "0": 0, "2TiB": 2 * topology.TiB,
		"infinite": topology.Infinite, "9223372036854775807": math.MaxInt64, "1TB": 1e12, "3KiB": 3072, "2MB": 2e6,
	} {
		if got, err := topology.ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "GiB", "-1", "-1GiB", "1.3B", "10 GiB", "10gib", "10G", "1e3", "0x10", "NaN", "inf", "Inf", "9223372036854775808", "9000000TiB", "1_000", "0.1KiB", "1e3GiB",
	} {
		if got, err := topology.ParseSize(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
	for s, want := range map[topology.Size]string{10 * topology.GiB: "10GiB", 5e9: "5GB", 1: "1B", 0: "0B", topology.Infinite: "infinite", 1536 * topology.MiB: "1536MiB", 1001: "1001B"} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestParseErrors: whatever is wrong is an error with its line, all of it at once.
func TestParseErrors(t *testing.T) {
	for text, want := range map[string][]string{
		"tenants:\n  a:\n    admin: [x]\n": {"line 3: field admin not found"},
		"tenants:\n  a: {}\n  a: {}\n":     {`line 3: mapping key "a" already defined at line 2`},
		"tenants: {}\n---\ntenants: {}\n":  {"more than one YAML document"},
		"tenants: [":                       {"line 1: did not find"},
		"tenants: 5":                       {"line 1: cannot unmarshal"},
		"a: &a [*a]":                       {"a"},
		"tenants:\n  a:\n    namespaces:\n      n:\n        ttl: 7\n":                                                      {"line 5: \"7\" is no duration"},
		"tenants:\n  a:\n    namespaces:\n      n:\n        ttl: [7d]\n":                                                   {"line 5: \"\" is no duration"},
		"tenants:\n  a:\n    namespaces:\n      n:\n        retention: {tim: 7d}\n":                                        {"line 5: field tim not found"},
		"tenants:\n  a:\n    namespaces:\n      n:\n        retention: {time: 7d, time: 8d}\n":                             {`line 5: mapping key "time" already defined at line 5`},
		"tenants:\n  a:\n    namespaces:\n      n:\n        retention: forever\n":                                          {"line 5: \"forever\" is no retention"},
		"tenants:\n  a:\n    namespaces:\n      n:\n        deduplication: maybe\n        maxTopics: -3\n        nix: 1\n": {"line 5: \"maybe\" is neither on nor off", "line 6: \"-3\" is no count", "line 7: field nix"},
		"tenants:\n  a:\n    namespaces:\n      n:\n        compactionThreshold: 1 GiB\n":                                  {"line 5: \"1 GiB\" is no size"},
		"tenants:\n  a:\n    namespaces:\n      n:\n        topics:\n          x: {partitions: many}\n":                    {"line 6: cannot unmarshal"},
		"tenants:\n  a:\n    namespaces:\n      n:\n        retention: {time: x}\n":                                        {"line 5: \"x\" is no duration"},
		"tenants:\n  a:\n    namespaces:\n      n:\n        retention: {time: 0s, size: 10GiB}\n":                          {"line 5: time: \"0s\" beside another limit"},
		"tenants:\n  a:\n    namespaces:\n      n:\n        retention: {time: 7d, size: 0}\n":                              {"line 5: size: \"0\" beside another limit"},
		"tenants: {a: {namespaces: {n: {topics: {x: {partitions: 4.5}}}}}}":                                                {"line 1: partitions: 4.5 is no whole number"},
		"isolation: {c: {p: {namespaces: [a/.*], primary: [b1], minAvailable: 2.5, usageThreshold: 1.5}}}": {
			"minAvailable: 2.5 is no", "usageThreshold: 1.5 is no",
		},
		"tenants:\n  a:\n    namespaces:\n      n:\n        ttl:\n        topics:\n          x:\n            subscriptions:\n              s:\n                deadLetter: ~\n": {"line 5: ttl has no value", "line 10: deadLetter has no value"},
		strings.Repeat("# long\n", 1<<20): {"more than 4194304 bytes"},
	} {
		_, err := topology.Parse([]byte(text))
		if err == nil {
			t.Errorf("%.100q is taken", text)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%.100q: %q is not in %v", text, part, err)
			}
		}
	}
	names := "tenants: {a: {namespaces: {n: {topics: {x: , y: {subscriptions: {topics: }}}}}}}"
	if got, err := topology.Parse([]byte(names)); err != nil || len(got.Tenants["a"].Namespaces["n"].Topics) != 2 {
		t.Errorf("names that stand alone: %+v %v", got, err)
	}
	if got, err := topology.Parse(nil); err != nil || got.Tenants != nil {
		t.Error(got, err)
	}
	if _, err := topology.Load("testdata/no.yaml"); err == nil || !strings.Contains(err.Error(), "testdata/no.yaml") {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(path, []byte("tenants:\n  'a b': {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := topology.Load(path); err == nil || !strings.Contains(err.Error(), "bad.yaml: topology: tenants.a b.name") {
		t.Error(err)
	}
}

// TestAliasBomb: a text that grows when it is read, or would take hours, ends in an error, soon.
func TestAliasBomb(t *testing.T) {
	text := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		p := string(c - 1)
		text += string(c) + ": &" + string(c) + " [*" + strings.TrimSuffix(strings.Repeat(p+",*", 9), ",*") + "]\n"
	}
	if _, err := topology.Parse([]byte(text)); err == nil {
		t.Error("it is taken")
	}
	for names, aliases := range map[int]string{70_000: "", 30_000: ", b: {topics: *a}, c: {topics: *a}, d: {topics: *a}, e: {topics: *a}"} {
		text := []byte("tenants: {a: {namespaces: {a: {topics: &a {")
		for i := range names {
			text = fmt.Appendf(text, "t%d: ,", i)
		}
		text = append(text, "}}"+aliases+"}}}"...)
		if _, err := topology.Parse(text); err == nil || !strings.Contains(err.Error(), "too many names side by side") {
			t.Errorf("%d names: %v", names, err)
		}
	}
	if _, err := topology.Parse([]byte("tenants: &a {a: {namespaces: *a}}")); err == nil {
		t.Error("what contains itself is taken")
	}
}

// TestValidate: all that is wrong, each with its path.
func TestValidate(t *testing.T) {
	for text, want := range map[string]string{
		"tenants: {'': {}}":                     `tenants..name: "" may have letters`,
		"tenants: {a/b: {}}":                    `tenants.a/b.name: "a/b" may have`,
		"tenants: {a: {namespaces: {b/c: {}}}}": `tenants.a.namespaces.b/c.name: "b/c" may have`,
		"tenants: {a: {admins: ['']}}":          "tenants.a.admins[0] is empty",
		"isolation: {'c d': {p: {}}}":           `isolation.c d.p.name: "c d" may have`,
		"tenants: {..: {namespaces: {.: {}}}}":  `tenants....name: ".." cannot stand in a URL`,
		"isolation: {c: {p: {primary: [x]}}}":   "isolation.c.p.namespaces is empty",
		"isolation: {c: {p: {namespaces: [x], primary: [x], usageThreshold: 101}}}": "usageThreshold from 0 to 100, not 0 and 101",
	} {
		invalid(t, text, want)
	}
	for text, want := range map[string]string{
		"ttl: 1500ms":                                                                    "ttl: Pulsar keeps whole seconds",
		"ttl: 30000d":                                                                    "ttl is more than Pulsar keeps",
		"retention: {time: 90s}":                                                         "retention.time: Pulsar keeps whole minutes",
		"retention: {size: 1GB}":                                                         "retention.size: Pulsar keeps whole MiB",
		"retention: {time: 4000000000m}":                                                 "line 1",
		"backlogSize: {policy: producer_exception}":                                      "backlogSize.limit is missing",
		"backlogSize: {limit: 1GiB, policy: drop}":                                       `backlogSize.policy: "drop" is none of`,
		"{retention: {size: 1GiB}, backlogSize: {limit: 1GiB}}":                          "backlogSize.limit: Pulsar wants it below that of retention",
		"{retention: {size: 1GiB}, backlogSize: {limit: infinite}}":                      "backlogSize.limit: Pulsar wants it below that of retention",
		"{retention: {time: 1h}, backlogAge: {limit: 2h}}":                               "backlogAge.limit: Pulsar wants it below that of retention",
		"schemaCompatibility: BACKWARDS":                                                 `schemaCompatibility: "BACKWARDS" is none of`,
		"persistence: {ensemble: 2, writeQuorum: 3, ackQuorum: 2}":                       "persistence: want ensemble >= writeQuorum >= ackQuorum >= 1, not 2, 3, 2",
		"persistence: {ensemble: 3, writeQuorum: 3}":                                     "not 3, 3, 0",
		"persistence: {ensemble: 1, writeQuorum: 1, ackQuorum: 1, markDeleteRate: .nan}": "persistence.markDeleteRate is NaN",
		"offload: {bucket: a}":                                                           "offload.driver is missing",
		"offload: {}":                                                                    "offload.without a driver",
		"offload: {threshold: infinite}":                                                 "offload.without a driver",
		"offload: {driver: s4, bucket: b}":                                               `offload.driver: "s4" is none of`,
		"offload: {driver: aws-s3, bucket: b, thresholdTime: 1500ms}":                    "offload.thresholdTime: Pulsar keeps whole seconds",
		"offload: {driver: aws-s3}":                                                      "offload.bucket is missing",
		"offload: {driver: filesystem, readPriority: fast}":                              "offload.readPriority",
		"publishRate: {messages: -1}":                                                    "publishRate: want messages up to",
		"dispatchRate: {messages: 1, period: 1500ms}":                                    "dispatchRate.period: Pulsar keeps whole seconds",
		"subscribeRate: {period: 10s}":                                                   "subscribeRate.perConsumer is 0",
		"inactiveTopics: {caughtUp: true}":                                               "inactiveTopics.after is missing",
		"maxProducers: 3000000000":                                                       "maxProducers is more than Pulsar keeps",
		"maxTopics: 3000000000":                                                          "maxTopics is more than Pulsar keeps",
		"replicationClusters: ['']":                                                      "replicationClusters[0] is empty",
		"{allowedClusters: [a], replicationClusters: [b]}":                               "replicationClusters: b is none of allowedClusters",
		"bookieAffinity: {secondary: b}":                                                 "bookieAffinity.primary is missing",
		"autoTopicCreation: {partitions: -1}":                                            "autoTopicCreation: partitions is -1",
		"reset: [nix]":                                                                   `reset: "nix" is no policy here`,
		"{reset: [ttl], ttl: 1h}":                                                        "reset: ttl is declared too",
		"reset: [allowedClusters]":                                                       "reset: Pulsar knows no way back for allowedClusters",
		"permissions: {a: []}":                                                           "permissions.a is empty",
		"permissions: {a: [write]}":                                                      `permissions.a: "write" is none of produce`,
		"permissions: {'': [produce]}":                                                   "permissions: a role is empty",
		"topics: {a/b: {}}":                                                              `topics.a/b.name: "a/b" is no topic's local name`,
		"topics: {x-partition-0: {}}":                                                    "topics.x-partition-0.name: \"x-partition-0\" is one partition's",
		"topics: {x-partition-a: {partitions: 2}}":                                       "\"x-partition-a\" is no name of a topic with partitions",
		"topics: {__change_events: {}}":                                                  "is the system's",
		"topics: {.: {}}":                                                                `topics...name: "." cannot stand in a URL`,
		"topics: {x: {subscriptions: {..: {}}}}":                                         `subscriptions....name: ".." cannot stand in a URL`,
		"permissions: {..: [produce]}":                                                   `permissions: ".." cannot stand in a URL`,
		"ttl: 0s":                                                                        `line 1: "0s" declares nothing: leave it out, or say infinite`,
		"maxConsumers: 0":                                                                `"0" declares nothing`,
		"compactionThreshold: 0B":                                                        `"0B" declares nothing`,
		"retention: {time: 1d, time: 2d}":                                                "already defined at line 1",
		"retention: {time: 1d, sizes: 2GiB}":                                             "line 1: field sizes not found in type topology.Retention",
		"retention: {time: [1d]}":                                                        "line 1",
		"topics: {x: {partitions: -1}}":                                                  "topics.x.partitions is -1, want 0 to 10000",
		"topics: {x: {partitions: 100000}}":                                              "topics.x.partitions is 100000",
		"topics: {x: {reset: [maxTopics]}}":                                              `topics.x.reset: "maxTopics" is no policy here`,
		"topics: {x: {offload: {threshold: 1GiB}}}":                                      "topics.x.offload.driver is missing: a topic's policy is a whole one",
		"topics: {x: {subscriptions: {__compaction: {}}}}":                               "topics.x.subscriptions.__compaction.name",
		"topics: {x: {subscriptions: {s: {deadLetter: {name: y}}}}, y: {}}":              "topics.x.subscriptions.s.deadLetter: y is declared twice",
		"topics: {x: {subscriptions: {s: {deadLetter: {partitions: -1}}}}}":              "topics.x-s-DLQ.partitions is -1",
		"nonPersistent: {x: {}}":                                                         "nonPersistent.x.partitions is 0",
		"nonPersistent: {x: {partitions: 1, ttl: 1h}}":                                   "nonPersistent.x.ttl: means nothing where no message is stored",
		"nonPersistent: {x: {partitions: 1, deduplication: on}}":                         "nonPersistent.x.deduplication: means nothing",
		"nonPersistent: {x: {partitions: 1, subscriptions: {s: {}}}}":                    "nonPersistent.x.subscriptions: those of a non-persistent topic exist while",
		"delayedDelivery: {tick: 1us}":                                                   "delayedDelivery.tick: Pulsar keeps whole milliseconds",
		"topics: {x: {maxUnackedPerConsumer: 3000000000, ttl: 1ms, ttl: 1s}}":            "line 1",
	} {
		invalid(t, "tenants: {t: {namespaces: {n: "+braced(text)+"}}}", want)
	}
	_, err := topology.Parse([]byte("tenants: {t: {namespaces: {n: {ttl: 1ms, offload: {}, permissions: {a: []}}}}}"))
	if err == nil || strings.Count(err.Error(), "\n") != 2 || strings.Count(err.Error(), "topology: tenants.t.namespaces.n.") != 3 {
		t.Errorf("not all errors: %v", err)
	}
	// Go values are checked as YAML is, and by NewPlan.
	wrong := topology.Topology{Tenants: map[string]topology.Tenant{"t": {Namespaces: map[string]topology.Namespace{"n": {
		Policies: topology.Policies{TTL: -5, CompactionThreshold: -2, DispatchRate: &topology.Rate{Period: -1}},
	}}}}}
	if err := wrong.Validate(); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Error(err)
	}
	if _, err := topology.NewPlan(t.Context(), nil, wrong, topology.Options{}); err == nil {
		t.Error("an invalid declaration is planned")
	}
	if _, err := topology.Read(t.Context(), nil, "shop", ".."); err == nil || !strings.Contains(err.Error(), `".." cannot stand in a URL`) {
		t.Errorf("a tenant that has no place: %v", err)
	}
}

func braced(text string) string {
	if strings.HasPrefix(text, "{") {
		return text
	}
	return "{" + text + "}"
}

func invalid(t *testing.T, text, want string) {
	t.Helper()
	if _, err := topology.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %q is not in %v", text, want, err)
	}
}

// TestYAML: what is written reads back equal.
func TestYAML(t *testing.T) {
	want := allOf(t, "shop")
	if again := parsed(t, want); !reflect.DeepEqual(again, want) {
		a, _ := want.YAML()
		b, _ := again.YAML()
		t.Errorf("%s\n%s", a, b)
	}
	for text, want := range map[string]topology.Retention{
		"infinite": {Time: topology.Infinite, Size: topology.Infinite}, "none": {}, "{time: 7d}": {Time: topology.Week}, "{size: 1GiB}": {Size: topology.GiB},
		"{time: infinite, size: infinite}": {Time: topology.Infinite, Size: topology.Infinite}, "{}": {},
		"{time: 0, size: 0}": {}, "{<<: {size: 1GiB, time: 1d}, time: 7d}": {Time: topology.Week, Size: topology.GiB},
	} {
		got := parse(t, "tenants: {t: {namespaces: {n: {retention: "+text+"}}}}").Tenants["t"].Namespaces["n"].Retention
		if got == nil || *got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	merged := parse(t, "tenants: {t: {namespaces: {n: {topics: {x: &x {partitions: 2, ttl: 1h}, y: {<<: *x, partitions: 4}}}}}}").Tenants["t"].Namespaces["n"]
	if y := merged.Topics["y"]; y.Partitions != 4 || y.TTL != topology.Hour {
		t.Errorf("%+v", y)
	}
	shared := parse(t, "tenants: {t: {namespaces: {n: {ttl: &d 7d, retention: {time: *d}}}}}").Tenants["t"].Namespaces["n"]
	if shared.Retention.Time != topology.Week {
		t.Errorf("%+v", shared.Retention)
	}
	on := parse(t, "tenants: {t: {namespaces: {n: {deduplication: true, schemaValidation: false, topics: {x: }}}}}").Tenants["t"].Namespaces["n"]
	if on.Deduplication != topology.On || on.SchemaValidation != topology.Off || len(on.Topics) != 1 {
		t.Errorf("%+v", on)
	}
}

func TestPartitions(t *testing.T) {
	for _, c := range []struct {
		target, per, n int
		why            string
	}{
		{0, 0, 1, "0 messages/s are within the 50000/s"},
		{50_000, 0, 1, "50000 messages/s are within"},
		{50_001, 0, 2, "50001 messages/s at 50000/s a partition take 2 partitions, which leaves 49999/s of room"},
		{1_000_000, 0, 20, "leaves 0/s of room"},
		{1000, 300, 4, "1000 messages/s at 300/s a partition take 4 partitions, which leaves 200/s"},
		{-5, -5, 1, "0 messages/s are within the 50000/s"},
		{math.MaxInt, 1, math.MaxInt, "take 9223372036854775807 partitions"},
		{math.MaxInt, math.MaxInt - 1, 2, "take 2 partitions"},
	} {
		n, why := topology.Partitions(c.target, c.per)
		if n != c.n || !strings.Contains(why, c.why) {
			t.Errorf("%d at %d: %d, %s", c.target, c.per, n, why)
		}
	}
}

// FuzzParse: no text is a panic, and what is taken reads back equal.
func FuzzParse(f *testing.F) {
	text, err := os.ReadFile("testdata/all.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("tenants: {t: {namespaces: {n: {retention: {time: 1d}, reset: [ttl], topics: {x: {partitions: 2, unkeyed: true}}}}}}"))
	f.Add([]byte("tenants:\n  a: &a {namespaces: {n: {deduplication: on, compactionThreshold: 1.5GiB, persistence: {ensemble: 1, writeQuorum: 1, ackQuorum: 1, markDeleteRate: .inf}}}}\n  b: *a\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := topology.Parse(text)
		if err != nil {
			return
		}
		written, err := got.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := topology.Parse(written)
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		second, err := again.YAML()
		if err != nil || string(second) != string(written) {
			t.Errorf("%v: not the same when written again:\n%s\n%s", err, written, second)
		}
	})
}

// FuzzValues: what a value is written as, it is read from.
func FuzzValues(f *testing.F) {
	f.Add("7d12h", int64(1))
	f.Add("1.5GiB", int64(math.MaxInt64))
	f.Add("infinite", int64(-1))
	f.Fuzz(func(t *testing.T, text string, n int64) {
		durations, sizes := []topology.Duration{max(topology.Duration(n), -1)}, []topology.Size{max(topology.Size(n), -1)}
		if d, err := topology.ParseDuration(text); err == nil {
			durations = append(durations, d)
		}
		if s, err := topology.ParseSize(text); err == nil {
			sizes = append(sizes, s)
		}
		for _, d := range durations {
			if again, err := topology.ParseDuration(d.String()); err != nil || again != d {
				t.Errorf("%d is written as %s: %v", int64(d), d, err)
			}
		}
		for _, s := range sizes {
			if again, err := topology.ParseSize(s.String()); err != nil || again != s {
				t.Errorf("%d is written as %s: %v", int64(s), s, err)
			}
		}
	})
}
