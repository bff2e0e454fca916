package topology

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/pulsarx/internal/topicname"
)

// Validate checks the declaration, without asking a cluster, and returns all that is wrong with it, each with its path.
func (t Topology) Validate() error {
	c := &check{}
	for name, tenant := range inOrder(t.Tenants) {
		c.in("tenants."+name, func() { c.tenant(name, tenant) })
	}
	for cluster, policies := range inOrder(t.Isolation) {
		for name, policy := range inOrder(policies) {
			c.in("isolation."+cluster+"."+name, func() { c.isolation(cluster, name, policy) })
		}
	}
	return errors.Join(c.errs...)
}

// inOrder yields a map by its sorted keys.
func inOrder[V any](m map[string]V) func(func(string, V) bool) {
	return func(yield func(string, V) bool) {
		for _, name := range sorted(m) {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}

// check collects what is wrong, and knows where it is.
type check struct {
	path string
	errs []error
}

func (c *check) in(part string, f func()) {
	before := c.path
	c.path += part + "."
	f()
	c.path = before
}

func (c *check) fail(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("topology: %s%w", c.path, fmt.Errorf(format, args...)))
}

// Pulsar's NamedEntity, and what cannot stand in a topic's name.
var entity = regexp.MustCompile(`^[-=:.\w]+$`)

const maxPartitions = 10_000

func (c *check) name(name string) {
	c.step("name", name)
	if !entity.MatchString(name) {
		c.fail("name: %q may have letters, digits and -=:._ only", name)
	}
}

// step refuses names that the path of a request cannot hold: servers and proxies take them for this folder and the one above.
func (c *check) step(field, name string) {
	if name == "." || name == ".." {
		c.fail("%s: %q cannot stand in a URL", field, name)
	}
}

func (c *check) topicName(name string) {
	c.step("name", name)
	_, partition := topicname.SplitPartition(name)
	switch {
	case name == "" || strings.ContainsAny(name, "/\x00") || strings.TrimSpace(name) != name:
		c.fail("name: %q is no topic's local name, without tenant and namespace", name)
	case partition >= 0:
		c.fail("name: %q is one partition's; declare the topic", name)
	case strings.HasPrefix(name, "__"):
		c.fail("name: %q is the system's", name)
	}
}

func (c *check) tenant(name string, t Tenant) {
	c.name(name)
	c.blank("admins", t.Admins)
	c.blank("clusters", t.Clusters)
	for name, n := range inOrder(t.Namespaces) {
		c.in("namespaces."+name, func() { c.namespace(name, n) })
	}
}

func (c *check) namespace(name string, n Namespace) {
	c.name(name)
	expanded, errs := n.expanded()
	for _, err := range errs {
		c.fail("%w", err)
	}
	c.policies(n.declared())
	c.permissions(n.Permissions)
	if a := n.AutoTopicCreation; a != nil && (a.Partitions < 0 || a.Disabled && a.Partitions > 0) {
		c.fail("autoTopicCreation: partitions is %d", a.Partitions)
	}
	if n.BookieAffinity != nil && n.BookieAffinity.Primary == "" {
		c.fail("bookieAffinity.primary is missing")
	}
	c.blank("allowedClusters", n.AllowedClusters)
	for _, cluster := range n.ReplicationClusters {
		if len(n.AllowedClusters) > 0 && !slices.Contains(n.AllowedClusters, cluster) {
			c.fail("replicationClusters: %s is none of allowedClusters", cluster)
		}
	}
	for name, t := range inOrder(expanded.Topics) {
		c.in("topics."+name, func() { c.topic(name, t) })
	}
	for name, t := range inOrder(n.NonPersistent) {
		c.in("nonPersistent."+name, func() { c.nonPersistent(name, t) })
	}
}

func (c *check) topic(name string, t Topic) {
	c.topicName(name)
	if t.Partitions < 0 || t.Partitions > maxPartitions {
		c.fail("partitions is %d, want 0 to %d", t.Partitions, maxPartitions)
	}
	if t.Partitions > 0 && strings.Contains(name, topicname.PartitionSuffix) {
		c.fail("name: %q is no name of a topic with partitions", name)
	}
	c.policies(t.declared())
	c.permissions(t.Permissions)
	for name, s := range inOrder(t.Subscriptions) {
		c.in("subscriptions."+name, func() {
			c.step("name", name)
			if name == "" || strings.HasPrefix(name, "__") || strings.HasPrefix(name, "pulsar.") {
				c.fail("name: %q is no subscription's, or the system's", name)
			}
			if s.DeadLetter != nil && strings.HasPrefix(s.DeadLetter.Subscription, "__") {
				c.fail("deadLetter.subscription: %q is the system's", s.DeadLetter.Subscription)
			}
		})
	}
}

func (c *check) nonPersistent(name string, t Topic) {
	c.topic(name, t)
	if t.Partitions == 0 {
		c.fail("partitions is 0: Pulsar keeps no record of a non-persistent topic without partitions, which needs no declaration")
	}
	if len(t.Subscriptions) > 0 {
		c.fail("subscriptions: those of a non-persistent topic exist while a consumer is connected")
	}
	for _, s := range settings {
		if !s.nonPersistent && s.routes[topicLevel].get != "" && s.isSet(t.declared()) {
			c.fail("%s: means nothing where no message is stored", s.name)
		}
	}
}

func (c *check) blank(field string, names []string) {
	for i, name := range names {
		if strings.TrimSpace(name) == "" {
			c.fail("%s[%d] is empty", field, i)
		}
	}
}

var actions = []string{"produce", "consume", "functions", "sources", "sinks", "packages"}

func (c *check) permissions(p map[string][]string) {
	for role, may := range inOrder(p) {
		c.step("permissions", role)
		if role == "" {
			c.fail("permissions: a role is empty")
		}
		if len(may) == 0 {
			c.fail("permissions.%s is empty", role)
		}
		for _, action := range may {
			if !slices.Contains(actions, action) {
				c.fail("permissions.%s: %q is none of %s", role, action, strings.Join(actions, ", "))
			}
		}
	}
}

// whole checks a limit that Pulsar keeps in a larger unit, in no more than 32 bits where it says so.
func (c *check) whole(field string, n, unit, most int64) {
	switch {
	case n < -1:
		c.fail("%s is negative", field)
	case n > 0 && n%unit != 0:
		c.fail("%s: Pulsar keeps whole %v", field, unitName(unit))
	case n/unit > most:
		c.fail("%s is more than Pulsar keeps", field)
	}
}

func unitName(unit int64) string {
	return map[int64]string{int64(Second): "seconds", int64(Minute): "minutes", int64(Millisecond): "milliseconds", int64(MiB): "MiB"}[unit]
}

func (c *check) policies(d declared) {
	p := d.p
	c.reset(d)
	c.retention(p)
	c.whole("ttl", int64(p.TTL), int64(Second), math.MaxInt32)
	if s := p.SchemaCompatibility; s != "" && !slices.Contains(strategies, s) {
		c.fail("schemaCompatibility: %q is none of %v", s, strategies)
	}
	if p.Offload != nil {
		c.in("offload", func() { c.offload(*p.Offload, d.level()) })
	}
	if q := p.Persistence; q != nil && (q.AckQuorum < 1 || q.WriteQuorum < q.AckQuorum || q.Ensemble < q.WriteQuorum) {
		c.fail("persistence: want ensemble >= writeQuorum >= ackQuorum >= 1, not %d, %d, %d", q.Ensemble, q.WriteQuorum, q.AckQuorum)
	}
	if q := p.Persistence; q != nil && !(q.MarkDeleteRate >= 0 && q.MarkDeleteRate <= math.MaxInt32) { // no NaN either
		c.fail("persistence.markDeleteRate is %v", q.MarkDeleteRate)
	}
	c.rates(p)
	if v := p.DelayedDelivery; v != nil {
		c.whole("delayedDelivery.tick", int64(v.Tick), int64(Millisecond), math.MaxInt64)
		c.whole("delayedDelivery.max", int64(v.Max), int64(Millisecond), math.MaxInt64)
	}
	if v := p.InactiveTopics; v != nil {
		c.whole("inactiveTopics.after", int64(v.After), int64(Second), math.MaxInt32)
		if v.After <= 0 && !v.Keep {
			c.fail("inactiveTopics.after is missing")
		}
	}
	c.blank("replicationClusters", p.ReplicationClusters)
	for _, field := range []struct {
		name string
		n    int64
		most int64
	}{
		{"compactionThreshold", int64(p.CompactionThreshold), math.MaxInt64},
		{"maxProducers", int64(p.MaxProducers), math.MaxInt32},
		{"maxConsumers", int64(p.MaxConsumers), math.MaxInt32},
		{"maxSubscriptions", int64(p.MaxSubscriptions), math.MaxInt32},
		{"maxUnackedPerConsumer", int64(p.MaxUnackedPerConsumer), math.MaxInt32},
		{"maxUnackedPerSubscription", int64(p.MaxUnackedPerSubscription), math.MaxInt32},
	} {
		c.whole(field.name, field.n, 1, field.most)
	}
	if d.n != nil {
		c.whole("maxTopics", int64(d.n.MaxTopics), 1, math.MaxInt32)
	}
}

func (c *check) reset(d declared) {
	for _, name := range d.p.Reset {
		s, found := known(name, d.level())
		switch {
		case !found:
			c.fail("reset: %q is no policy here", name)
		case !s.unsettable(d.level()):
			c.fail("reset: Pulsar knows no way back for %s", name)
		case s.isSet(d):
			c.fail("reset: %s is declared too", name)
		}
	}
}

func (c *check) retention(p *Policies) {
	limits := Retention{Infinite, Infinite}
	if r := p.Retention; r != nil {
		c.whole("retention.time", int64(r.Time), int64(Minute), math.MaxInt32)
		c.whole("retention.size", int64(r.Size), int64(MiB), math.MaxInt64)
		if *r != (Retention{}) {
			limits = r.full()
		}
	}
	if q := p.BacklogSize; q != nil {
		c.quota("backlogSize", int64(q.Limit), q.Policy, int64(limits.Size), 1)
	}
	if q := p.BacklogAge; q != nil {
		c.quota("backlogAge", int64(q.Limit), q.Policy, int64(limits.Time), int64(Second))
	}
}

func (c *check) quota(field string, n int64, policy QuotaPolicy, retained, unit int64) {
	c.whole(field+".limit", n, unit, math.MaxInt64)
	if n == 0 {
		c.fail("%s.limit is missing", field)
	}
	if retained > 0 && (n < 0 || n >= retained) {
		c.fail("%s.limit: Pulsar wants it below that of retention", field)
	}
	if known := []QuotaPolicy{"", HoldProducer, FailProducer, EvictBacklog}; !slices.Contains(known, policy) {
		c.fail("%s.policy: %q is none of %v", field, policy, known[1:])
	}
}

func (c *check) offload(o Offload, l level) {
	c.whole("threshold", int64(o.Threshold), 1, math.MaxInt64)
	c.whole("thresholdTime", int64(o.ThresholdTime), int64(Second), math.MaxInt64)
	c.whole("deletionLag", int64(o.DeletionLag), int64(Millisecond), math.MaxInt64)
	limits := Offload{Threshold: o.Threshold, ThresholdTime: o.ThresholdTime, DeletionLag: o.DeletionLag}
	switch {
	case o.Driver == "" && l == topicLevel:
		c.fail("driver is missing: a topic's policy is a whole one")
	case o.Driver == "" && o != limits:
		c.fail("driver is missing")
	case o.Driver == "" && (o == Offload{} || min(int64(o.Threshold), int64(o.ThresholdTime), int64(o.DeletionLag)) < 0):
		c.fail("without a driver, want finite limits, or reset: [offload]")
	case o.Driver != "" && !slices.Contains(offloadDrivers, o.Driver):
		c.fail("driver: %q is none of %s", o.Driver, strings.Join(offloadDrivers, ", "))
	case o.Driver != "" && o.Driver != "filesystem" && o.Bucket == "":
		c.fail("bucket is missing")
	}
	if r := o.ReadPriority; r != "" && r != "tiered-storage-first" && r != "bookkeeper-first" {
		c.fail("readPriority: %q is neither tiered-storage-first nor bookkeeper-first", r)
	}
}

func (c *check) rates(p *Policies) {
	if r := p.PublishRate; r != nil {
		c.rate("publishRate", r.Messages, r.Bytes, 0)
	}
	for name, r := range inOrder(map[string]*Rate{
		"dispatchRate": p.DispatchRate, "subscriptionDispatchRate": p.SubscriptionDispatchRate,
		"replicatorDispatchRate": p.ReplicatorDispatchRate,
	}) {
		if r != nil {
			c.rate(name, r.Messages, r.Bytes, r.Period)
		}
	}
	if r := p.SubscribeRate; r != nil {
		if r.PerConsumer < 1 {
			c.fail("subscribeRate.perConsumer is %d", r.PerConsumer)
		}
		c.whole("subscribeRate.period", int64(max(r.Period, -2)), int64(Second), math.MaxInt32)
	}
}

func (c *check) rate(field string, messages int64, bytes Size, period Duration) {
	if messages < 0 || messages > math.MaxInt32 || bytes < 0 {
		c.fail("%s: want messages up to %d, and bytes, or 0 for no bound", field, math.MaxInt32)
	}
	c.whole(field+".period", int64(period), int64(Second), math.MaxInt32)
	if period < 0 {
		c.fail("%s.period is infinite", field)
	}
}

func (c *check) isolation(cluster, name string, i Isolation) {
	c.name(cluster)
	c.name(name)
	for field, expressions := range inOrder(map[string][]string{
		"namespaces": i.Namespaces, "primary": i.Primary, "secondary": i.Secondary,
	}) {
		if len(expressions) == 0 && field != "secondary" {
			c.fail("%s is empty", field)
		}
		c.blank(field, expressions)
	}
	if i.MinAvailable < 0 || i.UsageThreshold < 0 || i.UsageThreshold > 100 {
		c.fail("want minAvailable >= 0 and usageThreshold from 0 to 100, not %d and %d", i.MinAvailable, i.UsageThreshold)
	}
}
