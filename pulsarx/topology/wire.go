package topology

import (
	"cmp"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
)

// The policies as Pulsar's admin interface has them.

type wireRetention struct {
	Minutes int64 `json:"retentionTimeInMinutes"`
	MiB     int64 `json:"retentionSizeInMB"` // mebibytes, in spite of its name
}

func retentionWire(r *Retention) wireRetention {
	w, full := wireRetention{-1, -1}, r.full()
	if full.Time >= 0 {
		w.Minutes = int64(full.Time / Minute)
	}
	if full.Size >= 0 {
		w.MiB = int64(full.Size / MiB)
	}
	return w
}

func retentionOf(w wireRetention) *Retention {
	r := Retention{Infinite, Infinite}
	if w.Minutes >= 0 {
		r.Time = Duration(w.Minutes) * Minute
	}
	if w.MiB >= 0 {
		r.Size = Size(w.MiB) * MiB
	}
	return &r
}

func ttlWire(d Duration) int64 { return int64(max(d, 0) / Second) }

func ttlOf(seconds int64) Duration {
	if seconds <= 0 {
		return Infinite
	}
	return Duration(seconds) * Second
}

func compatibilityOf(s string) SchemaCompatibility {
	if s == "UNDEFINED" {
		return ""
	}
	return SchemaCompatibility(s)
}

type wireQuota struct {
	Size   int64       `json:"limitSize"`
	Time   int64       `json:"limitTime"` // seconds
	Policy QuotaPolicy `json:"policy"`
}

const (
	quotaOfSize = "destination_storage"
	quotaOfAge  = "message_age"
)

func quotaRoute(kind string) route {
	return route{"GET backlogQuotaMap", "POST backlogQuota?backlogQuotaType=" + kind, "DELETE backlogQuota?backlogQuotaType=" + kind, nil}
}

func sizeQuota() setting {
	to := func(q *SizeQuota) wireQuota {
		return wireQuota{Size: int64(q.Limit), Time: -1, Policy: cmp.Or(q.Policy, HoldProducer)}
	}
	from := func(w wireQuota) *SizeQuota { return &SizeQuota{Size(max(w.Size, -1)), w.Policy} }
	s := as("backlogSize", func(d declared) **SizeQuota { return &d.p.BacklogSize }, to, from,
		quotaRoute(quotaOfSize), quotaRoute(quotaOfSize))
	return quotaOf(s, quotaOfSize)
}

func ageQuota() setting {
	to := func(q *AgeQuota) wireQuota {
		w := wireQuota{Size: 0, Time: -1, Policy: cmp.Or(q.Policy, HoldProducer)} // Pulsar compares the size 0, but not -1, with a retention
		if q.Limit >= 0 {
			w.Time = int64(q.Limit / Second)
		}
		return w
	}
	from := func(w wireQuota) *AgeQuota {
		if w.Time < 0 {
			return &AgeQuota{Infinite, w.Policy}
		}
		return &AgeQuota{Duration(w.Time) * Second, w.Policy}
	}
	s := as("backlogAge", func(d declared) **AgeQuota { return &d.p.BacklogAge }, to, from,
		quotaRoute(quotaOfAge), quotaRoute(quotaOfAge))
	return quotaOf(s, quotaOfAge)
}

// quotaOf reads one kind of the map of quotas.
func quotaOf(s setting, kind string) setting {
	one := s.read
	s.read = func(answer []byte, d declared) error {
		var all map[string]json.RawMessage
		if len(answer) > 0 {
			if err := json.Unmarshal(answer, &all); err != nil {
				return err
			}
		}
		return one(all[kind], d)
	}
	s.write = writeQuota
	return s
}

type wirePersistence struct {
	Ensemble       int     `json:"bookkeeperEnsemble"`
	WriteQuorum    int     `json:"bookkeeperWriteQuorum"`
	AckQuorum      int     `json:"bookkeeperAckQuorum"`
	MarkDeleteRate float64 `json:"managedLedgerMaxMarkDeleteRate"`
}

func persistenceWire(p *Persistence) wirePersistence { return wirePersistence(*p) }

func persistenceOf(w wirePersistence) *Persistence { return ptr(Persistence(w)) }

type wirePublish struct {
	Messages int64 `json:"publishThrottlingRateInMsg"`
	Bytes    int64 `json:"publishThrottlingRateInByte"`
}

func publishWire(r *PublishRate) wirePublish {
	return wirePublish{unlimited(r.Messages), unlimited(int64(r.Bytes))}
}

func publishOf(w wirePublish) *PublishRate {
	return &PublishRate{max(w.Messages, 0), Size(max(w.Bytes, 0))}
}

type wireRate struct {
	Messages int64 `json:"dispatchThrottlingRateInMsg"`
	Bytes    int64 `json:"dispatchThrottlingRateInByte"`
	Relative bool  `json:"relativeToPublishRate"`
	Period   int64 `json:"ratePeriodInSecond"`
}

func rateWire(r *Rate) wireRate {
	return wireRate{unlimited(r.Messages), unlimited(int64(r.Bytes)), r.RelativeToPublish, int64(cmp.Or(r.Period, Second) / Second)}
}

func rateOf(w wireRate) *Rate {
	return &Rate{max(w.Messages, 0), Size(max(w.Bytes, 0)), Duration(w.Period) * Second, w.Relative}
}

type wireSubscribe struct {
	PerConsumer int   `json:"subscribeThrottlingRatePerConsumer"`
	Period      int64 `json:"ratePeriodInSecond"`
}

func subscribeWire(r *SubscribeRate) wireSubscribe {
	return wireSubscribe{r.PerConsumer, int64(cmp.Or(r.Period, 30*Second) / Second)}
}

func subscribeOf(w wireSubscribe) *SubscribeRate {
	return &SubscribeRate{w.PerConsumer, Duration(w.Period) * Second}
}

type wireDelayed struct {
	Tick   int64 `json:"tickTime"` // milliseconds, as Max
	Active bool  `json:"active"`
	Max    int64 `json:"maxDeliveryDelayInMillis"`
}

func delayedWire(d *DelayedDelivery) wireDelayed {
	return wireDelayed{int64(cmp.Or(d.Tick, Second) / Millisecond), !d.Disabled, int64(max(d.Max, 0) / Millisecond)}
}

func delayedOf(w wireDelayed) *DelayedDelivery {
	return &DelayedDelivery{!w.Active, Duration(w.Tick) * Millisecond, Duration(w.Max) * Millisecond}
}

type wireInactive struct {
	Mode    string `json:"inactiveTopicDeleteMode"`
	Seconds int64  `json:"maxInactiveDurationSeconds"`
	Delete  bool   `json:"deleteWhileInactive"`
}

const (
	deleteCaughtUp       = "delete_when_subscriptions_caught_up"
	deleteUnsubscribed   = "delete_when_no_subscriptions"
	defaultInactiveAfter = Minute
)

func inactiveWire(i *InactiveTopics) wireInactive {
	w := wireInactive{deleteUnsubscribed, int64(cmp.Or(i.After, defaultInactiveAfter) / Second), !i.Keep}
	if i.CaughtUp {
		w.Mode = deleteCaughtUp
	}
	return w
}

func inactiveOf(w wireInactive) *InactiveTopics {
	return &InactiveTopics{!w.Delete, Duration(w.Seconds) * Second, w.Mode == deleteCaughtUp}
}

type wireAutoTopic struct {
	Allow      bool   `json:"allowAutoTopicCreation"`
	Type       string `json:"topicType,omitempty"`
	Partitions int    `json:"defaultNumPartitions,omitempty"`
}

func autoTopicWire(a *AutoTopicCreation) wireAutoTopic {
	switch {
	case a.Disabled:
		return wireAutoTopic{}
	case a.Partitions > 0:
		return wireAutoTopic{true, "partitioned", a.Partitions}
	}
	return wireAutoTopic{Allow: true, Type: "non-partitioned"}
}

func autoTopicOf(w wireAutoTopic) *AutoTopicCreation {
	return &AutoTopicCreation{!w.Allow, w.Partitions}
}

type wireAutoSub struct {
	Allow bool `json:"allowAutoSubscriptionCreation"`
}

func autoSubWire(s Switch) wireAutoSub { return wireAutoSub{s > 0} }

func autoSubOf(w wireAutoSub) Switch { return switchOf(w.Allow) }

type wireAffinity struct {
	Primary   string `json:"bookkeeperAffinityGroupPrimary"`
	Secondary string `json:"bookkeeperAffinityGroupSecondary"`
}

func affinityWire(b *BookieAffinity) wireAffinity { return wireAffinity(*b) }

func affinityOf(w wireAffinity) *BookieAffinity { return ptr(BookieAffinity(w)) }

type wireIsolation struct {
	Namespaces []string     `json:"namespaces"`
	Primary    []string     `json:"primary"`
	Secondary  []string     `json:"secondary"`
	Failover   wireFailover `json:"auto_failover_policy"`
}

type wireFailover struct {
	Type       string            `json:"policy_type"`
	Parameters map[string]string `json:"parameters"`
}

func (i Isolation) wire() wireIsolation {
	i = i.withDefaults()
	return wireIsolation{i.Namespaces, i.Primary, append([]string{}, i.Secondary...), wireFailover{"min_available", map[string]string{
		"min_limit": strconv.Itoa(i.MinAvailable), "usage_threshold": strconv.Itoa(i.UsageThreshold),
	}}}
}

// wireOffload are the fields of Pulsar's offload policies that a declaration has; all others are left as they are.
type wireOffload struct {
	Driver       string `json:"managedLedgerOffloadDriver,omitempty"`
	Bucket       string `json:"managedLedgerOffloadBucket,omitempty"`
	Region       string `json:"managedLedgerOffloadRegion,omitempty"`
	Endpoint     string `json:"managedLedgerOffloadServiceEndpoint,omitempty"`
	URI          string `json:"fileSystemURI,omitempty"`
	ProfilePath  string `json:"fileSystemProfilePath,omitempty"`
	Threshold    *int64 `json:"managedLedgerOffloadThresholdInBytes,omitempty"`
	Seconds      *int64 `json:"managedLedgerOffloadThresholdInSeconds,omitempty"`
	DeletionLag  *int64 `json:"managedLedgerOffloadDeletionLagInMillis,omitempty"`
	ReadPriority string `json:"managedLedgerOffloadedReadPriority,omitempty"`
}

var offloadFields = []string{
	"managedLedgerOffloadDriver", "managedLedgerOffloadBucket", "managedLedgerOffloadRegion", "managedLedgerOffloadServiceEndpoint",
	"fileSystemURI", "fileSystemProfilePath", "managedLedgerOffloadThresholdInBytes", "managedLedgerOffloadThresholdInSeconds",
	"managedLedgerOffloadDeletionLagInMillis", "managedLedgerOffloadedReadPriority",
}

// inUnits is a limit on the wire: absent where it is not declared, -1 where it has no limit.
func inUnits(n, unit int64) *int64 {
	switch {
	case n == 0:
		return nil
	case n < 0:
		return ptr(int64(-1))
	}
	return ptr(n / unit)
}

// fromUnits is inUnits back. Pulsar's 0 is at once, which is what the smallest unit comes to.
func fromUnits(n *int64, unit int64) int64 {
	switch {
	case n == nil:
		return 0
	case *n < 0:
		return Infinite
	}
	return max(*n, 1) * unit
}

func offloadWire(o *Offload) wireOffload {
	return wireOffload{
		o.Driver, o.Bucket, o.Region, o.Endpoint, o.URI, o.ProfilePath,
		inUnits(int64(o.Threshold), 1), inUnits(int64(o.ThresholdTime), int64(Second)), inUnits(int64(o.DeletionLag), int64(Millisecond)),
		strings.ToUpper(strings.ReplaceAll(o.ReadPriority, "-", "_")),
	}
}

// offloadOf is nil where nothing that a declaration has is set: Pulsar keeps an empty policy when a limit was set and taken back.
func offloadOf(w wireOffload) *Offload {
	o := Offload{
		w.Driver, w.Bucket, w.Region, w.Endpoint, w.URI, w.ProfilePath,
		Size(fromUnits(w.Threshold, 1)), Duration(fromUnits(w.Seconds, int64(Second))),
		Duration(fromUnits(w.DeletionLag, int64(Millisecond))),
		strings.ToLower(strings.ReplaceAll(w.ReadPriority, "_", "-")),
	}
	if o.Driver == "" { // without a driver -1 is how Pulsar takes a limit back
		o.Threshold, o.ThresholdTime, o.DeletionLag = max(o.Threshold, 0), max(o.ThresholdTime, 0), max(o.DeletionLag, 0)
	}
	if o == (Offload{}) {
		return nil
	}
	return &o
}

func offload() setting {
	unset := "DELETE removeOffloadPolicies"
	s := as("offload", func(d declared) **Offload { return &d.p.Offload }, offloadWire, offloadOf,
		route{"GET offloadPolicies", "POST offloadPolicies", unset, nil}, usual("offloadPolicies"))
	s.write = writeOffload
	return s
}

// overlay is what the server has, with the fields of a declaration as declared.
func (w wireOffload) overlay(have map[string]any) (map[string]any, error) {
	text, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(have)
	if all == nil {
		all = map[string]any{}
	}
	for _, field := range offloadFields {
		delete(all, field)
	}
	return all, json.Unmarshal(text, &all)
}
