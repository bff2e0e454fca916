package topology

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Policies are what a namespace sets for its topics, and what a topic sets for itself, which goes first. Zero is not declared: what
// the cluster has stays. [Policies.Reset] takes a policy back to what applies without it.
type Policies struct {
	// Retention keeps messages that all subscriptions have acknowledged. Without one, the cluster's default, they are deleted.
	Retention *Retention `yaml:"retention,omitempty"`
	// TTL acknowledges, and so drops, messages that a subscription has not acknowledged in that time; Infinite never does. Seconds.
	TTL Duration `yaml:"ttl,omitempty"`
	// BacklogSize and BacklogAge say how much of a backlog a subscription may have, and what happens then. Pulsar wants them below
	// Retention where that is finite, and, for a topic, declared where the same limit of Retention is finite.
	BacklogSize *SizeQuota `yaml:"backlogSize,omitempty"`
	BacklogAge  *AgeQuota  `yaml:"backlogAge,omitempty"`
	// SchemaCompatibility is which schemas a topic takes beside each other; the cluster's default is FULL.
	SchemaCompatibility SchemaCompatibility `yaml:"schemaCompatibility,omitempty"`
	// SchemaValidation On refuses producers without a schema on topics that have one. It has no unset: the default is Off.
	SchemaValidation Switch   `yaml:"schemaValidation,omitempty"`
	Offload          *Offload `yaml:"offload,omitempty"`
	// Persistence are the quorums of BookKeeper.
	Persistence  *Persistence `yaml:"persistence,omitempty"`
	PublishRate  *PublishRate `yaml:"publishRate,omitempty"`
	DispatchRate *Rate        `yaml:"dispatchRate,omitempty"`
	// SubscriptionDispatchRate is DispatchRate of each subscription, ReplicatorDispatchRate that of the replication to a cluster.
	SubscriptionDispatchRate *Rate          `yaml:"subscriptionDispatchRate,omitempty"`
	ReplicatorDispatchRate   *Rate          `yaml:"replicatorDispatchRate,omitempty"`
	SubscribeRate            *SubscribeRate `yaml:"subscribeRate,omitempty"`
	// Deduplication On drops messages with a producer's sequence id that the topic has already.
	Deduplication Switch `yaml:"deduplication,omitempty"`
	// ReplicationClusters are those that the messages are replicated between. A namespace has always at least one.
	ReplicationClusters []string `yaml:"replicationClusters,omitempty,flow"`
	// CompactionThreshold is the size of the not compacted part that starts a compaction; Infinite compacts by command only.
	CompactionThreshold Size             `yaml:"compactionThreshold,omitempty"`
	DelayedDelivery     *DelayedDelivery `yaml:"delayedDelivery,omitempty"`
	InactiveTopics      *InactiveTopics  `yaml:"inactiveTopics,omitempty"`
	// AutoSubscriptionCreation Off refuses consumers of subscriptions that do not exist.
	AutoSubscriptionCreation Switch `yaml:"autoSubscriptionCreation,omitempty"`
	// MaxProducers, MaxConsumers and MaxSubscriptions bound a topic's.
	MaxProducers     Count `yaml:"maxProducers,omitempty"`
	MaxConsumers     Count `yaml:"maxConsumers,omitempty"`
	MaxSubscriptions Count `yaml:"maxSubscriptions,omitempty"`
	// MaxUnackedPerConsumer and MaxUnackedPerSubscription stop the dispatch to Shared and Key_Shared consumers at that many
	// messages that are not acknowledged. The limit of a pulsarx consumer is its own MaxInFlight.
	MaxUnackedPerConsumer     Count `yaml:"maxUnackedPerConsumer,omitempty"`
	MaxUnackedPerSubscription Count `yaml:"maxUnackedPerSubscription,omitempty"`
	// Reset names policies, as YAML does, that are taken back to what applies without them.
	Reset []string `yaml:"reset,omitempty,flow"`
}

// NamespacePolicies are those that only a namespace has. Zero is not declared, as in [Policies].
type NamespacePolicies struct {
	// SchemaAutoUpdate Off refuses new schemas of producers: they come by the admin interface. It has no unset: the default is On.
	SchemaAutoUpdate Switch `yaml:"schemaAutoUpdate,omitempty"`
	// AllowedClusters may be named by ReplicationClusters of topics. Pulsar knows no way back to none.
	AllowedClusters   []string           `yaml:"allowedClusters,omitempty,flow"`
	AutoTopicCreation *AutoTopicCreation `yaml:"autoTopicCreation,omitempty"`
	// EncryptionRequired On refuses producers that do not encrypt. It has no unset: the default is Off.
	EncryptionRequired Switch `yaml:"encryptionRequired,omitempty"`
	// BookieAffinity keeps the messages on groups of bookies: isolation of storage. [Isolation] is that of brokers.
	BookieAffinity *BookieAffinity `yaml:"bookieAffinity,omitempty"`
	// AntiAffinity spreads the namespaces that name the same group over brokers.
	AntiAffinity string `yaml:"antiAffinity,omitempty"`
	// MaxTopics bounds the namespace's; a partition counts as one.
	MaxTopics Count `yaml:"maxTopics,omitempty"`
}

// Retention keeps acknowledged messages until they are older than Time, or are more than Size. The limit that is 0 is infinite where
// the other is not 0; both 0 keep nothing. YAML may say "infinite" or "none" in place of the fields, and no 0 beside another limit, which
// in Pulsar's own words would be none.
type Retention struct {
	Time Duration `yaml:"time,omitempty"` // whole minutes
	Size Size     `yaml:"size,omitempty"` // whole MiB
}

// UnmarshalYAML reads a Retention.
func (r *Retention) UnmarshalYAML(n *yaml.Node) error {
	switch {
	case n.Kind == yaml.ScalarNode && n.Value == infinite:
		*r = Retention{Infinite, Infinite}
		return nil
	case n.Kind == yaml.ScalarNode && n.Value == none:
		*r = Retention{}
		return nil
	case n.Kind != yaml.MappingNode:
		return at(n, fmt.Errorf("%q is no retention: infinite, none, or time and size", n.Value))
	}
	var fields map[string]string
	if err := n.Decode(&fields); err != nil {
		return err
	}
	*r = Retention{}
	for name, value := range inOrder(fields) {
		var err error
		switch name {
		case "time":
			r.Time, err = ParseDuration(value)
		case "size":
			r.Size, err = ParseSize(value)
		default:
			err = fmt.Errorf("field %s not found in type topology.Retention", name)
		}
		if err != nil {
			return at(n, err)
		}
	}
	for name, limit := range map[string]int64{"time": int64(r.Time), "size": int64(r.Size)} {
		if written, ok := fields[name]; ok && limit == 0 && *r != (Retention{}) {
			return at(n, fmt.Errorf("%s: %q beside another limit: leave it out, or say infinite", name, written))
		}
	}
	return nil
}

// MarshalYAML writes a Retention.
func (r Retention) MarshalYAML() (any, error) {
	type fields Retention
	switch r = r.full(); r {
	case Retention{Infinite, Infinite}:
		return infinite, nil
	case Retention{}:
		return none, nil
	}
	return fields(r), nil
}

// full has the limit that is not declared as infinite.
func (r Retention) full() Retention {
	switch {
	case r.Time == 0 && r.Size != 0:
		r.Time = Infinite
	case r.Size == 0 && r.Time != 0:
		r.Size = Infinite
	}
	return r
}

const none = "none"

// QuotaPolicy is what happens when a backlog reaches its quota.
type QuotaPolicy string

// The quota policies, in Pulsar's words.
const (
	// HoldProducer lets producers wait; it is the default.
	HoldProducer QuotaPolicy = "producer_request_hold"
	// FailProducer refuses producers.
	FailProducer QuotaPolicy = "producer_exception"
	// EvictBacklog drops the oldest messages of the backlog, which no consumer has handled.
	EvictBacklog QuotaPolicy = "consumer_backlog_eviction"
)

// SizeQuota is a quota of the backlog's size.
type SizeQuota struct {
	Limit  Size        `yaml:"limit"`
	Policy QuotaPolicy `yaml:"policy,omitempty"`
}

// AgeQuota is a quota of the age of the oldest message that is not acknowledged.
type AgeQuota struct {
	Limit  Duration    `yaml:"limit"` // whole seconds
	Policy QuotaPolicy `yaml:"policy,omitempty"`
}

// SchemaCompatibility is a strategy, in Pulsar's words. UNDEFINED is said by [Policies.Reset].
type SchemaCompatibility string

// The strategies.
const (
	AlwaysCompatible   SchemaCompatibility = "ALWAYS_COMPATIBLE"
	AlwaysIncompatible SchemaCompatibility = "ALWAYS_INCOMPATIBLE"
	Backward           SchemaCompatibility = "BACKWARD"
	BackwardTransitive SchemaCompatibility = "BACKWARD_TRANSITIVE"
	Forward            SchemaCompatibility = "FORWARD"
	ForwardTransitive  SchemaCompatibility = "FORWARD_TRANSITIVE"
	Full               SchemaCompatibility = "FULL"
	FullTransitive     SchemaCompatibility = "FULL_TRANSITIVE"
)

var strategies = []SchemaCompatibility{
	AlwaysCompatible, AlwaysIncompatible, Backward, BackwardTransitive, Forward, ForwardTransitive, Full, FullTransitive,
}

// Offload moves the older messages to a tiered storage. What else the cluster has for it, credentials for one, stays as it is and
// is never shown. Without Driver, which only a namespace may lack, the broker's configuration says where to, and only the limits
// are set.
type Offload struct {
	// Driver is aws-s3, S3, google-cloud-storage, azureblob, aliyun-oss or filesystem.
	Driver   string `yaml:"driver,omitempty"`
	Bucket   string `yaml:"bucket,omitempty"`
	Region   string `yaml:"region,omitempty"`
	Endpoint string `yaml:"endpoint,omitempty"`
	// URI and ProfilePath are those of filesystem.
	URI         string `yaml:"uri,omitempty"`
	ProfilePath string `yaml:"profilePath,omitempty"`
	// Threshold is the size of a topic above which it is offloaded, 1B at once; ThresholdTime the age. Infinite does not.
	Threshold     Size     `yaml:"threshold,omitempty"`
	ThresholdTime Duration `yaml:"thresholdTime,omitempty"` // whole seconds
	// DeletionLag is how long offloaded messages stay in BookKeeper too.
	DeletionLag Duration `yaml:"deletionLag,omitempty"` // whole milliseconds
	// ReadPriority is tiered-storage-first, the cluster's default, or bookkeeper-first.
	ReadPriority string `yaml:"readPriority,omitempty"`
}

var offloadDrivers = []string{"aws-s3", "S3", "google-cloud-storage", "azureblob", "aliyun-oss", "filesystem"}

// Persistence says how many bookies hold messages: Ensemble are written to in turns, WriteQuorum have each message, AckQuorum have
// confirmed it when its producer gets the receipt. Ensemble >= WriteQuorum >= AckQuorum >= 1.
type Persistence struct {
	Ensemble    int `yaml:"ensemble"`
	WriteQuorum int `yaml:"writeQuorum"`
	AckQuorum   int `yaml:"ackQuorum"`
	// MarkDeleteRate bounds how often a second a cursor is written, 0 does not.
	MarkDeleteRate float64 `yaml:"markDeleteRate,omitempty"`
}

// PublishRate bounds what a topic's producers send in a second. 0 is no bound.
type PublishRate struct {
	Messages int64 `yaml:"messages,omitempty"`
	Bytes    Size  `yaml:"bytes,omitempty"`
}

// Rate bounds what is dispatched in a Period, 1 s by default. 0 is no bound.
type Rate struct {
	Messages int64    `yaml:"messages,omitempty"`
	Bytes    Size     `yaml:"bytes,omitempty"`
	Period   Duration `yaml:"period,omitempty"` // whole seconds
	// RelativeToPublish adds the rate to that of publishing.
	RelativeToPublish bool `yaml:"relativeToPublish,omitempty"`
}

// SubscribeRate bounds how often a consumer subscribes in a Period, 30 s by default.
type SubscribeRate struct {
	PerConsumer int      `yaml:"perConsumer"`
	Period      Duration `yaml:"period,omitempty"` // whole seconds
}

// DelayedDelivery says whether and how exactly messages are delivered later. Tick is 1 s by default, Max has no limit by default.
type DelayedDelivery struct {
	Disabled bool     `yaml:"disabled,omitempty"`
	Tick     Duration `yaml:"tick,omitempty"` // whole milliseconds
	Max      Duration `yaml:"max,omitempty"`  // whole milliseconds
}

// InactiveTopics says when a topic that nobody uses is deleted with its messages; the cluster's default deletes topics without
// subscriptions. After is required but where Keep is set.
type InactiveTopics struct {
	Keep  bool     `yaml:"keep,omitempty"`
	After Duration `yaml:"after,omitempty"` // whole seconds
	// CaughtUp deletes topics whose subscriptions have no backlog too, rather than only those without subscriptions.
	CaughtUp bool `yaml:"caughtUp,omitempty"`
}

// AutoTopicCreation says what happens when a topic is used that does not exist: Disabled refuses it, otherwise it gets Partitions, or
// none where that is 0.
type AutoTopicCreation struct {
	Disabled   bool `yaml:"disabled,omitempty"`
	Partitions int  `yaml:"partitions,omitempty"`
}

// BookieAffinity names the group of bookies that messages are written to, and the one that stands in for it.
type BookieAffinity struct {
	Primary   string `yaml:"primary"`
	Secondary string `yaml:"secondary,omitempty"`
}
