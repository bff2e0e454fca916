package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/pulsarx/internal/admin"
)

// Topology declares what a cluster should have. It is a plain value: the same names in Go and in YAML, maps by name.
type Topology struct {
	Tenants map[string]Tenant `yaml:"tenants,omitempty"`
	// Isolation are the isolation policies of brokers: by cluster, and there by name.
	Isolation map[string]map[string]Isolation `yaml:"isolation,omitempty"`
}

// Tenant is a tenant and its namespaces. What is not declared of one that exists stays.
type Tenant struct {
	// Admins are the roles that administer the tenant.
	Admins []string `yaml:"admins,omitempty,flow"`
	// Clusters are those that the tenant may use; a new tenant may use all by default.
	Clusters   []string             `yaml:"clusters,omitempty,flow"`
	Namespaces map[string]Namespace `yaml:"namespaces,omitempty"`
}

// Namespace is a namespace, its policies and its topics.
type Namespace struct {
	Policies          `yaml:",inline"`
	NamespacePolicies `yaml:",inline"`
	// Permissions are what roles may do with all topics: produce, consume, functions, sources, sinks, packages.
	Permissions map[string][]string `yaml:"permissions,omitempty"`
	// Topics are persistent topics, by their local names.
	Topics map[string]Topic `yaml:"topics,omitempty"`
	// NonPersistent are topics whose messages are never stored. They need Partitions, since Pulsar keeps no record of one without,
	// and have no subscriptions, permissions aside no more than the policies of rates and limits.
	NonPersistent map[string]Topic `yaml:"nonPersistent,omitempty"`
}

// Topic is a topic and its policies, which go before the namespace's.
type Topic struct {
	// Partitions is the number of partitions, 0 is a topic without. It only grows; [Partitions] says how many.
	Partitions int `yaml:"partitions,omitempty"`
	// Unkeyed says that nobody relies on the order of keys, so that the topic may grow while it is in use.
	Unkeyed       bool `yaml:"unkeyed,omitempty"`
	Policies      `yaml:",inline"`
	Permissions   map[string][]string     `yaml:"permissions,omitempty"`
	Subscriptions map[string]Subscription `yaml:"subscriptions,omitempty"`
}

// Subscription is a durable subscription that exists before its first consumer, so that messages are kept for it.
type Subscription struct {
	// Latest lets a new one begin with the next message rather than with the oldest that the topic has.
	Latest bool `yaml:"latest,omitempty"`
	// Replicated On copies what is acknowledged to the clusters that the topic is replicated to, about once a second.
	Replicated Switch `yaml:"replicated,omitempty"`
	// DeadLetter declares the topic that pulsarx writes this subscription's dead letters to.
	DeadLetter *DeadLetter `yaml:"deadLetter,omitempty"`
}

// DeadLetter is the topic of a subscription's dead letters.
type DeadLetter struct {
	// Name of the topic in the same namespace, <topic>-<subscription>-DLQ by default, as in pulsarx.
	Name string `yaml:"name,omitempty"`
	// Subscription that keeps the letters, "dead-letters" by default, as in pulsarx.
	Subscription string `yaml:"subscription,omitempty"`
	Partitions   int    `yaml:"partitions,omitempty"`
	Policies     `yaml:",inline"`
	Permissions  map[string][]string `yaml:"permissions,omitempty"`
}

// Isolation keeps namespaces on some brokers of a cluster, and others off these.
type Isolation struct {
	// Namespaces, Primary and Secondary are regular expressions of tenant/namespace and of brokers' names.
	Namespaces []string `yaml:"namespaces,flow"`
	Primary    []string `yaml:"primary,flow"`
	Secondary  []string `yaml:"secondary,omitempty,flow"`
	// MinAvailable is the number of primary brokers below which the secondary are used; 1 by default.
	MinAvailable int `yaml:"minAvailable,omitempty"`
	// UsageThreshold is the load in percent above which a broker does not count as available; 100 by default.
	UsageThreshold int `yaml:"usageThreshold,omitempty"`
}

func (i Isolation) withDefaults() Isolation {
	i.MinAvailable = cmp.Or(i.MinAvailable, 1)
	i.UsageThreshold = cmp.Or(i.UsageThreshold, 100)
	return i
}

// topicName is a topic's whole name.
type topicName struct {
	domain, tenant, namespace, local string
}

const (
	persistent    = "persistent"
	nonPersistent = "non-persistent"
)

func (n topicName) String() string {
	return fmt.Sprintf("%s://%s/%s/%s", n.domain, n.tenant, n.namespace, n.local)
}

// path is the topic's place in the admin interface.
func (n topicName) path() string { return admin.Path(n.domain, n.tenant, n.namespace, n.local) }

// topics returns those of a domain.
func (n Namespace) topics(domain string) map[string]Topic {
	if domain == nonPersistent {
		return n.NonPersistent
	}
	return n.Topics
}

// expanded has the dead-letter topics among the topics. A topic that is declared already is an error.
func (n Namespace) expanded() (Namespace, []error) {
	var errs []error
	topics := maps.Clone(n.Topics)
	for _, name := range sorted(n.Topics) {
		for _, sub := range sorted(n.Topics[name].Subscriptions) {
			letter := n.Topics[name].Subscriptions[sub].DeadLetter
			if letter == nil {
				continue
			}
			local := cmp.Or(letter.Name, name+"-"+sub+"-DLQ")
			if _, taken := topics[local]; taken {
				errs = append(errs, fmt.Errorf("topics.%s.subscriptions.%s.deadLetter: %s is declared twice", name, sub, local))
				continue
			}
			topics[local] = Topic{
				Partitions: letter.Partitions, Policies: letter.Policies, Permissions: letter.Permissions, Unkeyed: true,
				Subscriptions: map[string]Subscription{cmp.Or(letter.Subscription, "dead-letters"): {}},
			}
		}
	}
	n.Topics = topics
	return n, errs
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// list is a set, as names returns it, in words.
func list(names []string) string {
	if len(names) == 0 {
		return none
	}
	return strings.Join(names, ", ")
}
