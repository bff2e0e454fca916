package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/internal/admin"
	"github.com/tidemark-go/tidemark/pulsarx/internal/topicname"
)

// Read returns what the cluster has, as a declaration: of the tenants named, or of all. Planning it changes nothing; written as YAML
// it is where a cluster that exists begins to be declared. Policies that are not set, that the server does not know, or that it does
// not show to this client (bookieAffinity to none but superusers), are absent. So are the system's own topics and subscriptions,
// credentials of an offload, isolation policies where tenants are named, non-persistent topics without partitions, which exist only
// while they are used, and what Topic.Unkeyed and Subscription.Latest say.
func Read(ctx context.Context, client *pulsarx.Client, tenants ...string) (Topology, error) {
	asked := Topology{Tenants: map[string]Tenant{}}
	for _, name := range tenants {
		asked.Tenants[name] = Tenant{}
	}
	if err := asked.Validate(); err != nil {
		return Topology{}, err
	}
	r := newReader(client, everything)
	var t Topology
	var err error
	if len(tenants) == 0 {
		if _, err = r.get(ctx, "/tenants", &tenants); err == nil {
			err = r.allIsolation(ctx, &t)
		}
	}
	if err != nil {
		return Topology{}, fmt.Errorf("topology: tenants: %w", err)
	}
	t.Tenants = map[string]Tenant{}
	for _, name := range tenants {
		tenant, err := r.wholeTenant(ctx, name)
		if err != nil {
			return Topology{}, fmt.Errorf("topology: %w", err)
		}
		if tenant == nil {
			return Topology{}, fmt.Errorf("topology: %w: tenant %s", ErrNotFound, name)
		}
		t.Tenants[name] = *tenant
	}
	return t, nil
}

// wanted says whether a policy of a resource, or its subscriptions, are to be read.
type wanted func(resource, name string) bool

func everything(string, string) bool { return true }

const subscriptions = "subscriptions"

// reader reads what the cluster has.
type reader struct {
	cluster
	wanted wanted

	mu sync.Mutex
	// unknown has the reason for each resource and policy that the server does not know or show.
	unknown map[[2]string]string
}

func newReader(client *pulsarx.Client, w wanted) *reader {
	return &reader{cluster: cluster{client}, wanted: w, unknown: map[[2]string]string{}}
}

type wireTenant struct {
	Admins   []string `json:"adminRoles"`
	Clusters []string `json:"allowedClusters"`
}

// tenant is nil where there is none. Its namespaces are not read.
func (r *reader) tenant(ctx context.Context, name string) (*Tenant, error) {
	var w wireTenant
	found, err := r.get(ctx, admin.Path("tenants", name), &w)
	if err != nil {
		return nil, fmt.Errorf("tenant %s: %w", name, err)
	}
	if !found {
		return nil, nil
	}
	return &Tenant{Admins: names(w.Admins), Clusters: names(w.Clusters), Namespaces: map[string]Namespace{}}, nil
}

func (r *reader) wholeTenant(ctx context.Context, name string) (*Tenant, error) {
	t, err := r.tenant(ctx, name)
	if t == nil || err != nil {
		return t, err
	}
	namespaces, err := r.namespaces(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, local := range namespaces {
		n, err := r.wholeNamespace(ctx, name, local)
		if err != nil {
			return nil, err
		}
		if n != nil {
			t.Namespaces[local] = *n
		}
	}
	return t, nil
}

// namespaces are the local names of those that a tenant has.
func (r *reader) namespaces(ctx context.Context, tenant string) ([]string, error) {
	var all []string
	if _, err := r.get(ctx, admin.Path("namespaces", tenant), &all); err != nil {
		return nil, fmt.Errorf("namespaces of %s: %w", tenant, err)
	}
	for i, name := range all {
		all[i] = name[strings.LastIndexByte(name, '/')+1:]
	}
	slices.Sort(all)
	return all, nil
}

// grants are the permissions of a namespace and of its topics, which the topic's own route mixes with the namespace's.
type grants struct {
	Namespace map[string][]string            `json:"namespace_auth"`
	Topics    map[string]map[string][]string `json:"destination_auth"`
}

// namespace is nil where there is none. Its topics are not read; their permissions are in the grants.
func (r *reader) namespace(ctx context.Context, tenant, local string) (*Namespace, grants, error) {
	var w struct {
		Auth grants `json:"auth_policies"`
	}
	base := admin.Path("namespaces", tenant, local)
	found, err := r.get(ctx, base, &w)
	if err != nil || !found {
		return nil, w.Auth, wrap(err, "namespace "+tenant+"/"+local)
	}
	n := &Namespace{Permissions: w.Auth.Namespace, Topics: map[string]Topic{}, NonPersistent: map[string]Topic{}}
	err = r.policies(ctx, namespaceResource(tenant, local), base, n.declared())
	return n, w.Auth, wrap(err, "namespace "+tenant+"/"+local)
}

func wrap(err error, resource string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", resource, err)
}

func namespaceResource(tenant, local string) string { return "namespace " + tenant + "/" + local }

func topicResource(n topicName) string { return "topic " + n.String() }

// policies reads those that are wanted.
func (r *reader) policies(ctx context.Context, resource, base string, d declared) error {
	for _, s := range settings {
		if s.routes[d.level()].get == "" || !r.wanted(resource, s.name) {
			continue
		}
		err := r.read(ctx, base, s, d)
		var unknown unsupported
		switch {
		case errors.As(err, &unknown):
			r.mu.Lock()
			r.unknown[[2]string{resource, s.name}] = unknown.reason
			r.mu.Unlock()
		case err != nil:
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// wholeNamespace has its topics too. Settings that say no more than the default are left out.
func (r *reader) wholeNamespace(ctx context.Context, tenant, local string) (*Namespace, error) {
	n, auth, err := r.namespace(ctx, tenant, local)
	if n == nil || err != nil {
		return n, err
	}
	n.declared().dropDefaults()
	all, err := r.topicNames(ctx, tenant, local)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	return n, each(ctx, len(all), func(ctx context.Context, i int) error {
		t, err := r.topic(ctx, all[i])
		if t == nil || err != nil {
			return err
		}
		t.declared().dropDefaults()
		t.Permissions = auth.Topics[all[i].String()]
		mu.Lock()
		defer mu.Unlock()
		n.topics(all[i].domain)[all[i].local] = *t
		return nil
	})
}

func (d declared) dropDefaults() {
	for _, s := range settings {
		if s.unset != "" && s.routes[d.level()].get != "" && s.isSet(d) && s.text(d) == s.unset {
			s.clear(d)
		}
	}
}

// topicNames are the topics of a namespace that can be declared.
func (r *reader) topicNames(ctx context.Context, tenant, local string) ([]topicName, error) {
	found := map[topicName]bool{}
	for _, path := range []string{
		admin.Path(persistent, tenant, local, "partitioned"),
		admin.Path(nonPersistent, tenant, local, "partitioned"),
		admin.Path(persistent, tenant, local),
	} {
		var all []string
		if _, err := r.get(ctx, path, &all); err != nil {
			return nil, fmt.Errorf("topics of %s/%s: %w", tenant, local, err)
		}
		for _, full := range all {
			domain, rest, _ := strings.Cut(full, "://")
			name := topicName{domain, tenant, local, strings.TrimPrefix(rest, tenant+"/"+local+"/")}
			if !strings.HasPrefix(name.local, "__") && !found[name.whole()] {
				found[name] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b topicName) int { return cmp.Compare(a.String(), b.String()) }), nil
}

// whole is the topic that a partition's name is part of.
func (n topicName) whole() topicName {
	n.local, _ = topicname.SplitPartition(n.local)
	return n
}

// topic is nil where there is none.
func (r *reader) topic(ctx context.Context, name topicName) (*Topic, error) {
	var w struct{ Partitions int }
	found, err := r.get(ctx, name.path()+"/partitions", &w)
	if err != nil || !found {
		return nil, wrap(err, topicResource(name))
	}
	t := &Topic{Partitions: w.Partitions, Subscriptions: map[string]Subscription{}}
	if name.domain == nonPersistent {
		return t, wrap(r.policies(ctx, topicResource(name), name.path(), t.declared()), topicResource(name))
	}
	if w.Partitions == 0 {
		// Of a topic without partitions there is no record but the topic itself: old servers answer 0 for any name.
		if found, err = r.get(ctx, name.path()+"/subscriptions", nil); err != nil || !found {
			return nil, wrap(err, topicResource(name))
		}
	}
	if err := r.policies(ctx, topicResource(name), name.path(), t.declared()); err != nil {
		return nil, wrap(err, topicResource(name))
	}
	if !r.wanted(topicResource(name), subscriptions) {
		return t, nil
	}
	return t, wrap(r.subscriptions(ctx, name, t), topicResource(name))
}

func (r *reader) subscriptions(ctx context.Context, name topicName, t *Topic) error {
	var all []string
	if _, err := r.get(ctx, name.path()+"/subscriptions", &all); err != nil {
		return err
	}
	for _, sub := range all {
		if strings.HasPrefix(sub, "__") || strings.HasPrefix(sub, "pulsar.") {
			continue
		}
		var s Subscription
		replicated := map[string]bool{}
		if _, err := r.get(ctx, subscriptionPath(name, sub)+"/replicatedSubscriptionStatus", &replicated); err != nil {
			return fmt.Errorf("subscription %s: %w", sub, err)
		}
		if len(replicated) > 0 && !slices.Contains(slices.Collect(maps.Values(replicated)), false) {
			s.Replicated = On
		}
		t.Subscriptions[sub] = s
	}
	return nil
}

// subscriptionPath escapes the name twice, since Pulsar takes the escapes out twice.
func subscriptionPath(name topicName, sub string) string {
	return name.path() + admin.Path("subscription", url.QueryEscape(sub))
}

// isolation are the policies of a cluster.
func (r *reader) isolation(ctx context.Context, cluster string) (map[string]Isolation, error) {
	wire := map[string]wireIsolation{}
	if _, err := r.get(ctx, isolationPath(cluster), &wire); err != nil {
		return nil, fmt.Errorf("isolation policies of %s: %w", cluster, err)
	}
	all := map[string]Isolation{}
	for name, w := range wire {
		i := Isolation{Namespaces: w.Namespaces, Primary: w.Primary, Secondary: w.Secondary}
		_, _ = fmt.Sscan(w.Failover.Parameters["min_limit"], &i.MinAvailable) // what is no number is not declared
		_, _ = fmt.Sscan(w.Failover.Parameters["usage_threshold"], &i.UsageThreshold)
		all[name] = i
	}
	return all, nil
}

func (r *reader) allIsolation(ctx context.Context, t *Topology) error {
	var clusters []string
	if _, err := r.get(ctx, "/clusters", &clusters); err != nil {
		return err
	}
	t.Isolation = map[string]map[string]Isolation{}
	for _, cluster := range clusters {
		all, err := r.isolation(ctx, cluster)
		if err != nil {
			return err
		}
		if len(all) > 0 {
			t.Isolation[cluster] = all
		}
	}
	return nil
}

func isolationPath(cluster string) string {
	return admin.Path("clusters", cluster, "namespaceIsolationPolicies")
}
