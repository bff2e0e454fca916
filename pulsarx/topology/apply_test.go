package topology_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/topology"
)

// events is a declaration of topics in tenant/events.
func events(tenant string, topics map[string]topology.Topic) topology.Topology {
	return one(tenant, topology.Namespace{Topics: topics})
}

// TestPartitionsOnlyGrow: what Pulsar cannot do is refused by name, and nothing of the plan is made.
func TestPartitionsOnlyGrow(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			c := s.client(t)
			tenant := tenantName(t, c)
			apply(t, c, events(tenant, map[string]topology.Topic{"four": {Partitions: 4}, "none": {}}), topology.Options{})
			for text, topics := range map[string]map[string]topology.Topic{
				"/events/four: it has 4 partitions, and partitions only grow":           {"four": {Partitions: 3}, "new": {}},
				"/events/four: it has 4 partitions, and Pulsar cannot take them away":   {"four": {}, "new": {}},
				"/events/none: it has no partitions, and Pulsar cannot give it any":     {"none": {Partitions: 1}, "new": {}},
				"/events/four: to grow it from 4 to 5 partitions moves keys":            {"four": {Partitions: 5}, "new": {}},
				"(0 connected producers now); plan with Options.GrowKeyed holding pers": {"four": {Partitions: 5}, "new": {}},
			} {
				p := plan(t, c, events(tenant, topics), topology.Options{})
				contains(t, p.String(), text, "refused: topic persistent://"+tenant, "+ topic persistent://"+tenant+"/events/new", "1 refused, so that nothing is applied")
				err := p.Apply(t.Context())
				var applied *topology.ApplyError
				if !errors.Is(err, topology.ErrRefused) || !errors.As(err, &applied) || len(applied.Done) != 0 || len(applied.NotDone) != 1 {
					t.Errorf("%v", err)
				}
				contains(t, fmt.Sprint(err), "partitions", tenant, "none of 1 changes was made")
			}
			if have := read(t, c, tenant); strings.Contains(have, "new") {
				t.Errorf("a refused plan was made:\n%s", have)
			}
			got := apply(t, c, events(tenant, map[string]topology.Topic{"four": {Partitions: 5, Unkeyed: true}}), topology.Options{})
			contains(t, got, "~ partitions: 4 -> 5")
		})
	}
}

// TestGrowKeyed goes through the procedure with a producer and a subscription at work.
func TestGrowKeyed(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			c := s.client(t)
			tenant := tenantName(t, c)
			name := "persistent://" + tenant + "/events/orders"
			orders := topology.Topic{Partitions: 1, Subscriptions: map[string]topology.Subscription{"billing": {}}}
			apply(t, c, events(tenant, map[string]topology.Topic{"orders": orders}), topology.Options{})
			p, err := pulsarx.NewProducer(t.Context(), c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: name, Key: func(s string) string { return s }})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 10 {
				if _, err := p.Send(t.Context(), fmt.Sprint("key-", i)); err != nil {
					t.Fatal(err)
				}
			}
			orders.Partitions = 3
			want, told := events(tenant, map[string]topology.Topic{"orders": orders}), topology.Options{GrowKeyed: []string{name}}
			eventually(t, "the refusal to say who uses the topic", func() bool {
				text := plan(t, c, want, topology.Options{}).String()
				return strings.Contains(text, "1 connected producers, billing 10 entries behind") && strings.Contains(text, "Stop its producers")
			})
			contains(t, plan(t, c, want, told).String(), "warning: topic "+name+": it grows though it is not drained: 1 connected producers, billing 10 entries behind",
				"~ partitions: 1 -> 3")

			// The procedure: stop, drain, grow, start.
			if err := p.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			drain(t, c, name, "billing", 10)
			eventually(t, "the plan without a warning", func() bool { return len(plan(t, c, want, told).Warnings) == 0 })
			apply(t, c, want, told)
			if p, err = pulsarx.NewProducer(t.Context(), c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: name, Key: func(s string) string { return s }}); err != nil {
				t.Fatal(err)
			}
			for i := range 10 {
				if _, err := p.Send(t.Context(), fmt.Sprint("key-", i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			drain(t, c, name, "billing", 10) // the subscription is on the new partitions too
		})
	}
}

// drain handles n messages.
func drain(tb testing.TB, c *pulsarx.Client, topic, subscription string, n int64) {
	tb.Helper()
	consumer, err := pulsarx.NewConsumer(tb.Context(), c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: subscription})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	var seen atomic.Int64
	err = consumer.Run(ctx, func(_ context.Context, batch []pulsarx.Message[string]) error {
		if seen.Add(int64(len(batch))) == n {
			cancel()
		}
		return nil
	})
	if err != nil || seen.Load() != n {
		tb.Fatalf("%d messages of %d: %v", seen.Load(), n, err)
	}
}

func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("waited for %s in vain", what)
		}
	}
}

// TestServerRefuses: Apply stops where the server refuses, says what is done and what is not, and goes on when that is mended.
func TestServerRefuses(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			c := s.client(t)
			tenant := tenantName(t, c)
			n := topology.Namespace{
				Policies: topology.Policies{TTL: topology.Hour, ReplicationClusters: []string{"nowhere"}},
				Topics:   map[string]topology.Topic{"orders": {}},
			}
			err := plan(t, c, one(tenant, n), topology.Options{}).Apply(t.Context())
			var applied *topology.ApplyError
			if !errors.As(err, &applied) || !errors.Is(err, topology.ErrRefused) {
				t.Fatal(err)
			}
			contains(t, err.Error(), "+ namespace "+tenant+"/events replicationClusters: [nowhere]", "nowhere", "3 changes were made before it, 1 were not")
			if len(applied.Done) != 3 || applied.Done[2].Setting != "ttl" || applied.Failed.Setting != "replicationClusters" || len(applied.NotDone) != 1 {
				t.Errorf("%+v", applied)
			}
			var refused *pulsarx.AdminError
			if !errors.As(err, &refused) || refused.Status/100 != 4 {
				t.Errorf("the server's answer is not in %v", err)
			}
			n.ReplicationClusters = nil
			if got := apply(t, c, one(tenant, n), topology.Options{}); strings.Contains(got, "ttl") {
				t.Errorf("what was done is planned again:\n%s", got)
			}

			// A tenant of a cluster that does not exist, and a context that has ended.
			bad := topology.Topology{Tenants: map[string]topology.Tenant{tenant + "x": {Clusters: []string{"nowhere"}}}}
			if err := plan(t, c, bad, topology.Options{}).Apply(t.Context()); !errors.Is(err, topology.ErrRefused) {
				t.Error(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			p := plan(t, c, events(tenant, map[string]topology.Topic{"late": {}}), topology.Options{})
			cancel()
			if err := p.Apply(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, topology.ErrRefused) || !errors.As(err, &applied) || len(applied.Done) > 0 {
				t.Error(err)
			}
		})
	}
}

// TestUndeclared: nothing that is not declared is touched unless told, and then only inside of what is.
func TestUndeclared(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			c := s.client(t)
			tenant := tenantName(t, c)
			full := topology.Topology{Tenants: map[string]topology.Tenant{tenant: {Namespaces: map[string]topology.Namespace{
				"events": {
					Policies:    topology.Policies{TTL: topology.Hour, Retention: &topology.Retention{Time: topology.Infinite}},
					Permissions: map[string][]string{"alice": {"produce"}, "bob": {"consume"}},
					Topics: map[string]topology.Topic{
						"orders": {
							Partitions: 2, Policies: topology.Policies{MaxProducers: 5}, Permissions: map[string][]string{"carol": {"consume"}},
							Subscriptions: map[string]topology.Subscription{"billing": {}, "audit": {}},
						},
						"old": {},
					},
					NonPersistent: map[string]topology.Topic{"ticks": {Partitions: 2}},
				},
				"gone": {Topics: map[string]topology.Topic{"x": {}}},
			}}}}
			apply(t, c, full, topology.Options{})
			less := events(tenant, map[string]topology.Topic{"orders": {Partitions: 2, Subscriptions: map[string]topology.Subscription{"billing": {}}}})
			less.Tenants[tenant].Namespaces["events"] = topology.Namespace{
				Topics: less.Tenants[tenant].Namespaces["events"].Topics, Permissions: map[string][]string{"alice": {"produce"}},
			}
			if p := plan(t, c, less, topology.Options{}); !p.Empty() {
				t.Errorf("what is not declared is touched:\n%s", p)
			}
			reset := apply(t, c, less, topology.Options{ResetUndeclared: true})
			contains(t, reset, "- ttl: 1h -> not set", "- retention: infinite -> not set", "- maxProducers: 5 -> not set", "- permissions.bob: consume -> not set", "- permissions.carol: consume -> not set",
				"Plan: 0 to create or set, 0 to change, 5 to delete or unset.")
			for _, silent := range []topology.Tenant{{}, {Namespaces: map[string]topology.Namespace{"events": {}, "gone": {}}}} {
				nothing := plan(t, c, topology.Topology{Tenants: map[string]topology.Tenant{tenant: silent}}, topology.Options{DeleteUndeclared: true})
				if !nothing.Empty() {
					t.Errorf("what declares nothing inside loses it:\n%s", nothing)
				}
			}
			none := topology.Topology{Tenants: map[string]topology.Tenant{tenant: {Namespaces: map[string]topology.Namespace{}}}}
			contains(t, plan(t, c, none, topology.Options{DeleteUndeclared: true}).String(), "- namespace "+tenant+"/events", "- namespace "+tenant+"/gone")
			deleted := plan(t, c, less, topology.Options{DeleteUndeclared: true})
			if !applied(t, deleted) {
				return
			}
			if second := plan(t, c, less, topology.Options{DeleteUndeclared: true}); !second.Empty() {
				t.Errorf("a second plan is not empty:\n%s", second)
			}
			contains(t, deleted.String(), "- subscriptions.audit: exists -> not set", "- topic persistent://"+tenant+"/events/old (holds 0B, no subscriptions)",
				"- topic non-persistent://"+tenant+"/events/ticks", "- topic persistent://"+tenant+"/gone/x", "- namespace "+tenant+"/gone\n",
				"0 to create or set, 0 to change, 5 to delete or unset")
			have := read(t, c, tenant)
			contains(t, have, "billing", "alice")
			for _, gone := range []string{"old", "ticks", "gone", "audit", "bob"} {
				if strings.Contains(have, gone) {
					t.Errorf("%s is still there:\n%s", gone, have)
				}
			}
		})
	}
}

// TestWayBack: what was read before a change is the way back from it.
func TestWayBack(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			c := start(t).client(t)
			tenant := tenantName(t, c)
			n := topology.Namespace{
				Policies: topology.Policies{TTL: topology.Hour},
				Topics:   map[string]topology.Topic{"orders": {Partitions: 2, Policies: topology.Policies{MaxConsumers: 3}}},
			}
			apply(t, c, one(tenant, n), topology.Options{})
			before, err := topology.Read(t.Context(), c, tenant)
			if err != nil {
				t.Fatal(err)
			}
			text := read(t, c, tenant)
			apply(t, c, one(tenant, topology.Namespace{
				Policies: topology.Policies{TTL: topology.Day, MaxProducers: 9, Reset: []string{"maxConsumers"}},
				Topics: map[string]topology.Topic{
					"orders": {
						Partitions: 2, Policies: topology.Policies{Deduplication: topology.On, Reset: []string{"maxConsumers"}},
						Permissions: map[string][]string{"x": {"consume"}}, Subscriptions: map[string]topology.Subscription{"s": {}},
					},
					"new": {},
				},
			}), topology.Options{})
			back := apply(t, c, before, topology.Options{ResetUndeclared: true, DeleteUndeclared: true})
			contains(t, back, "~ ttl: 1d -> 1h", "- maxProducers: 9 -> not set", "+ maxConsumers: 3", "- deduplication: on -> not set", "- permissions.x",
				"- subscriptions.s", "/events/new")
			if after := read(t, c, tenant); after != text {
				t.Errorf("it was\n%s\nand is\n%s", text, after)
			}
		})
	}
}

// TestDropInUse: what is in use is not deleted; Pulsar's own namespaces never.
func TestDropInUse(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			c := s.client(t)
			tenant := tenantName(t, c)
			want := events(tenant, map[string]topology.Topic{"orders": {}})
			apply(t, c, want, topology.Options{})
			p, err := pulsarx.NewProducer(t.Context(), c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: tenant + "/events/orders"})
			if err != nil {
				t.Fatal(err)
			}
			drop, err := topology.NewDropPlan(t.Context(), c, want)
			if err != nil {
				t.Fatal(err)
			}
			err = drop.Apply(t.Context())
			var applied *topology.ApplyError
			if !errors.Is(err, topology.ErrRefused) || !errors.As(err, &applied) || len(applied.NotDone) != 2 {
				t.Errorf("a topic in use was deleted: %v", err)
			}
			if err := p.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the producer to be gone", func() bool { return !errors.Is(drop.Apply(t.Context()), topology.ErrRefused) })
			own := topology.Topology{Tenants: map[string]topology.Tenant{"public": {Namespaces: map[string]topology.Namespace{"default": {}}}}}
			if drop, err = topology.NewDropPlan(t.Context(), c, own); err != nil || len(drop.Refusals) != 1 || len(drop.Changes) != 0 {
				t.Errorf("%v\n%v", err, drop)
			}
			if _, err := topology.Read(t.Context(), c, tenant+"x"); !errors.Is(err, topology.ErrNotFound) {
				t.Error(err)
			}
		})
	}
}

// front is a server before the real one that answers some requests itself.
func front(tb testing.TB, s server, answer func(w http.ResponseWriter, r *http.Request) bool) *pulsarx.Client {
	tb.Helper()
	target, err := url.Parse(s.admin)
	if err != nil {
		tb.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	transport := &http.Transport{}
	proxy.Transport, proxy.ErrorLog = transport, log.New(io.Discard, "", 0) // tests end requests
	proxied := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answer(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	tb.Cleanup(func() { proxied.Close(); transport.CloseIdleConnections() })
	return clientOf(tb, s.url, proxied.URL)
}

// TestUnsupported: a policy that a server does not know, or does not show, is not the same as one that is not set.
func TestUnsupported(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			for status, says := range map[int]string{
				http.StatusNotFound: "know", http.StatusMethodNotAllowed: "know", http.StatusNotImplemented: "know",
				http.StatusUnauthorized: "show",
			} {
				c := front(t, s, func(w http.ResponseWriter, r *http.Request) bool {
					unknown := strings.HasSuffix(r.URL.Path, "/deduplicationEnabled") || strings.HasSuffix(r.URL.Path, "/antiAffinity")
					if unknown {
						http.Error(w, "no such thing", status)
					}
					return unknown
				})
				tenant := tenantName(t, c)
				plain := events(tenant, map[string]topology.Topic{"orders": {}})
				apply(t, c, plain, topology.Options{ResetUndeclared: true})
				have := read(t, c, tenant)
				contains(t, have, "orders")
				want := events(tenant, map[string]topology.Topic{"orders": {Policies: topology.Policies{Deduplication: topology.On}}})
				contains(t, plan(t, c, want, topology.Options{}).String(), "refused: topic persistent://"+tenant+"/events/orders: deduplication: the server does not "+says+" it",
					fmt.Sprint(status), "no such thing")
			}
		})
	}
}

// TestSettled: a policy that the server takes and does not keep is not done; Apply asks until it is there, or its context ends.
func TestSettled(t *testing.T) {
	s := inProcess(t)
	ctx, cancel := context.WithCancel(t.Context())
	var asked atomic.Int64
	c := front(t, s, func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/orders/deduplicationEnabled") {
			return false
		}
		if r.Method == http.MethodGet && asked.Add(1) == 5 {
			cancel()
		}
		return r.Method == http.MethodPost
	})
	want := events(tenantName(t, s.client(t)), map[string]topology.Topic{"orders": {Policies: topology.Policies{Deduplication: topology.On}}})
	err := plan(t, c, want, topology.Options{}).Apply(ctx)
	var applied *topology.ApplyError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &applied) || applied.Failed.Setting != "deduplication" || len(applied.NotDone) > 0 {
		t.Errorf("after %d questions: %v", asked.Load(), err)
	}
}

// TestTrouble: requests are tried again; what another made meanwhile is no error; what is refused is not tried again.
func TestTrouble(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			var requests, denied atomic.Int64
			var lost sync.Map
			c := front(t, s, func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/denied") {
					denied.Add(1)
					http.Error(w, `{"reason":"not yours"}`, http.StatusForbidden)
					return true
				}
				if requests.Add(1)%7 == 0 {
					http.Error(w, "later", http.StatusServiceUnavailable)
					return true
				}
				_, before := lost.LoadOrStore(r.Method+r.URL.Path, true)
				if r.Method == http.MethodGet || before {
					return false
				}
				forward(t, s, r) // it is done, but the answer is lost
				http.Error(w, "lost", http.StatusBadGateway)
				return true
			})
			tenant := tenantName(t, s.client(t))
			orders := topology.Topic{Partitions: 2, Subscriptions: map[string]topology.Subscription{"billing": {Replicated: topology.On}}}
			first := plan(t, c, events(tenant, map[string]topology.Topic{"orders": orders, "none": {}}), topology.Options{})
			if err := first.Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := first.Apply(t.Context()); err != nil { // all of it is there
				t.Error(err)
			}
			orders.Partitions, orders.Unkeyed = 3, true
			grow := plan(t, c, events(tenant, map[string]topology.Topic{"orders": orders}), topology.Options{})
			if err := errors.Join(grow.Apply(t.Context()), grow.Apply(t.Context())); err != nil {
				t.Error(err)
			}
			remove := plan(t, c, events(tenant, map[string]topology.Topic{"none": {}}), topology.Options{DeleteUndeclared: true})
			if err := errors.Join(remove.Apply(t.Context()), remove.Apply(t.Context())); err != nil || len(remove.Changes) != 1 {
				t.Errorf("%v\n%v", err, remove)
			}
			other := plan(t, c, events(tenant, map[string]topology.Topic{"late": {Partitions: 4}}), topology.Options{})
			apply(t, c, events(tenant, map[string]topology.Topic{"late": {Partitions: 2}}), topology.Options{})
			if err := other.Apply(t.Context()); !errors.Is(err, topology.ErrRefused) {
				t.Errorf("a topic that another made with other partitions: %v", err)
			}
			_, err := topology.NewPlan(t.Context(), c, one("denied", topology.Namespace{}), topology.Options{})
			if err == nil || denied.Load() != 1 || !strings.Contains(err.Error(), "tenant denied") || !strings.Contains(err.Error(), "not yours") {
				t.Errorf("%d requests: %v", denied.Load(), err)
			}
		})
	}
}

// TestAtOnce: several that apply the same declaration at the same time make it together.
func TestAtOnce(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			c := start(t).client(t)
			tenant := tenantName(t, c)
			want := one(tenant, topology.Namespace{
				Policies: topology.Policies{
					TTL: topology.Hour, Retention: &topology.Retention{Time: topology.Day, Size: topology.GiB}, MaxProducers: 5,
					BacklogSize: &topology.SizeQuota{Limit: topology.MiB},
				},
				Permissions: map[string][]string{"a": {"produce"}, "b": {"consume"}},
				Topics: map[string]topology.Topic{
					"orders": {
						Partitions: 4, Policies: topology.Policies{TTL: topology.Day, Deduplication: topology.On},
						Subscriptions: map[string]topology.Subscription{"billing": {DeadLetter: &topology.DeadLetter{}}},
					},
					"plain": {},
				},
			})
			var all sync.WaitGroup
			for range 4 {
				p := plan(t, c, want, topology.Options{})
				all.Go(func() {
					if err := p.Apply(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if second := plan(t, c, want, topology.Options{}); !second.Empty() {
				t.Errorf("a second plan is not empty:\n%s", second)
			}
		})
	}
}

// TestUnreachable: a client without an admin address is told at once, and one whose server is away when its context ends.
func TestUnreachable(t *testing.T) {
	for admin, says := range map[string]string{"": "AdminURL is missing", "http://127.0.0.1:1": "127.0.0.1:1"} {
		c := clientOf(t, "pulsar://127.0.0.1:1", admin)
		wait := time.Minute
		if admin != "" {
			wait = time.Second
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		_, err := topology.NewPlan(ctx, c, one("shop", topology.Namespace{}), topology.Options{})
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "tenant shop") {
			t.Error(err)
		}
		if admin == "" && ctx.Err() != nil {
			t.Error("a missing address was waited for")
		}
		cancel()
	}
}

// forward makes a request of the server behind, and drops the answer.
func forward(tb testing.TB, s server, r *http.Request) {
	tb.Helper()
	request := r.Clone(r.Context())
	request.URL, _ = url.Parse(s.admin + r.URL.RequestURI())
	request.RequestURI = ""
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		tb.Error(err)
		return
	}
	_ = answer.Body.Close()
}

// TestDeadLetterTopic: the declared topic is the one that pulsarx writes to, and its subscription keeps the letters.
func TestDeadLetterTopic(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			c := s.client(t)
			tenant := tenantName(t, c)
			apply(t, c, events(tenant, map[string]topology.Topic{"orders": {Partitions: 2, Subscriptions: map[string]topology.Subscription{
				"billing": {DeadLetter: &topology.DeadLetter{Policies: topology.Policies{Retention: &topology.Retention{Time: topology.Infinite}}}},
			}}}), topology.Options{})
			name := "persistent://" + tenant + "/events/orders"
			p, err := pulsarx.NewProducer(t.Context(), c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: name})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Send(t.Context(), "bad"); err != nil {
				t.Fatal(err)
			}
			if err := p.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			consumer, err := pulsarx.NewConsumer(t.Context(), c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{name}, Subscription: "billing"})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			done := make(chan error, 1)
			go func() {
				done <- consumer.Run(ctx, func(context.Context, []pulsarx.Message[string]) error { return pulsarx.Permanent(errors.New("bad")) })
			}()
			eventually(t, "the dead letter", func() bool { // before it, the writer's consumer may still hold the subscription
				var stats struct {
					Subscriptions map[string]struct{ MsgBacklog int }
				}
				err := c.Admin(t.Context(), "GET", "/persistent/"+tenant+"/events/orders-billing-DLQ/stats", nil, &stats)
				return err == nil && stats.Subscriptions["dead-letters"].MsgBacklog == 1
			})
			drain(t, c, name+"-billing-DLQ", "dead-letters", 1)
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			have, err := topology.Read(t.Context(), c, tenant)
			if err != nil {
				t.Fatal(err)
			}
			var topics []string
			for name := range have.Tenants[tenant].Namespaces["events"].Topics {
				topics = append(topics, name)
			}
			slices.Sort(topics)
			if !slices.Equal(topics, []string{"orders", "orders-billing-DLQ"}) {
				t.Error(topics)
			}
		})
	}
}

// TestWarnings: what is lost is said before.
func TestWarnings(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			c := s.client(t)
			tenant := tenantName(t, c)
			retained := func(r topology.Retention, o topology.Offload) topology.Policies {
				return topology.Policies{Retention: &r, Offload: &o}
			}
			for text, p := range map[string]topology.Policies{
				"no retention is set":                                         {Offload: &topology.Offload{Threshold: topology.GiB}},
				"but retention none deletes what is beyond it":                retained(topology.Retention{}, topology.Offload{Threshold: topology.GiB}),
				"but retention {time: 7d, size: infinite} deletes what":       retained(topology.Retention{Time: topology.Week}, topology.Offload{Threshold: topology.GiB}),
				"it keeps 1GiB, so that the threshold of 2GiB is not":         retained(topology.Retention{Size: topology.GiB}, topology.Offload{Threshold: 2 * topology.GiB}),
				"it keeps 1d, so that the threshold of 2d is not":             retained(topology.Retention{Time: topology.Day}, topology.Offload{ThresholdTime: 2 * topology.Day}),
				"the deletion lag of 2d is longer; retention: infinite keeps": retained(topology.Retention{Time: topology.Day}, topology.Offload{Threshold: 1, DeletionLag: 2 * topology.Day}),
				"": retained(topology.Retention{Time: topology.Infinite}, topology.Offload{Threshold: topology.GiB}),
				"backlogSize drops messages that no consumer has handled, at 1GiB": {BacklogSize: &topology.SizeQuota{Limit: topology.GiB, Policy: topology.EvictBacklog}},
			} {
				got := plan(t, c, one(tenant, topology.Namespace{Policies: p, Topics: map[string]topology.Topic{"orders": {}}}), topology.Options{})
				if text == "" && len(got.Warnings) > 0 || text != "" && (len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], text)) {
					t.Errorf("%q: %q", text, got.Warnings)
				}
			}
			many := plan(t, c, events(tenant, map[string]topology.Topic{"orders": {Partitions: 2000}}), topology.Options{})
			contains(t, many.String(), "2000 partitions: each costs")
			// What the cluster has counts too: a threshold that is declared beside a retention that is not.
			apply(t, c, one(tenant, topology.Namespace{Policies: topology.Policies{Retention: &topology.Retention{Time: topology.Day}}}), topology.Options{})
			have := plan(t, c, one(tenant, topology.Namespace{Policies: topology.Policies{Offload: &topology.Offload{Threshold: topology.GiB}}}), topology.Options{})
			contains(t, have.String(), "retention {time: 1d, size: infinite} deletes what")
		})
	}
}
