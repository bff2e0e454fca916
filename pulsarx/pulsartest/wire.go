package pulsartest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// The wire format of Pulsar's binary protocol:
//
//	frame   = u32 size, u32 command size, BaseCommand, [entry]
//	entry   = [u16 0x0e01, u32 CRC32C of what follows], u32 metadata size, MessageMetadata, payload
//	payload = the message, or for a batch: repeated u32 size, SingleMessageMetadata, message
//
// Sizes are big-endian; the commands are protobuf messages, read and written here field by field.
const (
	maxMessageSize = 5 << 20
	maxFrameSize   = maxMessageSize + 10<<10
	magicChecksum  = 0x0e01
)

var (
	errFrame    = errors.New("pulsartest: malformed frame")
	errChecksum = errors.New("pulsartest: checksum mismatch")
	castagnoli  = crc32.MakeTable(crc32.Castagnoli)
)

// command is the type of a BaseCommand. In BaseCommand the field that holds the command has the same number.
type command uint64

const (
	cmdConnect                 command = 2
	cmdConnected               command = 3
	cmdSubscribe               command = 4
	cmdProducer                command = 5
	cmdSend                    command = 6
	cmdSendReceipt             command = 7
	cmdSendError               command = 8
	cmdMessage                 command = 9
	cmdAck                     command = 10
	cmdFlow                    command = 11
	cmdUnsubscribe             command = 12
	cmdSuccess                 command = 13
	cmdError                   command = 14
	cmdCloseProducer           command = 15
	cmdCloseConsumer           command = 16
	cmdProducerSuccess         command = 17
	cmdPing                    command = 18
	cmdPong                    command = 19
	cmdRedeliver               command = 20
	cmdPartitionedMetadata     command = 21
	cmdPartitionedMetadataResp command = 22
	cmdLookup                  command = 23
	cmdLookupResponse          command = 24
	cmdConsumerStats           command = 25
	cmdConsumerStatsResponse   command = 26
	cmdSeek                    command = 28
	cmdReachedEndOfTopic       command = 27
	cmdGetLastMessageID        command = 29
	cmdGetLastMessageIDResp    command = 30
	cmdActiveConsumerChange    command = 31
	cmdGetTopics               command = 32
	cmdGetTopicsResponse       command = 33
	cmdGetSchema               command = 34
	cmdGetSchemaResponse       command = 35
	cmdAuthChallenge           command = 36
	cmdAuthResponse            command = 37
	cmdAckResponse             command = 38
	cmdGetOrCreateSchema       command = 39
	cmdGetOrCreateSchemaResp   command = 40
	cmdNewTxn                  command = 50
	cmdAddPartitionToTxn       command = 52
	cmdAddSubscriptionToTxn    command = 54
	cmdEndTxn                  command = 56
	cmdEndTxnOnPartition       command = 58
	cmdEndTxnOnSubscription    command = 60
	cmdTcClientConnect         command = 62
	cmdWatchTopicList          command = 64
	cmdWatchTopicListSuccess   command = 65
	cmdWatchTopicUpdate        command = 66
	cmdWatchTopicListClose     command = 67
)

// serverError is the code of a refusal; clients recognise it by its name.
type serverError uint64

const (
	unknownError        serverError = 0
	metadataError       serverError = 1
	authenticationError serverError = 3
	consumerBusy        serverError = 5
	serviceNotReady     serverError = 6

	producerBlockedQuotaError     serverError = 7
	producerBlockedQuotaException serverError = 8

	checksumError       serverError = 9
	unsupportedVersion  serverError = 10
	topicNotFound       serverError = 11
	subscriptionMissing serverError = 12
	tooManyRequests     serverError = 14
	topicTerminated     serverError = 15
	producerBusy        serverError = 16
	invalidTopicName    serverError = 17
	incompatibleSchema  serverError = 18
	consumerAssignError serverError = 19
	notAllowedError     serverError = 22
	producerFenced      serverError = 25
)

var serverErrorNames = strings.Fields(`UnknownError MetadataError PersistenceError AuthenticationError AuthorizationError
	ConsumerBusy ServiceNotReady ProducerBlockedQuotaExceededError ProducerBlockedQuotaExceededException ChecksumError
	UnsupportedVersionError TopicNotFound SubscriptionNotFound ConsumerNotFound TooManyRequests TopicTerminatedError
	ProducerBusy InvalidTopicName IncompatibleSchema ConsumerAssignError TransactionCoordinatorNotFound InvalidTxnStatus
	NotAllowedError TransactionConflict TransactionNotFound ProducerFenced`)

func (e serverError) String() string {
	if int(e) < len(serverErrorNames) {
		return serverErrorNames[e]
	}
	return fmt.Sprintf("ServerError(%d)", uint64(e))
}

// refusal is an error that a client is told.
type refusal struct {
	code serverError
	text string
}

func (r *refusal) Error() string { return r.code.String() + ": " + r.text }

func refuse(code serverError, format string, args ...any) *refusal {
	return &refusal{code: code, text: fmt.Sprintf(format, args...)}
}

// frame is one command as it came, with the entry that a SEND carries.
type frame struct {
	kind  command
	body  []byte
	entry []byte
}

// readFrame reads one frame. Its slices point into buf, which grows as needed and is returned for the next call.
func readFrame(r *bufio.Reader, buf []byte) (frame, []byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return frame{}, buf, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > maxFrameSize {
		return frame{}, buf, fmt.Errorf("%w: %d bytes", errFrame, n)
	}
	if cap(buf) < int(n) {
		buf = make([]byte, max(int(n), 4096))
	}
	buf = buf[:n]
	if _, err := io.ReadFull(r, buf); err != nil {
		return frame{}, buf, err
	}
	f, err := parseFrame(buf)
	return f, buf, err
}

// parseFrame takes a frame, without its leading size, apart.
func parseFrame(b []byte) (frame, error) {
	if len(b) < 4 {
		return frame{}, fmt.Errorf("%w: no command", errFrame)
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(n) > uint64(len(b)-4) {
		return frame{}, fmt.Errorf("%w: a command of %d bytes in a frame of %d", errFrame, n, len(b))
	}
	f := frame{entry: b[4+n:]}
	bodies := decoder{rest: b[4 : 4+n]}
	for bodies.next() {
		if bodies.num == 1 {
			f.kind = command(bodies.value)
		} else if bodies.num == protowire.Number(f.kind) {
			f.body = bodies.bytes
		}
	}
	if bodies.err != nil {
		return frame{}, fmt.Errorf("%w: %w", errFrame, bodies.err)
	}
	if f.kind == 0 {
		return frame{}, fmt.Errorf("%w: no command type", errFrame)
	}
	return f, nil
}

// decoder walks the fields of a protobuf message: num is the field, value what a number holds, bytes what anything else holds.
// bytes points into the message.
type decoder struct {
	rest  []byte
	num   protowire.Number
	value uint64
	bytes []byte
	err   error
}

func (d *decoder) next() bool {
	if len(d.rest) == 0 || d.err != nil {
		return false
	}
	num, kind, n := protowire.ConsumeTag(d.rest)
	if n < 0 {
		d.err = protowire.ParseError(n)
		return false
	}
	d.rest, d.num, d.value, d.bytes = d.rest[n:], num, 0, nil
	switch kind {
	case protowire.VarintType:
		d.value, n = protowire.ConsumeVarint(d.rest)
	case protowire.BytesType:
		d.bytes, n = protowire.ConsumeBytes(d.rest)
	case protowire.Fixed32Type:
		var v uint32
		v, n = protowire.ConsumeFixed32(d.rest)
		d.value = uint64(v)
	case protowire.Fixed64Type:
		d.value, n = protowire.ConsumeFixed64(d.rest)
	default:
		n = protowire.ConsumeFieldValue(num, kind, d.rest)
	}
	if n < 0 {
		d.err = protowire.ParseError(n)
		return false
	}
	d.rest = d.rest[n:]
	return true
}

// numbers reads those of the fields 1 and 2, which is all that many commands have.
func (d *decoder) numbers() (first, second uint64) {
	for d.next() {
		switch d.num {
		case 1:
			first = d.value
		case 2:
			second = d.value
		}
	}
	return first, second
}

func (d *decoder) string() string { return string(d.bytes) }
func (d *decoder) bool() bool     { return d.value != 0 }

// words appends the numbers of a repeated field, packed or not.
func (d *decoder) words(to []uint64) []uint64 {
	if d.bytes == nil {
		return append(to, d.value)
	}
	for b := d.bytes; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			d.err = protowire.ParseError(n)
			return to
		}
		to, b = append(to, v), b[n:]
	}
	return to
}

// message decodes an embedded message by f.
func (d *decoder) message(f func(*decoder)) {
	in := decoder{rest: d.bytes}
	for in.next() {
		f(&in)
	}
	d.err = errors.Join(d.err, in.err)
}

// pair decodes an embedded KeyValue.
func (d *decoder) pair() (key, value string) {
	d.message(func(kv *decoder) {
		switch kv.num {
		case 1:
			key = kv.string()
		case 2:
			value = kv.string()
		}
	})
	return key, value
}

func appendUint(b []byte, num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

func appendBool(b []byte, num protowire.Number, v bool) []byte {
	return appendUint(b, num, protowire.EncodeBool(v))
}

func appendBytes(b []byte, num protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
}

func appendString(b []byte, num protowire.Number, v string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), v)
}

func appendStrings(b []byte, num protowire.Number, all ...string) []byte {
	for _, v := range all {
		b = appendString(b, num, v)
	}
	return b
}

// appendFrame appends the head of a frame: its sizes and the command, whose body is given. An entry of entrySize bytes follows it.
func appendFrame(b []byte, kind command, body []byte, entrySize int) []byte {
	size := protowire.SizeTag(1) + protowire.SizeVarint(uint64(kind)) +
		protowire.SizeTag(protowire.Number(kind)) + protowire.SizeBytes(len(body))
	b = binary.BigEndian.AppendUint32(b, uint32(4+size+entrySize))
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	b = appendUint(b, 1, uint64(kind))
	return appendBytes(b, protowire.Number(kind), body)
}

// messageID is MessageIdData. A negative ledger or entry travels as the unsigned number of the same bits.
type messageID struct {
	ledger, entry         int64
	partition, batchIndex int
	ackSet                []uint64 // one bit a message of the batch, set while it is not acknowledged
}

func (d *decoder) messageID() messageID {
	id := messageID{partition: -1, batchIndex: -1}
	d.message(func(f *decoder) {
		switch f.num {
		case 1:
			id.ledger = int64(f.value)
		case 2:
			id.entry = int64(f.value)
		case 3:
			id.partition = int(int32(f.value))
		case 4:
			id.batchIndex = int(int32(f.value))
		case 5:
			id.ackSet = f.words(id.ackSet)
		}
	})
	return id
}

// idFields says how much of a message id an answer has; Pulsar differs by command.
type idFields int

const (
	justEntry idFields = iota
	withPartition
	withBatchIndex
)

func appendMessageID(b []byte, num protowire.Number, id messageID, fields idFields) []byte {
	body := make([]byte, 0, 48)
	body = appendUint(body, 1, uint64(id.ledger))
	body = appendUint(body, 2, uint64(id.entry))
	if fields >= withPartition {
		body = appendUint(body, 3, uint64(id.partition))
	}
	if fields >= withBatchIndex {
		body = appendUint(body, 4, uint64(id.batchIndex))
	}
	return appendBytes(b, num, body)
}
