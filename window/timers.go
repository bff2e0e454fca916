package window

// timers are the instants of event time at which keys are due to be looked at. Keys that are due together share a bucket, since most
// windows end together.
type timers struct {
	heap    []Timestamp // of the buckets
	buckets map[Timestamp]*bucket
	spare   []*bucket
	at      Timestamp // the bucket used last
	last    *bucket
}

// bucket has keys in the order of their coming.
type bucket struct{ ids []int32 }

func newTimers() timers { return timers{buckets: make(map[Timestamp]*bucket)} }

func (t *timers) bucket(at Timestamp) *bucket {
	if t.last != nil && t.at == at {
		return t.last
	}
	b := t.buckets[at]
	if b == nil {
		if n := len(t.spare); n > 0 {
			b, t.spare = t.spare[n-1], t.spare[:n-1]
		} else {
			b = &bucket{}
		}
		t.buckets[at] = b
		t.push(at)
	}
	t.at, t.last = at, b
	return b
}

func (t *timers) add(at Timestamp, id int32) {
	b := t.bucket(at)
	b.ids = append(b.ids, id)
}

// next is when the first bucket is due; false without one.
func (t *timers) next() (Timestamp, bool) {
	if len(t.heap) == 0 {
		return MaxTimestamp, false
	}
	return t.heap[0], true
}

// take removes the first bucket; give it back with release.
func (t *timers) take() *bucket {
	at := t.pop()
	b := t.buckets[at]
	delete(t.buckets, at)
	if t.last == b {
		t.last = nil
	}
	return b
}

// spareBuckets bounds what is kept for reuse.
const spareBuckets = 4096

func (t *timers) release(b *bucket) {
	if len(t.spare) < spareBuckets {
		b.ids = b.ids[:0]
		t.spare = append(t.spare, b)
	}
}

func (t *timers) push(at Timestamp) {
	t.heap = append(t.heap, at)
	h, i := t.heap, len(t.heap)-1
	for i > 0 {
		up := (i - 1) / 2
		if h[up] <= h[i] {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
}

func (t *timers) pop() Timestamp {
	h := t.heap
	top, n := h[0], len(h)-1
	h[0] = h[n]
	h = h[:n]
	t.heap = h
	for i := 0; ; {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && h[down+1] < h[down] {
			down++
		}
		if h[i] <= h[down] {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	return top
}
