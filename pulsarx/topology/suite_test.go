package topology_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
	"github.com/tidemark-go/tidemark/pulsarx/topology"
)

// server is what a test runs against.
type server struct{ url, admin string }

// servers are the in-process broker, and the real Pulsar where PULSAR_URL is set.
var servers = map[string]func(testing.TB) server{"pulsartest": inProcess, "pulsar": realPulsar}

func inProcess(tb testing.TB) server {
	tb.Helper()
	broker, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { broker.Close() })
	return server{broker.URL(), broker.AdminURL()}
}

func realPulsar(tb testing.TB) server {
	tb.Helper()
	return server{servicetest.Env(tb, "PULSAR_URL"), servicetest.Env(tb, "PULSAR_ADMIN_URL")}
}

func (s server) client(tb testing.TB) *pulsarx.Client {
	tb.Helper()
	return clientOf(tb, s.url, s.admin)
}

func clientOf(tb testing.TB, url, admin string) *pulsarx.Client {
	tb.Helper()
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: url, AdminURL: admin})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// tenantName is one of the test's own; what is in it is dropped afterwards.
func tenantName(tb testing.TB, c *pulsarx.Client) string {
	tb.Helper()
	name := fmt.Sprintf("topology-%d-%d", os.Getpid(), time.Now().UnixNano())
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var namespaces []string
		if err := c.Admin(ctx, "GET", "/namespaces/"+name, nil, &namespaces); err != nil {
			var refused *pulsarx.AdminError
			if !errors.As(err, &refused) || refused.Status != 404 {
				tb.Error(err)
			}
			return // the test has dropped it, or never made it
		}
		all := topology.Topology{
			Tenants: map[string]topology.Tenant{name: {Namespaces: map[string]topology.Namespace{}}},
			Isolation: map[string]map[string]topology.Isolation{
				"standalone": {name + "-policy": {Namespaces: []string{"x"}, Primary: []string{"x"}}},
			},
		}
		for _, namespace := range namespaces {
			all.Tenants[name].Namespaces[strings.TrimPrefix(namespace, name+"/")] = topology.Namespace{}
		}
		drop, err := topology.NewDropPlan(ctx, c, all)
		if err == nil {
			err = drop.Apply(ctx)
		}
		if err != nil { // on a busy machine Pulsar 4.0.8 may take longer than a test should
			tb.Logf("dropping %s: %v", name, err)
		}
	})
	return name
}

func plan(tb testing.TB, c *pulsarx.Client, t topology.Topology, o topology.Options) *topology.Plan {
	tb.Helper()
	p, err := topology.NewPlan(tb.Context(), c, t, o)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// apply plans and applies, and expects that nothing is left to do.
func apply(tb testing.TB, c *pulsarx.Client, t topology.Topology, o topology.Options) string {
	tb.Helper()
	p := plan(tb, c, t, o)
	if err := p.Apply(tb.Context()); err != nil {
		tb.Fatalf("%v\n%s", err, p)
	}
	if second := plan(tb, c, t, o); !second.Empty() {
		tb.Fatalf("a second plan is not empty:\n%s", second)
	}
	return p.String()
}

// applied applies a plan, and says whether it is done. On a busy machine Pulsar 4.0.8 hangs now and then when it deletes a namespace,
// as doc.go says; that is no failure of this package.
func applied(tb testing.TB, p *topology.Plan) bool {
	tb.Helper()
	err := p.Apply(tb.Context())
	var stopped *topology.ApplyError
	if errors.As(err, &stopped) && strings.HasPrefix(stopped.Failed.String(), "- namespace ") && !errors.Is(err, topology.ErrRefused) {
		tb.Logf("the server hangs: %v", err)
		return false
	}
	if err != nil {
		tb.Fatalf("%v\n%s", err, p)
	}
	return true
}

// one is a declaration of one namespace, tenant/events.
func one(tenant string, n topology.Namespace) topology.Topology {
	return topology.Topology{Tenants: map[string]topology.Tenant{tenant: {Namespaces: map[string]topology.Namespace{"events": n}}}}
}

func contains(tb testing.TB, text string, parts ...string) {
	tb.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			tb.Errorf("%q is not in\n%s", part, text)
		}
	}
}
