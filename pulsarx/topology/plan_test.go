package topology_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/pulsarx/topology"
)

// allOf is testdata/all.yaml for a tenant and the cluster of a standalone Pulsar.
func allOf(tb testing.TB, tenant string) topology.Topology {
	tb.Helper()
	text, err := os.ReadFile("testdata/all.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	t, err := topology.Parse([]byte(strings.NewReplacer("TENANT", tenant, "CLUSTER", "standalone").Replace(string(text))))
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// TestAll: everything that can be declared is planned, applied, reads back as it was declared, and is dropped as one.
func TestAll(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			c := s.client(t)
			tenant := tenantName(t, c)
			want := allOf(t, tenant)
			text := apply(t, c, want, topology.Options{})
			golden, err := os.ReadFile("testdata/all.plan")
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.ReplaceAll(text, tenant, "TENANT"); got != string(golden) {
				t.Errorf("the plan is not testdata/all.plan:\n%s", got)
			}
			// Topics with an offload driver cannot be opened where the broker lacks it, not even to be read or deleted.
			archive := want.Tenants[tenant].Namespaces["archive"]
			old := archive.Topics["2025"]
			archive.Offload, archive.Reset = nil, []string{"offload"}
			old.Offload, old.Reset = nil, []string{"offload"}
			archive.Topics["2025"] = old
			want.Tenants[tenant].Namespaces["archive"] = archive
			apply(t, c, want, topology.Options{})

			have, err := topology.Read(t.Context(), c, tenant)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range []topology.Options{{}, {ResetUndeclared: true, DeleteUndeclared: true}} {
				have.Isolation = want.Isolation
				if p := plan(t, c, have, o); !p.Empty() {
					t.Errorf("what was read is not what is there:\n%s", p)
				}
				if p := plan(t, c, want, o); !p.Empty() {
					t.Errorf("more is there than was declared:\n%s", p)
				}
			}
			yaml, err := have.YAML()
			if err != nil {
				t.Fatal(err)
			}
			again, err := topology.Parse(yaml)
			if err != nil || !reflect.DeepEqual(again, parsed(t, again)) {
				t.Fatalf("%v of\n%s", err, yaml)
			}
			if p := plan(t, c, again, topology.Options{ResetUndeclared: true, DeleteUndeclared: true}); !p.Empty() {
				t.Errorf("the YAML of what was read is not what is there:\n%s\n%s", p, yaml)
			}

			drop, err := topology.NewDropPlan(t.Context(), c, want)
			if err != nil {
				t.Fatal(err)
			}
			contains(t, drop.String(), "- topic persistent://"+tenant+"/events/orders (holds 0B, 0 entries are not acknowledged, of subscriptions audit, billing)",
				"- topic non-persistent://"+tenant+"/events/ticks", "- namespace "+tenant+"/events\n", "- tenant "+tenant+"\n", "isolation."+tenant+"-policy")
			if !applied(t, drop) {
				return
			}
			if drop, err = topology.NewDropPlan(t.Context(), c, want); err != nil || !drop.Empty() {
				t.Errorf("after dropping: %v\n%v", err, drop)
			}
		})
	}
}

// TestOddNames: names with what has a meaning in URLs and in a plan's text are those of what is made, read and deleted.
func TestOddNames(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			c := s.client(t)
			n := topology.Namespace{Permissions: map[string][]string{}, Topics: map[string]topology.Topic{}}
			want := one(tenantName(t, c), n)
			for i, odd := range []string{"ä b+c", "a%2Fb?c#d;e=f&g", `"{[\]}"%`, "a\n- tenant shop \u202e\x1b[2K"} {
				n.Permissions[odd+"/x"] = []string{"produce"}
				n.Topics[odd] = topology.Topic{
					Partitions: i, Policies: topology.Policies{TTL: topology.Hour}, Permissions: map[string][]string{odd + "/y": {"consume"}},
					Subscriptions: map[string]topology.Subscription{odd: {Replicated: topology.On, DeadLetter: &topology.DeadLetter{}}},
				}
			}
			text := apply(t, c, want, topology.Options{})
			contains(t, text, `a\n- tenant shop \u202e\x1b[2K-`)
			if strings.Contains(text, "\n- ") || strings.ContainsAny(text, "\x1b\u202e") {
				t.Errorf("a name stands as it is:\n%q", text)
			}
			for _, admins := range [][]string{{"none"}, {"a, b"}, {"b", "a"}, {}} { // each is another set
				only := topology.Topology{Tenants: map[string]topology.Tenant{}}
				for tenant := range want.Tenants {
					only.Tenants[tenant] = topology.Tenant{Admins: admins}
				}
				contains(t, apply(t, c, only, topology.Options{}), "~ admins: ")
			}
			strict := topology.Options{DeleteUndeclared: true, ResetUndeclared: true}
			if p := plan(t, c, want, strict); !p.Empty() {
				t.Errorf("more is there than was declared:\n%s", p)
			}
			for odd, topic := range n.Topics {
				topic.Permissions, topic.Subscriptions = nil, map[string]topology.Subscription{}
				n.Topics[odd] = topic
			}
			apply(t, c, want, strict)
			clear(n.Topics)
			apply(t, c, want, strict)
		})
	}
}

// parsed writes and reads a declaration.
func parsed(tb testing.TB, t topology.Topology) topology.Topology {
	tb.Helper()
	yaml, err := t.YAML()
	if err != nil {
		tb.Fatal(err)
	}
	again, err := topology.Parse(yaml)
	if err != nil {
		tb.Fatalf("%v\n%s", err, yaml)
	}
	return again
}
