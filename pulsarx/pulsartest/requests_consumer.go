package pulsartest

// The requests of consumers.

// subscriptionType is how the consumers of a subscription share its messages.
type subscriptionType uint64

const (
	exclusive subscriptionType = iota
	shared
	failover
	keyShared
)

func (t subscriptionType) String() string {
	names := [...]string{"Exclusive", "Shared", "Failover", "Key_Shared"}
	return names[min(int(t), len(names)-1)]
}

// hashRange is a range of key hashes, both ends included.
type hashRange struct{ start, end int }

type subscribeRequest struct {
	numbered
	name, subscription, consumer string
	kind                         subscriptionType
	consumerID                   uint64
	priority                     int
	durable, create, earliest    bool
	compacted                    bool
	start                        *messageID
	rollback                     uint64 // seconds
	schema                       *schema
	sticky, outOfOrder           bool
	ranges                       []hashRange
	metadata, properties         map[string]string
	epoch                        uint64
	hasEpoch                     bool
}

func (r *subscribeRequest) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			r.name = d.string()
		case 2:
			r.subscription = d.string()
		case 3:
			r.kind = subscriptionType(d.value)
		case 4:
			r.consumerID = d.value
		case 5:
			r.requestID = d.value
		case 6:
			r.consumer = d.string()
		case 7:
			r.priority = int(int32(d.value))
		case 8:
			r.durable = d.bool()
		case 9:
			id := d.messageID()
			r.start = &id
		case 10:
			r.metadata = addPair(r.metadata, d)
		case 11:
			r.compacted = d.bool()
		case 12:
			r.schema = d.schema()
		case 13:
			r.earliest = d.value == 1
		case 15:
			r.create = d.bool()
		case 16:
			r.rollback = d.value
		case 17:
			d.message(r.decodeKeyShared)
		case 18:
			r.properties = addPair(r.properties, d)
		case 19:
			r.epoch, r.hasEpoch = d.value, true
		}
	}
}

func (r *subscribeRequest) decodeKeyShared(d *decoder) {
	switch d.num {
	case 1:
		r.sticky = d.value == 1
	case 3:
		var in hashRange
		d.message(func(f *decoder) {
			switch f.num {
			case 1:
				in.start = int(int32(f.value))
			case 2:
				in.end = int(int32(f.value))
			}
		})
		r.ranges = append(r.ranges, in)
	case 4:
		r.outOfOrder = d.bool()
	}
}
func (r *subscribeRequest) topic(*conn) string { return r.name }

type flowRequest struct {
	consumerID uint64
	permits    uint32
}

func (r *flowRequest) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			r.consumerID = d.value
		case 2:
			r.permits = uint32(d.value)
		}
	}
}
func (r *flowRequest) topic(c *conn) string { return c.consumerTopic(r.consumerID) }
func (*flowRequest) fail(*conn, *refusal)   {}

type ackRequest struct {
	consumerID, requestID uint64
	numbered, cumulative  bool
	inTxn                 bool
	ids                   []messageID
}

func (r *ackRequest) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			r.consumerID = d.value
		case 2:
			r.cumulative = d.value == 1
		case 3:
			r.ids = append(r.ids, d.messageID())
		case 6, 7:
			r.inTxn = r.inTxn || d.value != 0
		case 8:
			r.requestID, r.numbered = d.value, true
		}
	}
}
func (r *ackRequest) topic(c *conn) string { return c.consumerTopic(r.consumerID) }

func (r *ackRequest) fail(c *conn, why *refusal) {
	if r.numbered {
		c.sendAckResponse(r.consumerID, r.requestID, why)
	}
}

type redeliverRequest struct {
	consumerID uint64
	ids        []messageID
	epoch      uint64
	hasEpoch   bool
}

func (r *redeliverRequest) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			r.consumerID = d.value
		case 2:
			r.ids = append(r.ids, d.messageID())
		case 3:
			r.epoch, r.hasEpoch = d.value, true
		}
	}
}
func (r *redeliverRequest) topic(c *conn) string { return c.consumerTopic(r.consumerID) }
func (*redeliverRequest) fail(*conn, *refusal)   {}

// ofConsumer is a numbered request about a consumer.
type ofConsumer struct {
	numbered
	consumerID uint64
}

func (r *ofConsumer) decode(d *decoder)    { r.consumerID, r.requestID = d.numbers() }
func (r *ofConsumer) topic(c *conn) string { return c.consumerTopic(r.consumerID) }

type (
	unsubscribeRequest   struct{ ofConsumer }
	closeConsumerRequest struct{ ofConsumer }
	lastMessageIDRequest struct{ ofConsumer }
)

type consumerStatsRequest struct{ ofConsumer }

func (r *consumerStatsRequest) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			r.requestID = d.value
		case 4:
			r.consumerID = d.value
		}
	}
}

type seekRequest struct {
	ofConsumer
	id     *messageID
	millis uint64
}

func (r *seekRequest) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			r.consumerID = d.value
		case 2:
			r.requestID = d.value
		case 3:
			id := d.messageID()
			r.id = &id
		case 4:
			r.millis = d.value
		}
	}
}
