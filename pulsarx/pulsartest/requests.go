package pulsartest

// request is a command of a client, decoded. Each kind of command has one, and says on its connection what it means.
type request interface {
	// decode reads the command's body, and copies what it keeps.
	decode(d *decoder)
	// serve carries the command out. It runs on the connection's reader, without any lock held.
	serve(c *conn)
	// fail answers with an error in the form of this command, or does nothing for one that has no answer.
	fail(c *conn, r *refusal)
	// topic is the topic that the command is about, or "" where it is about none.
	topic(c *conn) string
}

var requests = map[command]func() request{
	cmdConnect:             func() request { return &connectRequest{} },
	cmdAuthResponse:        func() request { return &authRequest{} },
	cmdPing:                func() request { return &pingRequest{} },
	cmdPong:                func() request { return &bareRequest{} },
	cmdPartitionedMetadata: func() request { return &partitionsRequest{} },
	cmdLookup:              func() request { return &lookupRequest{} },
	cmdProducer:            func() request { return &producerRequest{userNamed: true} },
	cmdSend:                func() request { return &sendRequest{highestSequenceID: noSequenceID} },
	cmdCloseProducer:       func() request { return &closeProducerRequest{} },
	cmdSubscribe:           func() request { return &subscribeRequest{durable: true, create: true} },
	cmdFlow:                func() request { return &flowRequest{} },
	cmdAck:                 func() request { return &ackRequest{} },
	cmdRedeliver:           func() request { return &redeliverRequest{} },
	cmdUnsubscribe:         func() request { return &unsubscribeRequest{} },
	cmdCloseConsumer:       func() request { return &closeConsumerRequest{} },
	cmdSeek:                func() request { return &seekRequest{} },
	cmdGetLastMessageID:    func() request { return &lastMessageIDRequest{} },
	cmdConsumerStats:       func() request { return &consumerStatsRequest{} },
	cmdGetTopics:           func() request { return &topicsRequest{} },
	cmdWatchTopicList:      func() request { return &watchRequest{} },
	cmdWatchTopicListClose: func() request { return &closeWatchRequest{} },
	cmdGetSchema:           func() request { return &getSchemaRequest{} },
	cmdGetOrCreateSchema:   func() request { return &createSchemaRequest{} },
}

func newRequest(kind command) request {
	if known := requests[kind]; known != nil {
		return known()
	}
	return &unknownRequest{kind: kind}
}

// numbered is a request that is answered under its number.
type numbered struct{ requestID uint64 }

func (r *numbered) fail(c *conn, why *refusal) { c.sendError(r.requestID, why) }

type connectRequest struct {
	method    string
	data      []byte
	version   int32
	refreshes bool // the client answers an AUTH_CHALLENGE
}

func (r *connectRequest) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 3:
			r.data = append([]byte{}, d.bytes...)
		case 4:
			r.version = int32(d.value)
		case 5:
			r.method = d.string()
		case 10:
			d.message(func(f *decoder) { r.refreshes = r.refreshes || f.num == 1 && f.bool() })
		}
	}
}
func (*connectRequest) topic(*conn) string         { return "" }
func (*connectRequest) fail(c *conn, why *refusal) { c.sendError(0, why) }

// authRequest answers an AUTH_CHALLENGE.
type authRequest struct{ connectRequest }

func (r *authRequest) decode(d *decoder) {
	for d.next() {
		if d.num != 2 {
			continue
		}
		d.message(func(f *decoder) {
			switch f.num {
			case 1:
				r.method = f.string()
			case 2:
				r.data = append([]byte{}, f.bytes...)
			}
		})
	}
}

// bareRequest says nothing and wants no answer: PONG.
type bareRequest struct{}

func (*bareRequest) decode(*decoder)      {}
func (*bareRequest) serve(*conn)          {}
func (*bareRequest) fail(*conn, *refusal) {}
func (*bareRequest) topic(*conn) string   { return "" }

type pingRequest struct{ bareRequest }

func (*pingRequest) serve(c *conn) { c.reply(cmdPong, nil) }

// ofTopic is a numbered request about a topic.
type ofTopic struct {
	numbered
	name string
}

func (r *ofTopic) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			r.name = d.string()
		case 2:
			r.requestID = d.value
		}
	}
}
func (r *ofTopic) topic(*conn) string { return r.name }

type partitionsRequest struct {
	ofTopic
	create bool // the topic, where it does not exist
}

func (r *partitionsRequest) decode(d *decoder) {
	r.create = true
	for d.next() {
		switch d.num {
		case 1:
			r.name = d.string()
		case 2:
			r.requestID = d.value
		case 6:
			r.create = d.bool()
		}
	}
}

type lookupRequest struct{ ofTopic }

// accessMode says which producers may share a topic.
type accessMode uint64

const (
	accessShared accessMode = iota
	accessExclusive
	accessWaitForExclusive
	accessExclusiveWithFencing
)

type producerRequest struct {
	numbered
	name, producer string
	producerID     uint64
	epoch          uint64
	userNamed      bool
	schema         *schema
	access         accessMode
	topicEpoch     uint64
	hasTopicEpoch  bool
	initialSub     string
	encrypted      bool
	metadata       map[string]string
}

func (r *producerRequest) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			r.name = d.string()
		case 2:
			r.producerID = d.value
		case 3:
			r.requestID = d.value
		case 4:
			r.producer = d.string()
		case 5:
			r.encrypted = d.bool()
		case 6:
			r.metadata = addPair(r.metadata, d)
		case 7:
			r.schema = d.schema()
		case 8:
			r.epoch = d.value
		case 9:
			r.userNamed = d.bool()
		case 10:
			r.access = accessMode(d.value)
		case 11:
			r.topicEpoch, r.hasTopicEpoch = d.value, true
		case 13:
			r.initialSub = d.string()
		}
	}
}
func (r *producerRequest) topic(*conn) string { return r.name }

func addPair(to map[string]string, d *decoder) map[string]string {
	if to == nil {
		to = map[string]string{}
	}
	key, value := d.pair()
	to[key] = value
	return to
}

// noSequenceID is what a receipt says where a SEND has said nothing.
const noSequenceID = ^uint64(0)

type sendRequest struct {
	producerID, sequenceID, highestSequenceID uint64
	inTxn, chunk                              bool
	entry                                     entry // set by the connection
	err                                       error // of the entry
}

func (r *sendRequest) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			r.producerID = d.value
		case 2:
			r.sequenceID = d.value
		case 4, 5:
			r.inTxn = r.inTxn || d.value != 0
		case 6:
			r.highestSequenceID = d.value
		case 7:
			r.chunk = d.bool()
		}
	}
}

// lastSequenceID is the highest sequence id of a batch.
func (r *sendRequest) lastSequenceID() uint64 {
	if r.highestSequenceID == noSequenceID {
		return r.sequenceID
	}
	return r.highestSequenceID
}

func (r *sendRequest) topic(c *conn) string { return c.producerTopic(r.producerID) }

func (r *sendRequest) fail(c *conn, why *refusal) {
	c.sendSendError(r.producerID, r.sequenceID, why)
}

type closeProducerRequest struct {
	numbered
	producerID uint64
}

func (r *closeProducerRequest) decode(d *decoder)    { r.producerID, r.requestID = d.numbers() }
func (r *closeProducerRequest) topic(c *conn) string { return c.producerTopic(r.producerID) }

type topicsRequest struct {
	numbered
	namespace, pattern, hash string
	mode                     uint64
}

func (r *topicsRequest) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			r.requestID = d.value
		case 2:
			r.namespace = d.string()
		case 3:
			r.mode = d.value
		case 4:
			r.pattern = d.string()
		case 5:
			r.hash = d.string()
		}
	}
}
func (*topicsRequest) topic(*conn) string { return "" }

type watchRequest struct {
	numbered
	watcherID          uint64
	namespace, pattern string
}

func (r *watchRequest) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			r.requestID = d.value
		case 2:
			r.watcherID = d.value
		case 3:
			r.namespace = d.string()
		case 4:
			r.pattern = d.string()
		}
	}
}
func (*watchRequest) topic(*conn) string { return "" }

type closeWatchRequest struct{ watchRequest }

type getSchemaRequest struct {
	requestID uint64
	name      string
	version   []byte
}

func (r *getSchemaRequest) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			r.requestID = d.value
		case 2:
			r.name = d.string()
		case 3:
			r.version = append([]byte{}, d.bytes...)
		}
	}
}
func (r *getSchemaRequest) topic(*conn) string { return r.name }

func (r *getSchemaRequest) fail(c *conn, why *refusal) {
	c.sendSchemaError(cmdGetSchemaResponse, r.requestID, why)
}

type createSchemaRequest struct {
	requestID uint64
	name      string
	schema    *schema
}

func (r *createSchemaRequest) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			r.requestID = d.value
		case 2:
			r.name = d.string()
		case 3:
			r.schema = d.schema()
		}
	}
}
func (r *createSchemaRequest) topic(*conn) string { return r.name }

func (r *createSchemaRequest) fail(c *conn, why *refusal) {
	c.sendSchemaError(cmdGetOrCreateSchemaResp, r.requestID, why)
}

// unknownRequest is a command that this broker does not offer: a transaction's, or one that it has never heard of.
type unknownRequest struct {
	numbered
	kind command
}

func (r *unknownRequest) decode(d *decoder) {
	for d.next() {
		if d.num == 1 && d.bytes == nil {
			r.requestID = d.value
		}
	}
}
func (*unknownRequest) topic(*conn) string { return "" }

func (r *unknownRequest) serve(c *conn) {
	switch r.kind {
	case cmdNewTxn, cmdAddPartitionToTxn, cmdAddSubscriptionToTxn, cmdEndTxn, cmdEndTxnOnPartition,
		cmdEndTxnOnSubscription, cmdTcClientConnect:
		r.fail(c, refuse(notAllowedError, "pulsartest has no transactions"))
	default:
		r.fail(c, refuse(unsupportedVersion, "pulsartest does not know command %d", r.kind))
	}
}
