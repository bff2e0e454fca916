package features

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"
	"unsafe"

	"github.com/tidemark-go/tidemark/window"
)

// Options of a Table. The zero value is ready.
type Options struct {
	// History is how far behind the watermark reads and late events may be. Default one minute; -1 is none.
	History time.Duration
	// Partitions are known from the start, as 0 to n-1, and hold the watermark back until they have events. Others are known from their
	// first event. Default 0.
	Partitions int
	// MaxKeys bounds the keys that have events; it is shared out evenly, so that hashing makes it a little less. Default 16,777,216; -1 is no bound.
	MaxKeys int
	// MaxInstants bounds the instants that a key has events at. Default 1,048,576; -1 is no bound.
	MaxInstants int
	// MaxIDs bounds the event ids that AddID remembers, shared out as MaxKeys. Default 1,048,576.
	MaxIDs int
}

// shards is how many parts of the keys are locked one by one. A snapshot has them in this number.
const shards = 64

// Table is the last so much time of each key. It is safe for concurrent use: keys are shared out to 64 locks.
type Table[K window.Key, V, A, R any] struct {
	key     func(V) K
	longest time.Duration
	hash    func(K) uint64
	shards  [shards]shard[K, V, A, R]

	mu    sync.Mutex // guards marks
	marks *window.Combiner
}

type shard[K window.Key, V, A, R any] struct {
	sync.Mutex // guards operator
	operator   *window.Operator[K, V, A, R]
}

// New makes a Table that groups events by key and answers for spans up to the longest. Its error matches window.ErrOptions.
func New[K window.Key, V, A, R any](key func(V) K, longest time.Duration, g window.Aggregator[V, A, R], o Options) (*Table[K, V, A, R], error) {
	operatorOptions, err := o.window()
	if err != nil {
		return nil, err
	}
	t := &Table[K, V, A, R]{key: key, longest: longest, hash: hashOf[K](), marks: window.NewCombiner(o.Partitions)}
	for i := range t.shards {
		if t.shards[i].operator, err = window.New(key, window.PerEvent(longest), g, operatorOptions); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// window are the options of a shard.
func (o Options) window() (window.Options, error) {
	switch o.History {
	case 0:
		o.History = time.Minute
	case -1:
		o.History = 0
	}
	if o.MaxKeys < -1 || o.MaxIDs < 0 || o.Partitions < 0 {
		return window.Options{}, fmt.Errorf("%w: a bound is negative", window.ErrOptions)
	}
	share := func(n int) int { return max(min(n, 0), (n+shards-1)/shards) }
	return window.Options{
		Watermark:        window.Punctuated(),
		AllowedLateness:  o.History,
		Trigger:          window.Trigger{NoWatermark: true, LateCount: -1},
		MaxKeys:          share(orDefault(o.MaxKeys, 1<<24)),
		MaxWindowsPerKey: o.MaxInstants,
		MaxIDs:           share(orDefault(o.MaxIDs, 1<<20)),
	}, nil
}

func orDefault(v, d int) int {
	if v == 0 {
		return d
	}
	return v
}

// Add adds an event of a partition of the input. The outcome is window.Accepted, or says why it is not: Late behind the span and
// History, Refused at a bound, Rejected by the aggregate. The error is window.ErrTimestamp or nil.
func (t *Table[K, V, A, R]) Add(partition int, at window.Timestamp, v V) (window.Outcome, error) {
	return t.AddID(partition, at, "", v)
}

// AddID is Add for an event with an id: one whose id was accepted before is a window.Duplicate and counts once.
func (t *Table[K, V, A, R]) AddID(partition int, at window.Timestamp, id string, v V) (window.Outcome, error) {
	s := t.shard(t.key(v))
	s.Lock()
	outcome, err := s.operator.ProcessID(0, at, id, v, none)
	s.Unlock()
	if err == nil {
		t.advance(s, partition, at.Add(-1))
	}
	return outcome, err
}

func none[T any](T) {}

// Advance moves the watermark of a partition without an event, as a heartbeat does.
func (t *Table[K, V, A, R]) Advance(partition int, watermark window.Timestamp) {
	for i := range t.shards {
		t.advance(&t.shards[i], partition, watermark)
	}
}

// advance moves the watermark, of which a shard learns when it is next used: until then it only keeps more.
func (t *Table[K, V, A, R]) advance(s *shard[K, V, A, R], partition int, watermark window.Timestamp) {
	t.mu.Lock()
	combined := t.marks.Advance(partition, watermark)
	t.mu.Unlock()
	s.Lock()
	s.operator.Advance(0, combined, none)
	s.Unlock()
}

func (t *Table[K, V, A, R]) shard(k K) *shard[K, V, A, R] {
	return &t.shards[t.hash(k)%shards]
}

// hashOf is the same in every process, so that a snapshot's shards are those of who restores it. Keys that someone chose to be in one shard
// wait for one another and do no other harm.
func hashOf[K window.Key]() func(K) uint64 {
	switch t := reflect.TypeFor[K](); {
	case t.Kind() == reflect.String:
		return func(k K) uint64 {
			s, h := *(*string)(unsafe.Pointer(&k)), uint64(14695981039346656037) // K's kind is string; FNV-1a
			for i := range len(s) {
				h = (h ^ uint64(s[i])) * 1099511628211
			}
			return h ^ h>>32
		}
	case t.Size() == 4:
		return func(k K) uint64 { return mix(uint64(*(*uint32)(unsafe.Pointer(&k)))) }
	}
	return func(k K) uint64 { return mix(*(*uint64)(unsafe.Pointer(&k))) }
}

func mix(h uint64) uint64 {
	h = (h ^ h>>32) * 0x9e3779b97f4a7c15
	return h ^ h>>32
}

// Get is the value of a key's events in [at-span, at], both ends with it, of those added so far; for a key without any it is the result of
// an empty accumulator. To leave out the event that is being asked for, read before it is added. False says that the span is not positive or
// longer than the table's, or so long ago that its events may be gone: with the longest span, when at is History behind the watermark.
func (t *Table[K, V, A, R]) Get(k K, at window.Timestamp, span time.Duration) (R, bool) {
	if span <= 0 || span > t.longest {
		var none R
		return none, false
	}
	s := t.shard(k)
	s.Lock()
	defer s.Unlock()
	return s.operator.Query(k, window.Window{Start: at.Add(-span), End: at.Add(1)})
}

// Watermark is the least of the partitions' watermarks.
func (t *Table[K, V, A, R]) Watermark() window.Timestamp {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.marks.Watermark()
}

// Keys is how many keys have events. It looks at all of them.
func (t *Table[K, V, A, R]) Keys() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		n += s.operator.Keys()
		s.Unlock()
	}
	return n
}

// snapshotMagic begins a snapshot; its last byte is the version.
const snapshotMagic = "tidefea\x01"

// Snapshot writes all events: shard by shard, each of one instant, so that what is added meanwhile is in those that are still to come. Stop
// adding for a snapshot of one position of the input.
func (t *Table[K, V, A, R]) Snapshot(w io.Writer) error {
	if _, err := io.WriteString(w, snapshotMagic); err != nil {
		return fmt.Errorf("features: snapshot: %w", err)
	}
	var b bytes.Buffer
	for i := range t.shards {
		b.Reset()
		s := &t.shards[i]
		s.Lock()
		err := s.operator.Snapshot(&b)
		s.Unlock()
		if err == nil {
			_, err = w.Write(binary.AppendUvarint(nil, uint64(b.Len())))
		}
		if err == nil {
			_, err = w.Write(b.Bytes())
		}
		if err != nil {
			return fmt.Errorf("features: snapshot: %w", err)
		}
	}
	return nil
}

// Restore reads what Snapshot wrote into a Table that is new, and has the same longest span and History. Its errors are those of
// window.Operator.Restore; after one the Table is not to be used.
func (t *Table[K, V, A, R]) Restore(r io.Reader) error {
	in := bufio.NewReader(r)
	magic := make([]byte, len(snapshotMagic))
	if _, err := io.ReadFull(in, magic); err != nil || string(magic) != snapshotMagic {
		return fmt.Errorf("features: %w: it does not begin as one of this version", window.ErrSnapshot)
	}
	for i := range t.shards {
		n, err := binary.ReadUvarint(in)
		if err != nil || n > 1<<62 {
			return fmt.Errorf("features: %w: shard %d is cut off", window.ErrSnapshot, i)
		}
		part := &io.LimitedReader{R: in, N: int64(n)}
		s := &t.shards[i]
		s.Lock()
		err = s.operator.Restore(part)
		s.Unlock()
		if err != nil {
			return fmt.Errorf("features: shard %d: %w", i, err)
		}
		if part.N > 0 {
			return fmt.Errorf("features: %w: shard %d goes on", window.ErrSnapshot, i)
		}
	}
	return nil
}
