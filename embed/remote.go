package embed

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Remote is a second level of a [Cache] that several processes share, such as Redis, for which the example has the whole code.
// Implementations are safe for concurrent use. Their errors cost a request, and no vector; they are counted and not logged.
type Remote interface {
	// Get returns a value for each key, in their order; nil: there is none.
	Get(ctx context.Context, keys []string) ([][]byte, error)
	// Set keeps a value for each key, for about as long as ttl.
	Set(ctx context.Context, keys []string, values [][]byte, ttl time.Duration) error
}

// remote is Remote with its limits: its failures cost a timeout at times, and never a vector.
type remote struct {
	Remote
	timeout, ttl time.Duration
	dims         int
	failed       func(ctx context.Context, n int, why string)

	behind atomic.Int32 // requests that nobody waits for any more, and that have not ended

	mu       sync.Mutex
	failures int       // in a row
	until    time.Time // when it is asked again
}

const (
	remoteFailures = 3
	remotePause    = 10 * time.Second
	remoteGrace    = 50 * time.Millisecond // for a request to end when its context has
)

var errRemote = errors.New("embed: the remote cache answered something else")

// get fills results with what Remote has of keys, and reports whether it answered. What is no vector of the model it does not have.
func (r *remote) get(ctx context.Context, keys []cacheKey, results []cached) bool {
	values, ok := r.try(ctx, func(ctx context.Context) ([][]byte, error) {
		values, err := r.Get(ctx, names(keys))
		if err == nil && len(values) != len(keys) {
			err = errRemote
		}
		return values, err
	})
	wrong := 0
	for i, value := range values {
		if value == nil {
			continue
		}
		if v, err := decodeVector(value, r.dims); err != nil {
			wrong++
		} else {
			results[i].vector = v
		}
	}
	r.failed(ctx, wrong, "value")
	return ok
}

// set gives Remote the vectors of keys.
func (r *remote) set(ctx context.Context, keys []cacheKey, vectors [][]float32) {
	values := make([][]byte, len(vectors))
	for i, v := range vectors {
		values[i] = encodeVector(v)
	}
	r.try(ctx, func(ctx context.Context) ([][]byte, error) { return nil, r.Set(ctx, names(keys), values, r.ttl) })
}

// try makes a request, unless Remote is left alone, and reports whether it succeeded. A caller who leaves is no failure of Remote's.
func (r *remote) try(ctx context.Context, request func(ctx context.Context) ([][]byte, error)) ([][]byte, bool) {
	r.mu.Lock()
	alone := time.Now().Before(r.until)
	r.mu.Unlock()
	if alone || r.behind.Load() >= remoteFailures {
		return nil, false
	}
	values, err := r.bounded(ctx, request)
	if err != nil && ctx.Err() != nil {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.failures = 0
		return values, true
	}
	r.failed(ctx, 1, reason(err))
	if r.failures++; r.failures >= remoteFailures {
		r.failures, r.until = 0, time.Now().Add(remotePause)
	}
	return nil, false
}

// bounded makes a request in a goroutine that is left behind where it heeds no context. A panic is an error.
func (r *remote) bounded(ctx context.Context, request func(ctx context.Context) ([][]byte, error)) ([][]byte, error) {
	type answer struct {
		values [][]byte
		err    error
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	answers := make(chan answer, 1)
	var parted atomic.Bool // one of the two who wait for each other has gone
	go func() {
		a := answer{err: errRemote}
		defer func() {
			_ = recover() // errRemote then
			answers <- a
			if parted.Swap(true) {
				r.behind.Add(-1)
			}
		}()
		values, err := request(ctx)
		a = answer{values, err}
	}()
	select {
	case a := <-answers:
		return a.values, a.err
	case <-ctx.Done():
	}
	select {
	case <-answers:
	case <-time.After(remoteGrace):
		if r.behind.Add(1); parted.Swap(true) {
			r.behind.Add(-1)
		}
	}
	return nil, ctx.Err()
}

// reason is what a failure is counted as.
func reason(err error) string {
	var timeout interface{ Timeout() bool } // also context.DeadlineExceeded
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timeout"
	}
	return "error"
}

func names(keys []cacheKey) []string {
	all := make([]string, len(keys))
	for i, key := range keys {
		all[i] = "tidemark:embed:" + hex.EncodeToString(key[:])
	}
	return all
}

// vectorVersion is the first byte of an encoded vector; its components follow, little-endian.
const vectorVersion = 1

func encodeVector(v []float32) []byte {
	data := make([]byte, 1, 1+4*len(v))
	data[0] = vectorVersion
	for _, x := range v {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return data
}

func decodeVector(data []byte, dims int) ([]float32, error) {
	if len(data)%4 != 1 || data[0] != vectorVersion || dims > 0 && len(data) != 1+4*dims {
		return nil, errRemote
	}
	v := make([]float32, len(data)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[1+4*i:]))
	}
	return v, CheckVector(v, dims)
}
