package topology

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// declared are the policies of a namespace, or of a topic, where n is nil.
type declared struct {
	p *Policies
	n *NamespacePolicies
}

func (n *Namespace) declared() declared { return declared{&n.Policies, &n.NamespacePolicies} }

func (t *Topic) declared() declared { return declared{p: &t.Policies} }

// level is where a policy is set.
type level int

const (
	namespaceLevel level = iota
	topicLevel
)

func (d declared) level() level {
	if d.n == nil {
		return topicLevel
	}
	return namespaceLevel
}

// route is how the admin interface reads, sets and unsets a policy: each a method and what stands below the namespace's or topic's
// path. The zero route is that of a policy which the level does not have.
type route struct {
	get, set, unset string
	unsetBody       any
}

// setting is a policy: where it stands in the declaration, and on the wire.
type setting struct {
	name   string
	routes [2]route
	// isSet and text say whether and what d declares; text has the defaults filled in, so that what was set reads back as the same.
	isSet func(d declared) bool
	text  func(d declared) string
	// body is what the server gets, read takes its answer to d.
	body func(d declared) any
	read func(answer []byte, d declared) error
	// clear declares nothing, copy what from declares.
	clear func(d declared)
	copy  func(d, from declared)
	// unset is what the server answers where nothing is set, for those that know no unset.
	unset string
	write writer // in place of the route's set and body
	// nonPersistent is whether it means anything for topics whose messages are not stored.
	nonPersistent bool
}

// usual is the route of most: GET, POST and DELETE of one path.
func usual(path string) route { return route{"GET " + path, "POST " + path, "DELETE " + path, nil} }

// as describes a policy of type V, which is W on the wire.
func as[V, W any](name string, field func(declared) *V, to func(V) W, from func(W) V, namespace, topic route) setting {
	return setting{
		name: name, routes: [2]route{namespace, topic},
		isSet: func(d declared) bool { return !reflect.ValueOf(field(d)).Elem().IsZero() },
		text:  func(d declared) string { return text(from(to(*field(d)))) },
		body:  func(d declared) any { return to(*field(d)) },
		clear: func(d declared) { *field(d) = *new(V) },
		copy:  func(d, from declared) { *field(d) = *field(from) },
		read: func(answer []byte, d declared) error {
			var w W
			if len(answer) == 0 || string(answer) == "null" {
				return nil
			}
			if err := json.Unmarshal(answer, &w); err != nil {
				return fmt.Errorf("the answer: %w", err)
			}
			*field(d) = from(w)
			return nil
		},
	}
}

// text is a value in one line of YAML.
func text(v any) string {
	var n yaml.Node
	if err := n.Encode(v); err != nil {
		return err.Error() // only for what no declaration holds
	}
	flow(&n)
	out, err := yaml.Marshal(&n)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(out))
}

func flow(n *yaml.Node) {
	n.Style = yaml.FlowStyle
	if n.Kind == yaml.ScalarNode {
		n.Style = 0
		if strings.Contains(n.Value, "\n") { // it would be a block
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	for _, c := range n.Content {
		flow(c)
	}
}

func (s setting) unsettable(l level) bool { return s.routes[l].unset != "" }

func (s setting) without(unset string) setting { s.unset = unset; return s }

func (s setting) unstored() setting { s.nonPersistent = true; return s }

func ptr[T any](v T) *T { return &v }

// limit is a count on the wire, where 0 is no limit.
func limit(c Count) int64 { return int64(max(c, 0)) }

func countOf(n int64) Count {
	if n <= 0 {
		return Infinite
	}
	return Count(n)
}

// unlimited is a rate on the wire, where -1 is no bound.
func unlimited(n int64) int64 {
	if n <= 0 {
		return -1
	}
	return n
}

// names is a set as a list, never nil.
func names(v []string) []string {
	v = append([]string{}, v...)
	slices.Sort(v)
	return slices.Compact(v)
}

func switched(name string, field func(declared) *Switch, namespace, topic route) setting {
	return as(name, field, func(s Switch) bool { return s > 0 }, switchOf, namespace, topic)
}

func counted(name string, field func(declared) *Count, namespace, topic route) setting {
	return as(name, field, limit, countOf, namespace, topic)
}

func rated(name string, field func(declared) **Rate) setting {
	return as(name, field, rateWire, rateOf, usual(name), usual(name)).unstored()
}

var retention = as("retention", func(d declared) **Retention { return &d.p.Retention }, retentionWire, retentionOf,
	usual("retention"), usual("retention"))

var validationRoute = route{"GET schemaValidationEnforced", "POST schemaValidationEnforced", "POST schemaValidationEnforced", false}

// settings are all policies. Quotas are set before Retention, since Pulsar refuses quotas that are not below it.
var settings = []setting{
	sizeQuota(), ageQuota(),
	retention,
	as("ttl", func(d declared) *Duration { return &d.p.TTL }, ttlWire, ttlOf,
		usual("messageTTL"), route{"GET messageTTL", "POST messageTTL?messageTTL=", "DELETE messageTTL", nil}),
	as("schemaCompatibility", func(d declared) *SchemaCompatibility { return &d.p.SchemaCompatibility },
		func(s SchemaCompatibility) string { return string(s) }, compatibilityOf,
		route{"GET schemaCompatibilityStrategy", "PUT schemaCompatibilityStrategy", "PUT schemaCompatibilityStrategy", "UNDEFINED"},
		route{"GET schemaCompatibilityStrategy", "PUT schemaCompatibilityStrategy", "DELETE schemaCompatibilityStrategy", nil}).unstored(),
	switched("schemaValidation", func(d declared) *Switch { return &d.p.SchemaValidation },
		validationRoute, validationRoute).without("off").unstored(),
	switched("schemaAutoUpdate", func(d declared) *Switch { return &d.n.SchemaAutoUpdate },
		route{"GET isAllowAutoUpdateSchema", "POST isAllowAutoUpdateSchema", "POST isAllowAutoUpdateSchema", true}, route{}).without("on"),
	offload(),
	as("persistence", func(d declared) **Persistence { return &d.p.Persistence }, persistenceWire, persistenceOf,
		usual("persistence"), usual("persistence")),
	as("publishRate", func(d declared) **PublishRate { return &d.p.PublishRate }, publishWire, publishOf,
		usual("publishRate"), usual("publishRate")).unstored(),
	rated("dispatchRate", func(d declared) **Rate { return &d.p.DispatchRate }),
	rated("subscriptionDispatchRate", func(d declared) **Rate { return &d.p.SubscriptionDispatchRate }),
	rated("replicatorDispatchRate", func(d declared) **Rate { return &d.p.ReplicatorDispatchRate }),
	as("subscribeRate", func(d declared) **SubscribeRate { return &d.p.SubscribeRate }, subscribeWire, subscribeOf,
		usual("subscribeRate"), usual("subscribeRate")).unstored(),
	switched("deduplication", func(d declared) *Switch { return &d.p.Deduplication },
		usual("deduplication"), usual("deduplicationEnabled")),
	as("allowedClusters", func(d declared) *[]string { return &d.n.AllowedClusters }, names, names,
		route{get: "GET allowedClusters", set: "POST allowedClusters"}, route{}).without("[]"),
	as("replicationClusters", func(d declared) *[]string { return &d.p.ReplicationClusters }, names, names,
		route{get: "GET replication", set: "POST replication"}, usual("replication")).unstored(),
	as("compactionThreshold", func(d declared) *Size { return &d.p.CompactionThreshold },
		func(s Size) int64 { return int64(max(s, 0)) }, func(n int64) Size { return Size(countOf(n)) },
		route{"GET compactionThreshold", "PUT compactionThreshold", "DELETE compactionThreshold", nil}, usual("compactionThreshold")),
	as("delayedDelivery", func(d declared) **DelayedDelivery { return &d.p.DelayedDelivery }, delayedWire, delayedOf,
		usual("delayedDelivery"), usual("delayedDelivery")),
	as("inactiveTopics", func(d declared) **InactiveTopics { return &d.p.InactiveTopics }, inactiveWire, inactiveOf,
		usual("inactiveTopicPolicies"), usual("inactiveTopicPolicies")).unstored(),
	as("autoTopicCreation", func(d declared) **AutoTopicCreation { return &d.n.AutoTopicCreation }, autoTopicWire, autoTopicOf,
		usual("autoTopicCreation"), route{}),
	as("autoSubscriptionCreation", func(d declared) *Switch { return &d.p.AutoSubscriptionCreation }, autoSubWire, autoSubOf,
		usual("autoSubscriptionCreation"), usual("autoSubscriptionCreation")).unstored(),
	counted("maxProducers", func(d declared) *Count { return &d.p.MaxProducers },
		usual("maxProducersPerTopic"), usual("maxProducers")).unstored(),
	counted("maxConsumers", func(d declared) *Count { return &d.p.MaxConsumers },
		usual("maxConsumersPerTopic"), usual("maxConsumers")).unstored(),
	counted("maxSubscriptions", func(d declared) *Count { return &d.p.MaxSubscriptions },
		usual("maxSubscriptionsPerTopic"), usual("maxSubscriptionsPerTopic")).unstored(),
	counted("maxUnackedPerConsumer", func(d declared) *Count { return &d.p.MaxUnackedPerConsumer },
		usual("maxUnackedMessagesPerConsumer"), usual("maxUnackedMessagesOnConsumer")),
	counted("maxUnackedPerSubscription", func(d declared) *Count { return &d.p.MaxUnackedPerSubscription },
		usual("maxUnackedMessagesPerSubscription"), usual("maxUnackedMessagesOnSubscription")),
	counted("maxTopics", func(d declared) *Count { return &d.n.MaxTopics }, usual("maxTopicsPerNamespace"), route{}).without(infinite),
	switched("encryptionRequired", func(d declared) *Switch { return &d.n.EncryptionRequired },
		route{"GET encryptionRequired", "POST encryptionRequired", "POST encryptionRequired", false}, route{}).without("off"),
	as("bookieAffinity", func(d declared) **BookieAffinity { return &d.n.BookieAffinity }, affinityWire, affinityOf,
		usual("persistence/bookieAffinity"), route{}),
	as("antiAffinity", func(d declared) *string { return &d.n.AntiAffinity }, same, same, usual("antiAffinity"), route{}),
}

// known finds a setting by the name that YAML has for it.
func known(name string, l level) (setting, bool) {
	for _, s := range settings {
		if s.name == name && s.routes[l].get != "" {
			return s, true
		}
	}
	return setting{}, false
}

func same(s string) string { return s }
