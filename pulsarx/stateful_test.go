package pulsarx_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// counts is a Processor: it emits how often it has seen a key.
type counts struct {
	seen map[string]int
	fail func(value string) error
}

func newCounts(pulsarx.Partition) (pulsarx.Processor[string, string], error) {
	return &counts{seen: map[string]int{}}, nil
}

func (c *counts) Process(m pulsarx.Message[string], emit func(string)) error {
	if c.fail != nil {
		if err := c.fail(m.Value); err != nil {
			return err
		}
	}
	c.seen[m.Key]++
	emit(fmt.Sprintf("%s:%d:%s", m.Key, c.seen[m.Key], m.Value))
	if c.seen[m.Key]%5 == 0 {
		emit(fmt.Sprintf("%s:five", m.Key))
	}
	return nil
}

func (c *counts) Snapshot(w io.Writer) error { return json.NewEncoder(w).Encode(c.seen) }
func (c *counts) Restore(r io.Reader) error  { return json.NewDecoder(r).Decode(&c.seen) }

// clean is what one clean run emits for the values, by key.
func clean(values []string) map[string][]string {
	want := map[string][]string{}
	c := &counts{seen: map[string]int{}}
	for _, v := range values {
		_ = c.Process(pulsarx.Message[string]{Value: v, Key: keyOf(v)}, func(out string) {
			want[keyOf(v)] = append(want[keyOf(v)], out)
		})
	}
	return want
}

// deduplicating is a namespace of the test's own whose topics drop what they already have, and keep all that they have.
func deduplicating(tb testing.TB, c *pulsarx.Client) string {
	tb.Helper()
	namespace := fmt.Sprintf("public/stateful-%d-%d", os.Getpid(), time.Now().UnixNano())
	if err := c.Admin(tb.Context(), "PUT", "/namespaces/"+namespace, nil, nil); err != nil {
		tb.Fatal(err)
	}
	if err := c.Admin(tb.Context(), "POST", "/namespaces/"+namespace+"/deduplication", true, nil); err != nil {
		tb.Fatal(err)
	}
	forever := map[string]int{"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
	if err := c.Admin(tb.Context(), "POST", "/namespaces/"+namespace+"/retention", forever, nil); err != nil {
		tb.Fatal(err)
	}
	return "persistent://" + namespace + "/"
}

// outputs are the values of a topic, by key, as soon as the broker gives them.
func outputs(tb testing.TB, c *pulsarx.Client, topic string) map[string][]string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 60*time.Second)
	defer cancel()
	for {
		got := map[string][]string{}
		err := pulsarx.Replay(ctx, c, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{topic}},
			func(_ context.Context, batch []pulsarx.Message[string]) error {
				for _, m := range batch {
					got[m.Key] = append(got[m.Key], m.Value)
				}
				return nil
			})
		switch {
		case err == nil, errors.Is(err, pulsarx.ErrNoTopic):
			return got
		case ctx.Err() != nil:
			tb.Fatal(err)
		}
		tb.Log(err) // of a broker that is busy, or moves the topic
		time.Sleep(100 * time.Millisecond)
	}
}

func count(m map[string][]string) (n int) {
	for _, list := range m {
		n += len(list)
	}
	return n
}

// equalOutputs waits until the topic has as many values as it should, as long as there come more, and compares them.
func equalOutputs(tb testing.TB, c *pulsarx.Client, topic string, want map[string][]string) {
	tb.Helper()
	var got map[string][]string
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		before := count(got)
		if got = outputs(tb, c, topic); count(got) >= count(want) {
			break
		}
		if count(got) > before {
			deadline = time.Now().Add(60 * time.Second)
		}
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		tb.Fatalf("%d outputs, want %d:\n%.2000v\nwant\n%.2000v", count(got), count(want), got, want)
	}
}

func stateful(ctx context.Context, c *pulsarx.Client, in, out string, store pulsarx.CheckpointStore,
	factory func(pulsarx.Partition) (pulsarx.Processor[string, string], error),
) error {
	return pulsarx.RunStateful(ctx, c, pulsarx.String(),
		pulsarx.StatefulOptions{Topic: in, Subscription: "counts", Interval: 20 * time.Millisecond}, factory,
		pulsarx.Output[string]{Codec: pulsarx.String(), Producer: pulsarx.ProducerOptions[string]{Topic: out, Key: keyOf}}, store)
}

func keyedValues(n, keys int) (values []string) {
	for i := range n {
		values = append(values, fmt.Sprintf("k%d:%d", i%keys, i))
	}
	return values
}

func TestStateful(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c := s.client(t)
			namespace := deduplicating(t, c)
			in, out := namespace+"in", namespace+"out"
			createPartitions(t, c, in, 3)
			createPartitions(t, c, out, 2)
			store, err := pulsarx.NewDirStore(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			values := keyedValues(300, 13)
			p := keyed(t, c, in)
			for part := range slices.Chunk(values, 100) { // each in a run of its own
				sendAll(t, p, part)
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- stateful(ctx, c, in, out, store, newCounts) }()
				want := clean(values[:slices.Index(values, part[len(part)-1])+1])
				equalOutputs(t, c, out, want)
				stop()
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			if s.broker != nil && s.broker.Backlog(in, "counts") != 0 {
				t.Errorf("%d messages are not acknowledged", s.broker.Backlog(in, "counts"))
			}
			var mu sync.Mutex
			replayed := map[string][]string{}
			err = pulsarx.ReplayStateful(t.Context(), c, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{in}}, newCounts,
				func(v string) error {
					mu.Lock()
					defer mu.Unlock()
					replayed[keyOf(v)] = append(replayed[keyOf(v)], v)
					return nil
				})
			if err != nil || !maps.EqualFunc(replayed, clean(values), slices.Equal) {
				t.Errorf("the replay is another: %v", err)
			}
		})
	}
}

// alternating is a Processor that emits values with a key and without one in turns.
type alternating struct{ counts }

func (a *alternating) Process(m pulsarx.Message[string], emit func(string)) error {
	for i := range 3 {
		emit(fmt.Sprintf("%s.%d", m.Value, i))
		emit(fmt.Sprintf("no key %s.%d", m.Value, i))
	}
	return nil
}

// TestStatefulOrder: outputs come in the order in which they are emitted, those without a key among them, as the replay says.
func TestStatefulOrder(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			c := connect(t).client(t)
			namespace := deduplicating(t, c)
			in, out := namespace+"in", namespace+"out"
			store, err := pulsarx.NewDirStore(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			factory := func(pulsarx.Partition) (pulsarx.Processor[string, string], error) {
				return &alternating{counts{seen: map[string]int{}}}, nil
			}
			sendAll(t, keyed(t, c, in), keyedValues(20, 5))
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- pulsarx.RunStateful(ctx, c, pulsarx.String(), pulsarx.StatefulOptions{Topic: in, Subscription: "order"}, factory,
					pulsarx.Output[string]{Codec: pulsarx.String(), Producer: pulsarx.ProducerOptions[string]{Topic: out, Key: func(v string) string {
						if strings.HasPrefix(v, "no key") {
							return ""
						}
						return keyOf(v)
					}}}, store)
			}()
			var want []string
			err = pulsarx.ReplayStateful(t.Context(), c, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{in}}, factory,
				func(v string) error { want = append(want, v); return nil })
			if err != nil || len(want) != 120 {
				t.Fatalf("the replay has %d: %v", len(want), err)
			}
			eventually(t, "the outputs", func() bool { return count(outputs(t, c, out)) >= len(want) })
			stop()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			var got []string
			err = pulsarx.Replay(t.Context(), c, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{out}},
				pulsarx.Values(func(_ context.Context, batch []string) error { got = append(got, batch...); return nil }))
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("published %q, replayed %q: %v", got, want, err)
			}
		})
	}
}

var errCrash = errors.New("crash")

// crashing is a CheckpointStore that dies around one of its saves.
type crashing struct {
	*pulsarx.DirStore
	left  atomic.Int64
	after bool // it has saved
}

func (s *crashing) Save(ctx context.Context, name string, generation uint64, write func(io.Writer) error) error {
	if s.left.Add(-1) != 0 {
		return s.DirStore.Save(ctx, name, generation, write)
	}
	if !s.after {
		return errCrash
	}
	return errors.Join(errCrash, s.DirStore.Save(ctx, name, generation, write))
}

// TestStatefulCrashes: the job dies in each message and around checkpoints, and connections break at each kind of command. The
// outputs are those of a clean run, whatever has happened.
func TestStatefulCrashes(t *testing.T) {
	t.Parallel()
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c := s.client(t)
			namespace := deduplicating(t, c)
			in, out := namespace+"in", namespace+"out"
			createPartitions(t, c, in, 2)
			createPartitions(t, c, out, 2)
			seed := uint64(time.Now().UnixNano())
			t.Log("seed", seed)
			rng := rand.New(rand.NewPCG(seed, 3))
			dir, err := pulsarx.NewDirStore(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			values := keyedValues(100, 7)
			p := keyed(t, c, in)
			for from := 0; from < len(values); from += 10 {
				sendAll(t, p, values[from:from+10])
				store := &crashing{DirStore: dir, after: rng.IntN(2) == 0}
				var left atomic.Int64
				factory := newCounts
				remove := func() {}
				switch rng.IntN(4) {
				case 0: // around a checkpoint
					store.left.Store(1 + rng.Int64N(2))
				case 1: // in a message
					left.Store(1 + rng.Int64N(10))
					factory = func(pulsarx.Partition) (pulsarx.Processor[string, string], error) {
						return &counts{seen: map[string]int{}, fail: func(string) error {
							if left.Add(-1) == 0 {
								return errCrash
							}
							return nil
						}}, nil
					}
				case 2: // on the wire
					if s.broker != nil && !raceDetector {
						commands := []string{"SEND", "ACK", "FLOW", "SUBSCRIBE", "PRODUCER"}
						remove = s.broker.Inject(pulsartest.Fault{Command: commands[rng.IntN(len(commands))], After: rng.IntN(6), Count: 1, Disconnect: true})
					}
				case 3: // the broker
					if s.broker != nil && !raceDetector {
						time.AfterFunc(time.Duration(rng.IntN(60))*time.Millisecond, func() { _ = s.broker.Restart() })
					}
				}
				ctx, stop := context.WithTimeout(t.Context(), time.Duration(50+rng.IntN(250))*time.Millisecond)
				err := stateful(ctx, c, in, out, store, factory)
				stop()
				remove()
				if err != nil && !errors.Is(err, errCrash) && s.broker == nil {
					t.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- stateful(ctx, c, in, out, dir, newCounts) }()
			equalOutputs(t, c, out, clean(values))
			stop()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestStatefulFaults: the connection breaks at each command of a job and of its checkpoints, with and without the broker's having carried
// it out. The outputs are those of a clean run.
func TestStatefulFaults(t *testing.T) {
	s := inProcess(t)
	c := s.client(t)
	values := keyedValues(8, 2)
	points := map[string]int{
		"SEND": 12, "ACK": 2, "PRODUCER": 4, "SUBSCRIBE": 4, "FLOW": 3, "LOOKUP": 4, "GET_LAST_MESSAGE_ID": 2, "CLOSE_PRODUCER": 2,
		"CLOSE_CONSUMER": 2,
	}
	if raceDetector { // of which the client's own errors are then
		points = map[string]int{"SEND": 12}
	}
	for command, most := range points {
		for after := range most {
			for _, carried := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%v", command, after, carried), func(t *testing.T) {
					namespace := deduplicating(t, c)
					in, out := namespace+"in", namespace+"out"
					store := topicStore(t, c, pulsarx.TopicStoreOptions{Topic: namespace + "checkpoints", ChunkBytes: 16, CompactAfter: 1})
					p := keyed(t, c, in)
					sendAll(t, p, values[:4])
					own := s.client(t)
					remove := s.broker.Inject(pulsartest.Fault{Command: command, After: after, Count: 1, Disconnect: true, DropAnswer: carried})
					ctx, stop := context.WithCancel(t.Context())
					done := make(chan error, 1)
					go func() {
						err := stateful(ctx, own, in, out, store, newCounts)
						if err != nil && ctx.Err() == nil { // it could not connect for the first time: whoever started it does so again
							err = stateful(ctx, own, in, out, store, newCounts)
						}
						done <- err
					}()
					eventually(t, "half of the outputs", func() bool { return len(s.broker.Messages(out)) >= count(clean(values[:4])) })
					remove()
					sendAll(t, p, values[4:])
					equalOutputs(t, c, out, clean(values))
					stop()
					if err := <-done; err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// TestStatefulRefused: once a job runs, a partition that the broker refuses, one that comes back or a new one, is asked for again.
func TestStatefulRefused(t *testing.T) {
	s := inProcess(t)
	c := s.client(t)
	for name, happens := range map[string]func(in string){
		"moved": func(in string) {
			if err := c.Admin(t.Context(), http.MethodPut, adminPath(in, "/unload"), nil, nil); err != nil {
				t.Fatal(err)
			}
		},
		"grown": func(in string) { setPartitions(t, s, http.MethodPost, in, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			namespace := deduplicating(t, c)
			in, out := namespace+"in", namespace+"out"
			createPartitions(t, c, in, 1)
			store, err := pulsarx.NewDirStore(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			values := []string{"a:0", "b:1", "c:2", "d:3", "e:4", "f:5", "g:6", "h:7"} // each of a key of its own: growing moves keys
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			done := make(chan error, 1)
			go func() {
				done <- pulsarx.RunStateful(ctx, c, pulsarx.String(),
					pulsarx.StatefulOptions{Topic: in, Subscription: "counts", Discovery: 20 * time.Millisecond}, newCounts,
					pulsarx.Output[string]{Codec: pulsarx.String(), Producer: pulsarx.ProducerOptions[string]{Topic: out, Key: keyOf}}, store)
			}()
			sendAll(t, keyed(t, c, in), values[:2])
			equalOutputs(t, c, out, clean(values[:2]))
			defer s.broker.Inject(pulsartest.Fault{Command: "SUBSCRIBE", Topic: in, Count: 3, Error: "ServiceNotReady"})()
			happens(in)
			sendAll(t, keyed(t, c, in), values[2:])
			equalOutputs(t, c, out, clean(values))
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStatefulErrors: what ends a job, and what goes to the dead letters.
func TestStatefulErrors(t *testing.T) {
	s := inProcess(t)
	c := s.client(t)
	namespace := deduplicating(t, c)
	store, err := pulsarx.NewDirStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sendAll(t, keyed(t, c, "in"), keyedValues(5, 1))
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := stateful(ctx, c, "in", "plain", store, newCounts); !errors.Is(err, pulsarx.ErrNoDeduplication) {
		t.Errorf("without deduplication: %v", err)
	}
	panics := func(pulsarx.Partition) (pulsarx.Processor[string, string], error) {
		return &counts{fail: func(string) error { panic("poison") }}, nil
	}
	if err := stateful(ctx, c, "in", namespace+"out", store, panics); err == nil || !strings.Contains(err.Error(), "poison") {
		t.Errorf("a panic: %v", err)
	}
	if err := stateful(ctx, c, "", "", store, newCounts); err == nil {
		t.Error("bad options run")
	}
	statefulPanics(ctx, t, c, namespace)
	permanent := func(pulsarx.Partition) (pulsarx.Processor[string, string], error) {
		return &counts{seen: map[string]int{}, fail: func(v string) error {
			if v == "k0:2" {
				return pulsarx.Permanent(errors.New("no"))
			}
			return nil
		}}, nil
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- stateful(running, c, "in", namespace+"out", store, permanent) }()
	equalOutputs(t, c, namespace+"out", clean([]string{"k0:0", "k0:1", "k0:3", "k0:4"}))
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := s.broker.Messages("in-counts-DLQ"); len(got) != 1 || string(got[0].Value) != "k0:2" {
		t.Errorf("dead letters %v", got)
	}
}

// brittle is a Processor that panics where it is told to.
type brittle struct {
	*counts
	in string
}

func (b brittle) Snapshot(w io.Writer) error {
	if b.in == "Snapshot" {
		panic("poison")
	}
	return b.counts.Snapshot(w)
}

func (b brittle) Restore(r io.Reader) error {
	if b.in == "Restore" {
		panic("poison")
	}
	return b.counts.Restore(r)
}

// statefulPanics: a panic of a processor outside of Process is an error of the run too, and leaves the store as it was.
func statefulPanics(ctx context.Context, t *testing.T, c *pulsarx.Client, namespace string) {
	t.Helper()
	values := keyedValues(5, 1)
	sendAll(t, keyed(t, c, namespace+"panics"), values)
	for name, store := range map[string]pulsarx.CheckpointStore{
		"folder": dirStore(t), "topic": topicStore(t, c, pulsarx.TopicStoreOptions{Topic: namespace + "panics-checkpoints"}),
	} {
		out := namespace + "panics-" + name
		run := func(ctx context.Context, in string) error {
			return pulsarx.RunStateful(ctx, c, pulsarx.String(),
				pulsarx.StatefulOptions{Topic: namespace + "panics", Subscription: name, Interval: 20 * time.Millisecond},
				func(pulsarx.Partition) (pulsarx.Processor[string, string], error) {
					switch in {
					case "factory":
						panic("poison")
					case "nil":
						return nil, nil
					}
					return brittle{&counts{seen: map[string]int{}}, in}, nil
				}, pulsarx.Output[string]{Codec: pulsarx.String(), Producer: pulsarx.ProducerOptions[string]{Topic: out, Key: keyOf}}, store)
		}
		broken := func(in, says string) {
			if err := run(ctx, in); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %s: %v", name, in, err)
			}
		}
		broken("factory", "poison")
		broken("nil", "it is nil")
		broken("Snapshot", "poison")
		running, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- run(running, "") }()
		equalOutputs(t, c, out, clean(values))
		time.Sleep(100 * time.Millisecond) // for a checkpoint, mostly
		stop()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		send(t, keyed(t, c, namespace+"panics"), "k0:more")
		broken("Restore", "poison")
		values = append(values, "k0:more")
	}
}

// unwritable is a codec that encodes nothing but its first value.
type unwritable struct{ pulsarx.Codec[string] }

func (u unwritable) Encode(dst []byte, v string) ([]byte, error) {
	if v != "k0:1:k0:0" {
		return nil, pulsarx.Permanent(errors.New("unwritable"))
	}
	return u.Codec.Encode(dst, v)
}

// TestStatefulUnwritable: an output that cannot be encoded ends the run; it is no fault of the message, and another attempt would not
// mend it.
func TestStatefulUnwritable(t *testing.T) {
	s := inProcess(t)
	c := s.client(t)
	namespace := deduplicating(t, c)
	sendAll(t, keyed(t, c, "in"), keyedValues(3, 1))
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	err := pulsarx.RunStateful(ctx, c, pulsarx.String(), pulsarx.StatefulOptions{Topic: "in", Subscription: "counts"}, newCounts,
		pulsarx.Output[string]{
			Codec: unwritable{pulsarx.String()}, Producer: pulsarx.ProducerOptions[string]{Topic: namespace + "out", Key: keyOf},
		}, dirStore(t))
	if err == nil || !strings.Contains(err.Error(), "unwritable") {
		t.Errorf("it ends with %v", err)
	}
	if letters := s.broker.Messages("in-counts-DLQ"); len(letters) != 0 {
		t.Errorf("dead letters %v", letters)
	}
}

func FuzzCheckpoint(f *testing.F) {
	// Through the store, since the form of a checkpoint is nobody's business outside: hostile files are errors.
	f.Add([]byte("tidemark checkpoint 1\n\x00\x00\x00\x00\x00\x00\x00\x05rest"))
	f.Add([]byte("tidemark"))
	f.Fuzz(func(t *testing.T, file []byte) {
		dir := t.TempDir()
		store, err := pulsarx.NewDirStore(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "x.checkpoint"), file, 0o600); err != nil {
			t.Fatal(err)
		}
		r, _, err := store.Load(t.Context(), "x")
		if err == nil {
			_, _ = io.Copy(io.Discard, r)
			_ = r.Close()
		}
	})
}
