package pulsarx_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// claimer is a CheckpointStore that several use.
type claimer interface {
	pulsarx.CheckpointStore
	Claim(ctx context.Context, name string) (io.ReadCloser, uint64, error)
}

// stores are a folder, and topics on both brokers.
var stores = map[string]func(testing.TB) claimer{
	"folder": func(tb testing.TB) claimer {
		tb.Helper()
		return dirStore(tb)
	},
	"pulsartest": func(tb testing.TB) claimer {
		tb.Helper()
		return topicStore(tb, inProcess(tb).client(tb), pulsarx.TopicStoreOptions{ChunkBytes: 1000})
	},
	"pulsar": func(tb testing.TB) claimer {
		tb.Helper()
		return topicStore(tb, realPulsar(tb).client(tb), pulsarx.TopicStoreOptions{ChunkBytes: 1000})
	},
}

func dirStore(tb testing.TB) *pulsarx.DirStore {
	tb.Helper()
	store, err := pulsarx.NewDirStore(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	return store
}

func topicStore(tb testing.TB, c *pulsarx.Client, o pulsarx.TopicStoreOptions) *pulsarx.TopicStore {
	tb.Helper()
	if o.Topic == "" {
		o.Topic = topic(tb)
	}
	store, err := pulsarx.NewTopicStore(c, o)
	if err != nil {
		tb.Fatal(err)
	}
	return store
}

// snapshot writes so many bytes, in pieces of any size, that differ with what.
func snapshot(what string, size int) (text []byte, write func(io.Writer) error) {
	text = bytes.Repeat([]byte(what+";"), size/(len(what)+1)+1)[:size]
	return text, func(w io.Writer) error {
		for rest, n := text, 1; len(rest) > 0; n = 3*n%1777 + 1 {
			n = min(n, len(rest))
			if _, err := w.Write(rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
		return nil
	}
}

func save(tb testing.TB, s pulsarx.CheckpointStore, name string, generation uint64, what string, size int) error {
	tb.Helper()
	_, write := snapshot(what, size)
	return s.Save(tb.Context(), name, generation, write)
}

// opened reads what Load or Claim has opened.
func opened(tb testing.TB, r io.ReadCloser, err error) string {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	if r == nil {
		return "none"
	}
	text, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// wantCheckpoint compares the newest checkpoint.
func wantCheckpoint(tb testing.TB, s pulsarx.CheckpointStore, name string, generation uint64, what string, size int) {
	tb.Helper()
	want, _ := snapshot(what, size)
	r, got, err := s.Load(tb.Context(), name)
	if text := opened(tb, r, err); text != string(want) || got != generation {
		tb.Errorf("%d bytes, %.20q, of %d; want %d, %.20q, of %d", len(text), text, got, len(want), want, generation)
	}
}

// TestCheckpointStores: what every store does.
func TestCheckpointStores(t *testing.T) {
	for name, connect := range stores {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			const name = "a/persistent://b/c-partition-3"
			r, generation, err := s.Load(t.Context(), name)
			if text := opened(t, r, err); text != "none" || generation != 0 {
				t.Errorf("a new name has %q of %d", text, generation)
			}
			for i, size := range []int{10, 999, 1000, 1001, 12_345, 0, 5000, 3000, 1, 7777} { // longer and shorter
				what := fmt.Sprint("save ", i)
				if err := save(t, s, name, 1, what, size); err != nil {
					t.Fatal(err)
				}
				wantCheckpoint(t, s, name, 1, what, size)
			}
			for _, step := range []struct {
				generation uint64
				refused    bool
			}{{3, false}, {2, true}, {3, false}, {0, true}} {
				err := save(t, s, name, step.generation, fmt.Sprint("of ", step.generation), 5000)
				if refused := errors.Is(err, pulsarx.ErrFenced); refused != step.refused || err != nil && !refused {
					t.Errorf("generation %d: %v", step.generation, err)
				}
			}
			wantCheckpoint(t, s, name, 3, "of 3", 5000)
			want, _ := snapshot("of 3", 5000)
			for generation := uint64(4); generation < 7; generation++ { // who claims without saving, too
				r, got, err := s.Claim(t.Context(), name)
				if text := opened(t, r, err); got != generation || text != string(want) {
					t.Errorf("claimed %d bytes of %d", len(text), got)
				}
			}
			if err := save(t, s, name, 5, "twin", 5000); !errors.Is(err, pulsarx.ErrFenced) {
				t.Errorf("the one before saves: %v", err)
			}
			failed := s.Save(t.Context(), name, 6, func(w io.Writer) error {
				_, err := w.Write(bytes.Repeat([]byte("half"), 2000))
				return errors.Join(errCrash, err)
			})
			if !errors.Is(failed, errCrash) {
				t.Errorf("a failed snapshot: %v", failed)
			}
			wantCheckpoint(t, s, name, 6, "of 3", 5000)
			other := strings.Replace(name, "-", "/", 1)
			if err := save(t, s, other, 1, "other", 10); err != nil {
				t.Fatal(err)
			}
			wantCheckpoint(t, s, other, 1, "other", 10)
			wantCheckpoint(t, s, name, 6, "of 3", 5000)
		})
	}
}

// TestCheckpointTogether: several that save and load at once never see half a checkpoint.
func TestCheckpointTogether(t *testing.T) {
	for name, connect := range stores {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			var wait sync.WaitGroup
			for who := range 4 {
				wait.Go(func() {
					for i := range 5 {
						if err := save(t, s, "x", 1, fmt.Sprint(who, i), 4000+100*who); err != nil {
							t.Error(err)
						}
						r, _, err := s.Load(t.Context(), "x")
						text := opened(t, r, err)
						what, _, _ := strings.Cut(text, ";")
						if want, _ := snapshot(what, len(text)); text != string(want) || len(text) < 4000 {
							t.Errorf("%d bytes, of %q and others", len(text), what)
						}
					}
				})
			}
			wait.Wait()
		})
	}
}

// TestTopicStoreFaults: the connection breaks at each command of a save and of a claim, with and without the broker's having carried it
// out. The checkpoint is the one before or the new one, and the next save is as good as any.
func TestTopicStoreFaults(t *testing.T) {
	const size, chunks = 4500, 5
	s := inProcess(t)
	store := topicStore(t, s.client(t), pulsarx.TopicStoreOptions{ChunkBytes: 1000})
	failures := map[string]int{}
	for _, fault := range []struct {
		command string
		most    int
	}{{"SEND", chunks + 2}, {"PRODUCER", 1}, {"SUBSCRIBE", 2}, {"GET_LAST_MESSAGE_ID", 1}, {"CLOSE_PRODUCER", 1}, {"FLOW", 1}} {
		for after := range fault.most {
			for _, carried := range []bool{false, true} {
				name := fmt.Sprint(fault.command, after, carried)
				if err := save(t, store, name, 1, "old", size); err != nil {
					t.Fatal(err)
				}
				remove := s.broker.Inject(pulsartest.Fault{Command: fault.command, After: after, Count: 1, Disconnect: true, DropAnswer: carried})
				saved := save(t, store, name, 1, "new", size)
				remove()
				if saved != nil {
					failures[fault.command]++
				}
				r, generation, err := store.Load(t.Context(), name)
				text := opened(t, r, err)
				before, _ := snapshot("old", size)
				now, _ := snapshot("new", size)
				switch {
				case generation != 1:
					t.Errorf("%s: generation %d", name, generation)
				case text == string(now):
				case text != string(before) || saved == nil:
					t.Errorf("%s: %.20q of %d bytes after %v", name, text, len(text), saved)
				}
				remove = s.broker.Inject(pulsartest.Fault{Command: fault.command, After: after, Count: 1, Disconnect: true, DropAnswer: carried})
				claimed, _, err := store.Claim(t.Context(), name)
				if err == nil && claimed != nil {
					_, err = io.Copy(io.Discard, claimed)
					_ = claimed.Close()
				}
				remove()
				var passing interface{ Temporary() bool }
				for _, err := range []error{saved, err} {
					if err != nil && (!errors.As(err, &passing) || !passing.Temporary()) {
						t.Errorf("%s: %v does not pass", name, err)
					}
				}
				if err := save(t, store, name, 5, "last", 900); err != nil {
					t.Error(err)
				}
				wantCheckpoint(t, store, name, 5, "last", 900)
			}
		}
	}
	if failures["SEND"] < chunks || failures["CLOSE_PRODUCER"] > 0 {
		t.Errorf("saves that failed: %v", failures)
	}
	t.Log("saves that failed:", failures)
}

// TestTopicStoreCompaction: what was replaced is compacted away, and what counts is read from what is left, also where the broker has
// dropped everything else and serves the topic anew.
func TestTopicStoreCompaction(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, base := s.client(t), topic(t)
			store := topicStore(t, c, pulsarx.TopicStoreOptions{Topic: base, ChunkBytes: 1000, CompactAfter: 20_000})
			const size, saves = 4500, 30
			for i := range saves {
				if err := save(t, store, "x", 1, fmt.Sprint(i), size); err != nil {
					t.Fatal(err)
				}
			}
			state := base + "-x"
			left := func() (n int) {
				if err := c.Admin(t.Context(), http.MethodPut, adminPath(state, "/compaction"), nil, nil); err != nil {
					t.Log(err) // one runs
				}
				err := pulsarx.Replay(t.Context(), c, pulsarx.Bytes(), pulsarx.ReplayOptions{Topics: []string{state}, Compacted: true},
					func(_ context.Context, batch []pulsarx.Message[[]byte]) error { n += len(batch); return nil })
				if err != nil {
					t.Log(err) // of a broker that is busy
					return -1
				}
				return n
			}
			var status struct{ Status string }
			eventually(t, "a compaction that Save asked for", func() bool {
				err := c.Admin(t.Context(), http.MethodGet, adminPath(state, "/compaction"), nil, &status)
				return err == nil && status.Status == "SUCCESS"
			})
			eventually(t, "two slots and a head", func() bool { return left() == 2*5+1 })
			wantCheckpoint(t, store, "x", 1, fmt.Sprint(saves-1), size)
			if name == "pulsar" { // pulsartest trims nothing
				trim(t, c, state)
			}
			fresh := topicStore(t, s.client(t), pulsarx.TopicStoreOptions{Topic: base, ChunkBytes: 1000})
			wantCheckpoint(t, fresh, "x", 1, fmt.Sprint(saves-1), size)
			r, generation, err := fresh.Claim(t.Context(), "x")
			if want, _ := snapshot(fmt.Sprint(saves-1), size); opened(t, r, err) != string(want) || generation != 2 {
				t.Errorf("claimed something else, of %d", generation)
			}
			if err := save(t, fresh, "x", 2, "after", 700); err != nil {
				t.Fatal(err)
			}
			wantCheckpoint(t, store, "x", 2, "after", 700)
		})
	}
}

// trim serves a topic anew and drops what nobody needs any more, until nothing but compaction's own ledger is left.
func trim(t *testing.T, c *pulsarx.Client, topic string) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		for _, call := range []struct{ method, path string }{{"PUT", "/compaction"}, {"PUT", "/unload"}, {"POST", "/trim"}} {
			if err := c.Admin(t.Context(), call.method, adminPath(topic, call.path), nil, nil); err != nil {
				t.Log(err) // of a compaction that runs
			}
		}
		n := 0
		err := pulsarx.Replay(t.Context(), c, pulsarx.Bytes(), pulsarx.ReplayOptions{Topics: []string{topic}},
			func(_ context.Context, batch []pulsarx.Message[[]byte]) error { n += len(batch); return nil })
		if err == nil && n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the topic is not trimmed: %d messages, %v", n, err)
		}
	}
}

// TestTopicStoreForeign: what is no checkpoint is an error, and says so.
func TestTopicStoreForeign(t *testing.T) {
	c := inProcess(t).client(t)
	for name, properties := range map[string]map[string]string{
		"no head":     nil,
		"no json":     {"head": "{"},
		"a later one": {"head": `{"version":3}`},
		"no place":    {"head": `{"version":1,"save":"s","chunks":3,"first":"x","last":"y"}`},
		"no slot":     {"head": `{"version":1,"save":"s","slot":7}`},
		"negative":    {"head": `{"version":1,"save":"s","chunks":-1}`},
		"held":        {"head": `{"version":1,"held":[-4,99999999999]}`},
		"a far chunk": {"head": `{"version":1}`, "key": "1/99999999999999"},
		"a slot more": {"head": `{"version":1}`, "key": "2/1"},
	} {
		base := topic(t)
		store := topicStore(t, c, pulsarx.TopicStoreOptions{Topic: base})
		p := producer(t, c, pulsarx.Bytes(), pulsarx.ProducerOptions[[]byte]{Topic: base + "-x"})
		var options []pulsarx.SendOption
		for name, value := range properties {
			options = append(options, pulsarx.Property(name, value))
		}
		if _, err := p.Send(t.Context(), []byte("foreign"), append(options, pulsarx.Key(cmp.Or(properties["key"], "k")))...); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, _, err := store.Load(t.Context(), "x")
		if err == nil && r != nil {
			_, err = io.ReadAll(r)
			_ = r.Close()
		}
		if err == nil {
			t.Errorf("%s: is read", name)
		}
		if err := save(t, store, "x", 1, "mine", 10); err == nil && name != "no place" {
			t.Errorf("%s: is written over", name)
		}
	}
}

// TestTopicStoreOptions: what is wrong is said at once.
func TestTopicStoreOptions(t *testing.T) {
	s := inProcess(t)
	_, err := pulsarx.NewTopicStore(s.client(t), pulsarx.TopicStoreOptions{ChunkBytes: -1, CompactAfter: -2})
	for _, want := range []string{"Topic is missing", "ChunkBytes", "CompactAfter"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	if _, err := pulsarx.NewTopicStore(s.client(t), pulsarx.TopicStoreOptions{Topic: "non-persistent://a/b/c"}); !errors.Is(err, pulsarx.ErrNonPersistent) {
		t.Errorf("a topic that keeps nothing: %v", err)
	}
	bare, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: s.url})
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close(t.Context())
	if _, err := pulsarx.NewTopicStore(bare, pulsarx.TopicStoreOptions{Topic: "x"}); err == nil || !strings.Contains(err.Error(), "AdminURL") {
		t.Errorf("without the admin interface: %v", err)
	}
}
