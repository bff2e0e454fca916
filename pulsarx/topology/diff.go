package topology

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/internal/admin"
)

// diff makes a plan.
type diff struct {
	*reader
	want    Topology
	options Options
	plan    *Plan
}

func newDiff(client *pulsarx.Client, t Topology, o Options) *diff {
	d := &diff{want: t, options: o, plan: &Plan{cluster: cluster{client}}}
	needed := map[[2]string]bool{}
	need := func(resource string, p declared) {
		for _, s := range settings {
			if s.routes[p.level()].get == "" {
				continue
			}
			// Retention, offload and quotas are compared with each other.
			related := s.name == "retention" || s.name == "offload"
			needed[[2]string{resource, s.name}] = o.ResetUndeclared || related || s.isSet(p) || slices.Contains(p.p.Reset, s.name)
		}
	}
	for tenant, declared := range t.Tenants {
		for local, n := range declared.Namespaces {
			n, _ = n.expanded()
			need(namespaceResource(tenant, local), n.declared())
			for _, domain := range []string{persistent, nonPersistent} {
				for topic, v := range n.topics(domain) {
					resource := topicResource(topicName{domain, tenant, local, topic})
					need(resource, v.declared())
					needed[[2]string{resource, subscriptions}] = v.Subscriptions != nil
				}
			}
		}
	}
	d.reader = newReader(client, func(resource, name string) bool { return needed[[2]string{resource, name}] })
	return d
}

func (d *diff) run(ctx context.Context) error {
	for cluster, policies := range inOrder(d.want.Isolation) {
		if err := d.isolationOf(ctx, cluster, policies); err != nil {
			return err
		}
	}
	for name, t := range inOrder(d.want.Tenants) {
		if err := d.tenantOf(ctx, name, t); err != nil {
			return err
		}
	}
	return nil
}

// add notes a change, unless old and new are the same.
func (d *diff) add(resource, setting, before, after string, run func(ctx context.Context, c cluster, last bool) error) {
	if before == after && setting != "" {
		return
	}
	action := Update
	switch {
	case before == "" && (setting != "" || after != gone):
		action = Create
	case after == "" || after == gone:
		action = Delete
	}
	if after == gone {
		after = ""
	}
	d.plan.Changes = append(d.plan.Changes, Change{action, resource, setting, before, after, &step{run}})
}

// gone in place of a new value deletes a resource.
const gone = "\x00"

func (d *diff) refuse(resource, format string, args ...any) {
	d.plan.Refusals = append(d.plan.Refusals, Refusal{resource, fmt.Sprintf(format, args...)})
}

func (d *diff) warn(resource, format string, args ...any) {
	d.plan.Warnings = append(d.plan.Warnings, resource+": "+fmt.Sprintf(format, args...))
}

// posted is a step of one request.
func posted(path string, body any) func(context.Context, cluster, bool) error {
	return func(ctx context.Context, c cluster, _ bool) error {
		return c.call(ctx, http.MethodPost, path, body, nil)
	}
}

// created is a step for what may have been made meanwhile, by the same or another hand.
func created(path string, body any) func(context.Context, cluster, bool) error {
	return func(ctx context.Context, c cluster, _ bool) error {
		err := c.call(ctx, http.MethodPut, path, body, nil)
		if admin.Status(err) == http.StatusConflict {
			return nil
		}
		return err
	}
}

// deleted is a step for what may be gone already.
func deleted(path string) func(context.Context, cluster, bool) error {
	return func(ctx context.Context, c cluster, _ bool) error {
		err := c.call(ctx, http.MethodDelete, path, nil, nil)
		if admin.Status(err) == http.StatusNotFound {
			return nil
		}
		return err
	}
}

func (d *diff) isolationOf(ctx context.Context, cluster string, want map[string]Isolation) error {
	have, err := d.isolation(ctx, cluster)
	if err != nil {
		return err
	}
	for name, policy := range inOrder(want) {
		before, after := "", text(policy.withDefaults())
		if existing, found := have[name]; found {
			before = text(existing)
		}
		d.add("cluster "+cluster, "isolation."+name, before, after, posted(isolationPath(cluster)+admin.Path(name), policy.wire()))
	}
	return nil
}

func (d *diff) tenantOf(ctx context.Context, name string, want Tenant) error {
	have, err := d.tenant(ctx, name)
	if err != nil {
		return err
	}
	if have == nil {
		err = d.createTenant(ctx, name, want)
	} else {
		d.changeTenant(name, want, *have)
	}
	if err != nil {
		return err
	}
	for local, n := range inOrder(want.Namespaces) {
		if err := d.namespaceOf(ctx, name, local, n, have != nil); err != nil {
			return err
		}
	}
	if !d.options.DeleteUndeclared || have == nil || want.Namespaces == nil {
		return nil
	}
	all, err := d.namespaces(ctx, name)
	if err != nil {
		return err
	}
	for _, local := range all {
		if _, declared := want.Namespaces[local]; !declared && !own(name, local) {
			if err := d.deleteNamespace(ctx, name, local); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *diff) createTenant(ctx context.Context, name string, want Tenant) (err error) {
	clusters := want.Clusters
	if len(clusters) == 0 {
		if clusters, err = d.clusters(ctx); err != nil {
			return err
		}
	}
	body := wireTenant{names(want.Admins), names(clusters)}
	d.add("tenant "+name, "", "", "clusters "+text(body.Clusters)+", admins "+text(body.Admins), created(admin.Path("tenants", name), body))
	return nil
}

func (d *diff) changeTenant(name string, want, have Tenant) {
	resource, path := "tenant "+name, admin.Path("tenants", name)
	after := wireTenant{have.Admins, have.Clusters}
	if want.Admins != nil {
		after.Admins = names(want.Admins)
	}
	if want.Clusters != nil {
		after.Clusters = names(want.Clusters)
	}
	d.add(resource, "admins", text(have.Admins), text(after.Admins), posted(path, after))
	d.add(resource, "clusters", text(have.Clusters), text(after.Clusters), posted(path, after))
}

// clusters are all but the one that stands for configuration.
func (d *diff) clusters(ctx context.Context) ([]string, error) {
	var all []string
	if err := d.call(ctx, http.MethodGet, "/clusters", nil, &all); err != nil {
		return nil, fmt.Errorf("clusters: %w", err)
	}
	return slices.DeleteFunc(all, func(c string) bool { return c == "global" }), nil
}

func (d *diff) namespaceOf(ctx context.Context, tenant, local string, want Namespace, exists bool) error {
	want, _ = want.expanded() // Validate has seen the errors
	resource, base := namespaceResource(tenant, local), admin.Path("namespaces", tenant, local)
	var have *Namespace
	var auth grants
	var err error
	if exists {
		if have, auth, err = d.namespace(ctx, tenant, local); err != nil {
			return err
		}
	}
	if exists = have != nil; !exists {
		have = &Namespace{}
		d.add(resource, "", "", "", created(base, nil))
	}
	d.policiesOf(resource, base, want.declared(), have.declared(), !exists)
	d.permissionsOf(resource, base, want.Permissions, have.Permissions)
	for _, loss := range losses(d.effective(want.declared(), have.declared())) {
		d.warn(resource, "%s", loss)
	}
	if err := d.topicsOf(ctx, tenant, local, want, have, auth, exists); err != nil || !exists {
		return err
	}
	if !d.options.DeleteUndeclared || want.Topics == nil && want.NonPersistent == nil {
		return nil
	}
	all, err := d.topicNames(ctx, tenant, local)
	if err != nil {
		return err
	}
	for _, name := range all {
		if _, declared := want.topics(name.domain)[name.local]; !declared {
			if err := d.deleteTopic(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// topicsOf reads the declared topics side by side, and compares them in order.
func (d *diff) topicsOf(ctx context.Context, tenant, local string, want Namespace, have *Namespace, auth grants, exists bool) error {
	var all []topicName
	for _, domain := range []string{persistent, nonPersistent} {
		for name := range inOrder(want.topics(domain)) {
			all = append(all, topicName{domain, tenant, local, name})
		}
	}
	found := make([]*Topic, len(all))
	var mu sync.Mutex
	if exists {
		err := each(ctx, len(all), func(ctx context.Context, i int) error {
			t, err := d.topic(ctx, all[i])
			mu.Lock()
			defer mu.Unlock()
			found[i] = t
			return err
		})
		if err != nil {
			return err
		}
	}
	above := d.effective(want.declared(), have.declared())
	for i, name := range all {
		if err := d.topicOf(ctx, name, want.topics(name.domain)[name.local], found[i], auth.Topics[name.String()], above); err != nil {
			return err
		}
	}
	return nil
}

func (d *diff) topicOf(ctx context.Context, name topicName, want Topic, have *Topic, auth map[string][]string, above Policies) error {
	resource, base := topicResource(name), name.path()
	isNew := have == nil
	if isNew {
		have = &Topic{}
		d.createTopic(name, want)
	} else {
		if err := d.partitionsOf(ctx, name, want, have.Partitions); err != nil {
			return err
		}
	}
	d.policiesOf(resource, base, want.declared(), have.declared(), isNew)
	d.permissionsOf(resource, base, want.Permissions, auth)
	for _, loss := range losses(over(d.effective(want.declared(), have.declared()), above)) {
		if name.domain == persistent && !slices.Contains(losses(above), loss) { // the namespace's warning stands for its topics
			d.warn(resource, "%s", loss)
		}
	}
	d.subscriptionsOf(name, want, have.Subscriptions)
	return nil
}

// policiesOf compares what is declared, what is to be reset, and, where told, the rest.
func (d *diff) policiesOf(resource, base string, want, have declared, isNew bool) {
	for _, s := range settings {
		if s.routes[want.level()].get == "" {
			continue
		}
		before := s.unset
		switch {
		case s.isSet(have):
			before = s.text(have)
		case isNew && s.isSet(want) && s.text(want) != s.unset:
			before = ""
		}
		switch reason, unknown := d.unknown[[2]string{resource, s.name}]; {
		case s.isSet(want) && unknown:
			d.refuse(resource, "%s: %s", s.name, reason)
		case s.isSet(want):
			d.add(resource, s.name, before, s.text(want), setStep(base, s, want))
		case unknown || before == s.unset || !s.unsettable(want.level()):
		case d.options.ResetUndeclared || slices.Contains(want.p.Reset, s.name):
			d.add(resource, s.name, before, s.unset, unsetStep(base, s, want.empty()))
		}
	}
}

func setStep(base string, s setting, want declared) func(context.Context, cluster, bool) error {
	return func(ctx context.Context, c cluster, last bool) error {
		if err := c.set(ctx, base, s, want, last); err != nil {
			return err
		}
		return c.settled(ctx, base, s, want)
	}
}

func unsetStep(base string, s setting, nothing declared) func(context.Context, cluster, bool) error {
	return func(ctx context.Context, c cluster, _ bool) error {
		if err := c.unset(ctx, base, s, nothing.level()); err != nil {
			return err
		}
		return c.settled(ctx, base, s, nothing)
	}
}

func (d *diff) permissionsOf(resource, base string, want, have map[string][]string) {
	for role, may := range inOrder(want) {
		before := ""
		if len(have[role]) > 0 {
			before = list(names(have[role]))
		}
		d.add(resource, "permissions."+role, before, list(names(may)), posted(base+admin.Path("permissions", role), names(may)))
	}
	for role, may := range inOrder(have) {
		if _, declared := want[role]; !declared && d.options.ResetUndeclared {
			d.add(resource, "permissions."+role, list(names(may)), "", deleted(base+admin.Path("permissions", role)))
		}
	}
}

func (d *diff) subscriptionsOf(name topicName, want Topic, have map[string]Subscription) {
	resource := topicResource(name)
	for sub, s := range inOrder(want.Subscriptions) {
		path := subscriptionPath(name, sub)
		existing, found := have[sub]
		if !found {
			start := "from the oldest message"
			if s.Latest {
				start = "from the next message"
			}
			d.add(resource, "subscriptions."+sub, "", start, created(path, messageID(s.Latest)))
		}
		if s.Replicated != 0 {
			before := ""
			if found || s.Replicated == Off {
				before = switchOf(existing.Replicated > 0).String()
			}
			d.add(resource, "subscriptions."+sub+".replicated", before, s.Replicated.String(),
				posted(path+"/replicatedSubscriptionStatus", s.Replicated > 0))
		}
	}
	if !d.options.DeleteUndeclared || want.Subscriptions == nil {
		return
	}
	for sub := range inOrder(have) {
		if _, declared := want.Subscriptions[sub]; !declared {
			d.add(resource, "subscriptions."+sub, "exists", "", deleted(subscriptionPath(name, sub)))
		}
	}
}

// messageID is where a new subscription begins: Pulsar's earliest or latest.
func messageID(latest bool) map[string]int64 {
	if latest {
		const last = 1<<63 - 1
		return map[string]int64{"ledgerId": last, "entryId": last, "partitionIndex": -1}
	}
	return map[string]int64{"ledgerId": -1, "entryId": -1, "partitionIndex": -1}
}

// effective are the policies when the plan is done.
func (d *diff) effective(want, have declared) Policies {
	p := *have.p
	for _, s := range settings {
		switch {
		case s.routes[topicLevel].get == "":
		case s.isSet(want):
			s.copy(declared{p: &p}, want)
		case d.options.ResetUndeclared || slices.Contains(want.p.Reset, s.name):
			s.clear(declared{p: &p})
		}
	}
	return p
}

// over is what applies to a topic: its own policies, else its namespace's.
func over(topic, namespace Policies) Policies {
	for _, s := range settings {
		if s.routes[topicLevel].get != "" && !s.isSet(declared{p: &topic}) {
			s.copy(declared{p: &topic}, declared{p: &namespace})
		}
	}
	return topic
}

// losses are the messages that are lost by these policies though somebody may count on them.
func losses(p Policies) []string {
	var all []string
	if q := p.BacklogSize; q != nil && q.Policy == EvictBacklog {
		all = append(all, fmt.Sprintf("backlogSize drops messages that no consumer has handled, at %s", q.Limit))
	}
	if q := p.BacklogAge; q != nil && q.Policy == EvictBacklog {
		all = append(all, fmt.Sprintf("backlogAge drops messages that no consumer has handled, after %s", q.Limit))
	}
	o := p.Offload
	if o == nil || o.Threshold <= 0 && o.ThresholdTime <= 0 {
		return all
	}
	if p.Retention == nil {
		return append(all, "messages are offloaded, but no retention is set: unless the broker's default keeps them, they are deleted when they are "+
			"acknowledged, offloaded ones too; retention: infinite keeps them")
	}
	r := p.Retention.full()
	if r == (Retention{Infinite, Infinite}) {
		return all
	}
	reasons := []string{fmt.Sprintf("messages are offloaded, but retention %s deletes what is beyond it, offloaded or not", text(r))}
	if r.Size > 0 && o.Threshold >= r.Size {
		reasons = append(reasons, fmt.Sprintf("it keeps %s, so that the threshold of %s is not reached", r.Size, o.Threshold))
	}
	if r.Time > 0 && o.ThresholdTime >= r.Time {
		reasons = append(reasons, fmt.Sprintf("it keeps %s, so that the threshold of %s is not reached", r.Time, o.ThresholdTime))
	}
	if r.Time > 0 && o.DeletionLag >= r.Time {
		reasons = append(reasons, fmt.Sprintf("the deletion lag of %s is longer", o.DeletionLag))
	}
	return append(all, strings.Join(reasons, "; ")+"; retention: infinite keeps them")
}
