package embed

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"go.opentelemetry.io/otel/metric"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// CacheOptions are the options of a [Cache].
type CacheOptions struct {
	// MaxBytes bounds the memory that vectors take, in bytes; what is too much is removed a moment later. Zero: 256 MiB.
	MaxBytes int64
	// TTL is how long a vector is kept after it was last used, so that those in use stay. Zero: 24 hours; -1: until there is no room.
	TTL time.Duration
	// NegativeTTL is how long it is kept that an input was refused for good. Zero: 1 minute; -1: not at all.
	NegativeTTL time.Duration
	// Remote is asked for what is not here, before the embedder, and given what the embedder has made; nil: there is none. What it
	// does not answer within RemoteTimeout, or answers wrong, the embedder makes, and what was wrong is replaced; after three failures
	// in a row it is left alone for 10 seconds. A call waits for one failure at most, also where Remote heeds no context: what it does
	// then goes on by itself, and while three such requests have not ended it is left alone too.
	Remote Remote
	// RemoteTimeout bounds a request to Remote. Zero: 300 ms.
	RemoteTimeout time.Duration
	// MeterProvider is where the metrics go; nil: the global one.
	MeterProvider metric.MeterProvider
}

func (o CacheOptions) withDefaults() CacheOptions {
	const forever = 100 * 365 * 24 * time.Hour
	if o.MaxBytes <= 0 {
		o.MaxBytes = 256 << 20
	}
	if o.RemoteTimeout <= 0 {
		o.RemoteTimeout = 300 * time.Millisecond
	}
	switch {
	case o.TTL == 0:
		o.TTL = 24 * time.Hour
	case o.TTL < 0:
		o.TTL = forever
	}
	if o.NegativeTTL == 0 {
		o.NegativeTTL = time.Minute
	}
	return o
}

// Cache is an [Embedder] that keeps the vectors of another one by the content of the inputs and the model's fingerprint: equal inputs
// are embedded once, also when they come at the same time (but live ones wait for none of a backfill, see [WithPriority]). Looked for are the memory, then Remote, then the embedder.
//
// Inputs are texts or bytes; others are an error of Embed. What the embedder fails to make is not kept, but that it refuses an input for
// good is, for NegativeTTL: an error with a method Permanent() bool that answers true. Nothing is kept of a vector that has NaN in it or is
// unusable otherwise ([ErrVector]). The vectors it returns are the caller's own. A Cache is safe for concurrent use.
type Cache[In any] struct {
	embedder  Embedder[In]
	options   CacheOptions
	local     *otter.Cache[cacheKey, cached]
	remote    *remote // nil: none
	model     []byte  // what the keys of its vectors begin with
	telemetry cacheTelemetry

	mu      sync.Mutex
	flights map[flightKey]*flight // that are on their way
}

// flightKey is what is on its way, and how urgently: a live caller does not wait for what a backfill embeds.
type flightKey struct {
	cacheKey
	Priority
}

// cacheKey is the digest of a model and an input.
type cacheKey [sha256.Size]byte

// cached is a vector, or why there is none.
type cached struct {
	vector []float32
	err    error
}

// flight is an input that one caller embeds and others wait for.
type flight struct {
	done   chan struct{}
	result cached
	gave   bool // the caller gave up, and the others do it themselves
}

// NewCache returns a Cache around e.
func NewCache[In any](e Embedder[In], o CacheOptions) *Cache[In] {
	o = o.withDefaults()
	model := e.Model()
	c := &Cache[In]{
		embedder: e, options: o, flights: map[flightKey]*flight{}, telemetry: newCacheTelemetry(o.MeterProvider),
		model: fmt.Appendf(nil, "%q %d\n", model.Fingerprint, model.Dimensions),
	}
	c.local = otter.Must(&otter.Options[cacheKey, cached]{
		MaximumWeight:    uint64(o.MaxBytes),
		Weigher:          func(_ cacheKey, v cached) uint32 { return v.bytes() },
		ExpiryCalculator: expiry{o},
	})
	if o.Remote != nil {
		c.remote = &remote{Remote: o.Remote, timeout: o.RemoteTimeout, ttl: o.TTL, dims: model.Dimensions, failed: c.telemetry.failed}
	}
	return c
}

// entryBytes is about what an entry takes beside its vector or its error's text.
const entryBytes = 200

// bytes is about what an entry takes.
func (c cached) bytes() uint32 {
	n := entryBytes + 4*len(c.vector)
	if c.err != nil {
		n += len(c.err.Error())
	}
	return uint32(min(n, math.MaxUint32))
}

// expiry lets a vector live from its last use, and an error from when it was found.
type expiry struct{ CacheOptions }

func (e expiry) ExpireAfterCreate(entry otter.Entry[cacheKey, cached]) time.Duration {
	if entry.Value.err != nil {
		return e.NegativeTTL
	}
	return e.TTL
}

func (e expiry) ExpireAfterUpdate(entry otter.Entry[cacheKey, cached], _ cached) time.Duration {
	return e.ExpireAfterCreate(entry)
}

func (e expiry) ExpireAfterRead(entry otter.Entry[cacheKey, cached]) time.Duration {
	if entry.Value.err != nil {
		return entry.ExpiresAfter()
	}
	return e.TTL
}

// Close ends the goroutine that removes what has expired. Embed works after it too, and then removes that by itself. A Cache that nobody
// refers to any more is closed after a while.
func (c *Cache[In]) Close() { c.local.StopAllGoroutines() }

// Model returns the embedder's model.
func (c *Cache[In]) Model() Model { return c.embedder.Model() }

// Embed returns the vectors of inputs; see [Embedder]. Inputs that are equal are embedded once.
func (c *Cache[In]) Embed(ctx context.Context, inputs []In) ([][]float32, error) {
	if len(inputs) == 0 {
		return nil, nil
	}
	keys, err := c.keys(inputs)
	if err != nil {
		return nil, err
	}
	found := make(map[cacheKey]cached, len(inputs))
	for {
		mine, theirs := c.look(ctx, keys, inputs, found)
		if err := c.load(ctx, mine, found); err != nil {
			return nil, err
		}
		if again, err := await(ctx, theirs, found); err != nil {
			return nil, err
		} else if !again {
			break
		}
	}
	vectors, errs := make([][]float32, len(inputs)), make([]error, len(inputs))
	for i, key := range keys {
		vectors[i], errs[i] = slices.Clone(found[key].vector), found[key].err
	}
	return vectors, NewBatchError(errs)
}

// keys returns the keys of inputs.
func (c *Cache[In]) keys(inputs []In) ([]cacheKey, error) {
	keys := make([]cacheKey, len(inputs))
	for i, in := range inputs {
		content, ok := contentOf(in)
		if !ok {
			return nil, itemerror.Permanent(fmt.Errorf("embed: a cache of %T: neither text nor bytes", in))
		}
		h := sha256.New()
		h.Write(c.model)
		h.Write(content)
		h.Sum(keys[i][:0])
	}
	return keys, nil
}

func contentOf[In any](in In) ([]byte, bool) {
	switch v := any(in).(type) {
	case string:
		return []byte(v), true
	case []byte:
		return v, true
	}
	switch v := reflect.ValueOf(in); {
	case v.Kind() == reflect.String:
		return []byte(v.String()), true
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		return v.Bytes(), true
	}
	return nil, false
}

// missing is the inputs that a caller is to embed, and the flights that others wait for.
type missing[In any] struct {
	priority Priority
	keys     []cacheKey
	inputs   []In
	flights  []*flight
}

// look puts what is in memory into found. What is not, others are embedding or the caller is to embed.
func (c *Cache[In]) look(ctx context.Context, keys []cacheKey, inputs []In, found map[cacheKey]cached) (mine missing[In], theirs map[cacheKey]*flight) {
	mine.priority, theirs = PriorityOf(ctx), map[cacheKey]*flight{}
	hits := 0
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, key := range keys {
		if _, ok := found[key]; ok || theirs[key] != nil {
			continue
		}
		if f := c.flight(key, mine.priority); f != nil {
			if !slices.Contains(mine.flights, f) {
				theirs[key] = f
			}
			continue
		}
		if v, ok := c.local.GetIfPresent(key); ok {
			found[key] = v
			hits++
			continue
		}
		f := &flight{done: make(chan struct{}), gave: true} // until it has arrived
		c.flights[flightKey{key, mine.priority}] = f
		mine.keys, mine.inputs, mine.flights = append(mine.keys, key), append(mine.inputs, inputs[i]), append(mine.flights, f)
	}
	c.telemetry.found(ctx, hits, "memory")
	return mine, theirs
}

// flight returns the one of an input that is as urgent as p or more; nil: there is none. c.mu is held.
func (c *Cache[In]) flight(key cacheKey, p Priority) *flight {
	for as := Live; as <= p; as++ {
		if f := c.flights[flightKey{key, as}]; f != nil {
			return f
		}
	}
	return nil
}

// load embeds what is missing, and puts it into found and into memory.
func (c *Cache[In]) load(ctx context.Context, m missing[In], found map[cacheKey]cached) error {
	if len(m.keys) == 0 {
		return nil
	}
	defer c.land(m)
	results := make([]cached, len(m.keys))
	var rest []int // what Remote has not
	answers := c.remote != nil && c.remote.get(ctx, m.keys, results)
	for i := range results {
		if results[i].vector == nil {
			rest = append(rest, i)
		}
	}
	c.telemetry.found(ctx, len(results)-len(rest), "remote")
	made := c.embed(ctx, m, rest, results)
	if answers && len(made.keys) > 0 {
		c.remote.set(ctx, made.keys, made.vectors)
	}
	left := ctx.Err() // what failed then is a matter of this caller: others try it themselves
	for i, r := range results {
		if r.err == nil || left == nil {
			found[m.keys[i]], m.flights[i].result, m.flights[i].gave = r, r, false
		}
		if r.err == nil || left == nil && c.keepsError(r.err) {
			c.local.Set(m.keys[i], r)
		}
	}
	return left
}

// keepsError reports whether an error is one of the input itself. A vector that cannot be used may be the device's fault.
func (c *Cache[In]) keepsError(err error) bool {
	return c.options.NegativeTTL > 0 && itemerror.IsPermanent(err) && !errors.Is(err, ErrVector)
}

// fresh is vectors that the embedder has made.
type fresh struct {
	keys    []cacheKey
	vectors [][]float32
}

// embed fills the results at the places of rest from the embedder, and returns what it has made.
func (c *Cache[In]) embed(ctx context.Context, m missing[In], rest []int, results []cached) (made fresh) {
	if len(rest) == 0 {
		return made
	}
	inputs := make([]In, len(rest))
	for j, i := range rest {
		inputs[j] = m.inputs[i]
	}
	answers, errs := Each(ctx, c.embedder, inputs)
	c.telemetry.found(ctx, len(rest), "embedder")
	for j, i := range rest {
		// A copy: the embedder's may be a part of a whole batch, which one vector would keep in memory.
		results[i] = cached{slices.Clone(answers[j]), errs[j]}
		if errs[j] == nil {
			made.keys, made.vectors = append(made.keys, m.keys[i]), append(made.vectors, results[i].vector)
		}
	}
	return made
}

// land ends the flights of a caller, also after a panic of the embedder.
func (c *Cache[In]) land(m missing[In]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, key := range m.keys {
		delete(c.flights, flightKey{key, m.priority})
		close(m.flights[i].done)
	}
}

// await waits for what others embed. It reports whether some of them gave up.
func await(ctx context.Context, theirs map[cacheKey]*flight, found map[cacheKey]cached) (again bool, err error) {
	for key, f := range theirs {
		select {
		case <-f.done:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		if f.gave {
			again = true
		} else {
			found[key] = f.result
		}
	}
	return again, nil
}
