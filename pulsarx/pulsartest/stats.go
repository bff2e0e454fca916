package pulsartest

import (
	"cmp"
	"net/http"
	"slices"
	"time"
)

// topicStats is what the admin route stats answers, with the names that Pulsar gives to it. Rates are measured over a minute there
// and are left at 0 here; the counters are exact. As with Pulsar, msgBacklog counts entries, of which a batch is one.
type topicStats struct {
	MsgRateIn         float64                      `json:"msgRateIn"`
	MsgThroughputIn   float64                      `json:"msgThroughputIn"`
	MsgRateOut        float64                      `json:"msgRateOut"`
	MsgThroughputOut  float64                      `json:"msgThroughputOut"`
	BytesInCounter    int64                        `json:"bytesInCounter"`
	MsgInCounter      int64                        `json:"msgInCounter"`
	BytesOutCounter   int64                        `json:"bytesOutCounter"`
	MsgOutCounter     int64                        `json:"msgOutCounter"`
	AverageMsgSize    float64                      `json:"averageMsgSize"`
	StorageSize       int64                        `json:"storageSize"`
	BacklogSize       int64                        `json:"backlogSize"`
	Publishers        []publisherStats             `json:"publishers"`
	WaitingPublishers int                          `json:"waitingPublishers"`
	AckedRanges       int                          `json:"nonContiguousDeletedMessagesRanges"`
	Subscriptions     map[string]subscriptionStats `json:"subscriptions"`
	Replication       struct{}                     `json:"replication"`
	Deduplication     string                       `json:"deduplicationStatus,omitempty"` // "" of a non-persistent one
	OwnerBroker       string                       `json:"ownerBroker,omitempty"`
}

type publisherStats struct {
	AccessMode     string            `json:"accessMode"`
	ProducerID     uint64            `json:"producerId"`
	ProducerName   string            `json:"producerName"`
	Address        string            `json:"address"`
	ConnectedSince string            `json:"connectedSince"`
	Metadata       map[string]string `json:"metadata"`
}

type subscriptionStats struct {
	MsgRateOut       float64           `json:"msgRateOut"`
	MsgThroughputOut float64           `json:"msgThroughputOut"`
	BytesOutCounter  int64             `json:"bytesOutCounter"`
	MsgOutCounter    int64             `json:"msgOutCounter"`
	MsgBacklog       int64             `json:"msgBacklog"`
	BacklogSize      int64             `json:"backlogSize"`
	MsgDelayed       int               `json:"msgDelayed"`
	BlockedOnUnacked bool              `json:"blockedSubscriptionOnUnackedMsgs"`
	UnackedMessages  int               `json:"unackedMessages"`
	Type             string            `json:"type"`
	ActiveConsumer   string            `json:"activeConsumerName,omitempty"`
	Consumers        []consumerStats   `json:"consumers"`
	IsDurable        bool              `json:"isDurable"`
	IsReplicated     bool              `json:"isReplicated"`
	AllowOutOfOrder  bool              `json:"allowOutOfOrderDelivery"`
	KeySharedMode    string            `json:"keySharedMode,omitempty"`
	AckedRanges      int               `json:"nonContiguousDeletedMessagesRanges"`
	Properties       map[string]string `json:"subscriptionProperties"`
	Durable          bool              `json:"durable"`
	Replicated       bool              `json:"replicated"`
}

type consumerStats struct {
	ConsumerName     string            `json:"consumerName"`
	AvailablePermits int               `json:"availablePermits"`
	UnackedMessages  int               `json:"unackedMessages"`
	BlockedOnUnacked bool              `json:"blockedConsumerOnUnackedMsgs"`
	MsgOutCounter    int64             `json:"msgOutCounter"`
	Address          string            `json:"address"`
	ConnectedSince   string            `json:"connectedSince"`
	Metadata         map[string]string `json:"metadata"`
}

func adminStats(b *Broker, r *adminRequest) (any, error) {
	t, err := b.single(r)
	if err != nil {
		return nil, err
	}
	return b.stats(t), nil
}

func (b *Broker) stats(t *topic) topicStats {
	s := topicStats{
		BytesInCounter: t.bytesIn, MsgInCounter: t.messagesIn, StorageSize: t.bytes, WaitingPublishers: len(t.waiting),
		Publishers: []publisherStats{}, Subscriptions: map[string]subscriptionStats{}, OwnerBroker: b.adminAddr,
	}
	if !t.name.transient() {
		s.Deduplication = "Disabled"
	}
	if t.messagesIn > 0 {
		s.AverageMsgSize = float64(t.bytesIn) / float64(t.messagesIn)
	}
	if b.deduplicates(t) {
		s.Deduplication = "Enabled"
	}
	for _, p := range t.producers {
		s.Publishers = append(s.Publishers, publisherStats{
			AccessMode: accessModeNames[p.access], ProducerID: p.id, ProducerName: p.name, Metadata: orEmpty(p.metadata),
			Address: p.conn.address(), ConnectedSince: p.conn.since.Format(time.RFC3339Nano),
		})
	}
	for name, sub := range t.subs {
		if sub.gone() {
			continue
		}
		one := sub.stats()
		s.Subscriptions[name] = one
		s.MsgOutCounter += one.MsgOutCounter
		s.BytesOutCounter += one.BytesOutCounter
		s.BacklogSize = max(s.BacklogSize, one.BacklogSize)
		s.AckedRanges += one.AckedRanges
	}
	return s
}

var accessModeNames = [...]string{"Shared", "Exclusive", "WaitForExclusive", "ExclusiveWithFencing"}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func (c *conn) address() string { return "/" + c.socket.RemoteAddr().String() }

func (s *subscription) stats() subscriptionStats {
	t := s.topic
	out := subscriptionStats{
		MsgOutCounter: s.delivered, BytesOutCounter: s.bytes, Type: cmp.Or(s.last.kind, "None"), Consumers: []consumerStats{},
		MsgBacklog: int64(len(t.entries) - s.cursor.markDelete - len(s.cursor.acked)), IsDurable: s.durable, Durable: s.durable,
		IsReplicated: s.replicated, Replicated: s.replicated, AckedRanges: s.ranges(), Properties: orEmpty(s.properties),
	}
	if !t.name.transient() {
		out.AllowOutOfOrder, out.KeySharedMode = s.last.outOfOrder, s.last.mode
	}
	for i := s.cursor.markDelete; i < len(t.entries); i++ {
		if !s.cursor.isAcked(i) {
			out.BacklogSize += int64(len(t.entries[i].data))
		}
	}
	if len(s.consumers) == 0 {
		return out
	}
	switch d := s.dispatcher.(type) {
	case *single:
		if !t.name.transient() {
			out.ActiveConsumer = d.active.name
		}
	case *roundRobin:
		out.MsgDelayed = len(d.delayed)
	case *byKey:
		out.MsgDelayed = len(d.delayed)
	}
	for _, c := range s.consumers {
		blocked := c.blocked()
		out.UnackedMessages += c.unacked
		out.BlockedOnUnacked = out.BlockedOnUnacked || blocked
		out.Consumers = append(out.Consumers, consumerStats{
			ConsumerName: c.name, AvailablePermits: c.permits, UnackedMessages: c.unacked, BlockedOnUnacked: blocked,
			MsgOutCounter: c.delivered, Address: c.conn.address(), ConnectedSince: c.conn.since.Format(time.RFC3339Nano), Metadata: orEmpty(c.metadata),
		})
	}
	return out
}

// ranges counts the runs of acknowledged entries after the first that is not, in each ledger.
func (s *subscription) ranges() int {
	n := 0
	for i := range s.cursor.acked {
		if _, ok := s.cursor.acked[i-1]; !ok || s.topic.id(i).entry == 0 {
			n++
		}
	}
	return n
}

func adminPartitionedStats(b *Broker, r *adminRequest) (any, error) {
	n := b.partitions[r.topic.full]
	if n == 0 {
		return nil, adminRefuse(http.StatusNotFound, "Partitioned Topic not found: %s", r.topic.full)
	}
	type partitionedStats struct {
		topicStats
		Metadata   map[string]any        `json:"metadata"`
		Partitions map[string]topicStats `json:"partitions"`
	}
	sum := partitionedStats{
		Metadata: map[string]any{"partitions": n, "deleted": false}, Partitions: map[string]topicStats{},
		topicStats: topicStats{Publishers: []publisherStats{}, Subscriptions: map[string]subscriptionStats{}},
	}
	for _, t := range b.parts(r.topic.full) {
		one := b.stats(t)
		sum.add(one)
		if r.URL.Query().Get("perPartition") != "false" {
			sum.Partitions[t.name.full] = one
		}
	}
	return sum, nil
}

// add adds a partition's statistics.
func (s *topicStats) add(o topicStats) {
	s.BytesInCounter += o.BytesInCounter
	s.MsgInCounter += o.MsgInCounter
	s.BytesOutCounter += o.BytesOutCounter
	s.MsgOutCounter += o.MsgOutCounter
	s.StorageSize += o.StorageSize
	s.BacklogSize += o.BacklogSize
	s.WaitingPublishers += o.WaitingPublishers
	s.AckedRanges += o.AckedRanges
	s.Publishers = append(s.Publishers, o.Publishers...)
	if s.MsgInCounter > 0 {
		s.AverageMsgSize = float64(s.BytesInCounter) / float64(s.MsgInCounter)
	}
	for name, sub := range o.Subscriptions {
		have, ok := s.Subscriptions[name]
		if !ok {
			s.Subscriptions[name] = sub
			continue
		}
		have.MsgOutCounter += sub.MsgOutCounter
		have.BytesOutCounter += sub.BytesOutCounter
		have.MsgBacklog += sub.MsgBacklog
		have.BacklogSize += sub.BacklogSize
		have.MsgDelayed += sub.MsgDelayed
		have.UnackedMessages += sub.UnackedMessages
		have.AckedRanges += sub.AckedRanges
		have.Consumers = slices.Concat(have.Consumers, sub.Consumers)
		s.Subscriptions[name] = have
	}
}

func adminInternalStats(b *Broker, r *adminRequest) (any, error) {
	t, err := b.single(r)
	if err != nil {
		return nil, err
	}
	ledgers := []map[string]any{}
	for n, l := range t.ledgers {
		end := len(t.entries)
		if n+1 < len(t.ledgers) {
			end = t.ledgers[n+1].first
		}
		ledgers = append(ledgers, map[string]any{"ledgerId": l.id, "entries": end - l.first})
	}
	cursors := map[string]any{}
	for name, s := range t.subs {
		cursors[name] = map[string]any{
			"markDeletePosition":                     position(t.id(s.cursor.markDelete - 1)),
			"totalNonContiguousDeletedMessagesRange": s.ranges(), "messagesConsumedCounter": s.cursor.markDelete + len(s.cursor.acked),
			"active": len(s.consumers) > 0, "state": "Open",
		}
	}
	state := "LedgerOpened"
	if t.terminated {
		state = "Terminated"
	}
	return map[string]any{
		"entriesAddedCounter": len(t.entries), "numberOfEntries": len(t.entries), "totalSize": t.bytes, "state": state,
		"lastConfirmedEntry": position(t.id(len(t.entries) - 1)), "ledgers": ledgers, "cursors": cursors,
	}, nil
}
