package pulsarx_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// appender is a store for incremental checkpoints.
type appender interface {
	claimer
	Append(ctx context.Context, name string, generation uint64, write func(io.Writer) error) error
}

func appendTo(tb testing.TB, s claimer, name string, generation uint64, what string, size int) error {
	tb.Helper()
	_, write := snapshot(what, size)
	return s.(appender).Append(tb.Context(), name, generation, write)
}

// TestAppend: what is appended follows what was saved, in order, for who loads and who claims; a save replaces all of it; none of an error
// is there; and it is fenced.
func TestAppend(t *testing.T) {
	for name, connect := range stores {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			const name = "a/persistent://b/c-partition-3"
			if err := appendTo(t, s, name, 1, "nothing", 10); err == nil {
				t.Error("appended to nothing")
			}
			for round := range uint64(3) {
				var want strings.Builder
				add := func(what string, size int, save func(testing.TB, claimer, string, uint64, string, int) error) {
					t.Helper()
					if err := save(t, s, name, 2*round+1, what, size); err != nil {
						t.Fatal(err)
					}
					text, _ := snapshot(what, size)
					want.Write(text)
					r, _, err := s.Load(t.Context(), name)
					if got := opened(t, r, err); got != want.String() {
						t.Fatalf("%s: %d bytes, want %d", what, len(got), want.Len())
					}
				}
				add("whole", 4500, func(tb testing.TB, s claimer, name string, generation uint64, what string, size int) error {
					tb.Helper()
					return save(tb, s, name, generation, what, size)
				})
				for i, size := range []int{1, 999, 3000, 1000, 10}[round:] {
					add(fmt.Sprint("changes ", i), size, appendTo)
				}
				r, generation, err := s.Claim(t.Context(), name)
				if got := opened(t, r, err); got != want.String() || generation != 2*round+2 {
					t.Fatalf("claimed %d bytes of %d", len(got), generation)
				}
				if err := appendTo(t, s, name, 2*round+1, "twin", 10); !errors.Is(err, pulsarx.ErrFenced) {
					t.Errorf("the one before appends: %v", err)
				}
				failed := s.(appender).Append(t.Context(), name, 2*round+2, func(w io.Writer) error {
					_, err := w.Write(make([]byte, 2500))
					return errors.Join(errCrash, err)
				})
				if !errors.Is(failed, errCrash) {
					t.Errorf("failed changes: %v", failed)
				}
				r, _, err = s.Load(t.Context(), name)
				if got := opened(t, r, err); got != want.String() {
					t.Errorf("after an error: %d bytes, want %d", len(got), want.Len())
				}
			}
		})
	}
}

// TestDirStoreLeft: files that a crash left of an older checkpoint are not read with a newer one, and the form before is read.
func TestDirStoreLeft(t *testing.T) {
	dir := t.TempDir()
	s, err := pulsarx.NewDirStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	const name = "job"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(save(t, s, name, 1, "old", 100))
	left := map[string][]byte{}
	for i := range 4 {
		must(appendTo(t, s, name, 1, fmt.Sprint("change ", i), 50))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.appended*"))
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		must(err)
		left[f] = text
	}
	must(save(t, s, name, 1, "new", 100))
	if files, _ := filepath.Glob(filepath.Join(dir, "*.appended*")); len(files) != 0 {
		t.Errorf("%q are left", files)
	}
	for f, text := range left { // as if the process had died before it removed them
		must(os.WriteFile(f, text, 0o600))
	}
	wantCheckpoint(t, s, name, 1, "new", 100)
	must(appendTo(t, s, name, 1, "more", 30))
	want, _ := snapshot("new", 100)
	more, _ := snapshot("more", 30)
	r, _, err := s.Load(t.Context(), name)
	if got := opened(t, r, err); got != string(want)+string(more) {
		t.Errorf("%q", got)
	}
	must(os.WriteFile(filepath.Join(dir, "before.checkpoint"), []byte("tidemark checkpoint 1\n\x00\x00\x00\x00\x00\x00\x00\x05rest"), 0o600))
	r, generation, err := s.Load(t.Context(), "before")
	if got := opened(t, r, err); got != "rest" || generation != 5 {
		t.Errorf("of the form before: %q of %d", got, generation)
	}
}

// TestAppendFaults: the connection breaks at each command of an append, with and without the broker's having carried it out. The checkpoint
// is the one before or the new one, and the next owner reads and saves it.
func TestAppendFaults(t *testing.T) {
	s := inProcess(t)
	store := topicStore(t, s.client(t), pulsarx.TopicStoreOptions{ChunkBytes: 1000})
	whole, _ := snapshot("whole", 2500)
	changes, _ := snapshot("changes", 2500)
	failures := 0
	for after := range 6 {
		for _, carried := range []bool{false, true} {
			name := fmt.Sprint(after, carried)
			if err := save(t, store, name, 1, "whole", 2500); err != nil {
				t.Fatal(err)
			}
			remove := s.broker.Inject(pulsartest.Fault{Command: "SEND", After: after, Count: 1, Disconnect: true, DropAnswer: carried})
			appended := appendTo(t, store, name, 1, "changes", 2500)
			remove()
			if appended != nil {
				failures++
			}
			r, generation, err := store.Claim(t.Context(), name)
			text := opened(t, r, err)
			if old := text == string(whole); !old && text != string(whole)+string(changes) || old && appended == nil || generation != 2 {
				t.Errorf("%s: %d bytes of %d after %v", name, len(text), generation, appended)
			}
			again := appendTo(t, store, name, 2, "changes", 10) // where something is cut off, it is refused
			r, _, err = store.Load(t.Context(), name)
			if got := opened(t, r, err); again == nil && got != text+string(changes[:10]) || again != nil && got != text {
				t.Errorf("%s: %d bytes after another append, %v", name, len(got), again)
			}
			if err := save(t, store, name, 2, "last", 1500); err != nil {
				t.Fatal(err)
			}
			if err := appendTo(t, store, name, 2, "changes", 10); err != nil {
				t.Error(err)
			}
			last, _ := snapshot("last", 1500)
			r, _, err = store.Load(t.Context(), name)
			if got := opened(t, r, err); got != string(last)+string(changes[:10]) {
				t.Errorf("%s: %d bytes at last", name, len(got))
			}
		}
	}
	if failures < 6 {
		t.Errorf("%d appends failed", failures)
	}
}

// tallies are counts that write what has changed. Each snapshot is one JSON value.
type tallies struct {
	counts
	changed map[string]bool
}

func newTallies(pulsarx.Partition) (pulsarx.Processor[string, string], error) {
	return &tallies{counts{seen: map[string]int{}}, map[string]bool{}}, nil
}

func (c *tallies) Process(m pulsarx.Message[string], emit func(string)) error {
	c.changed[m.Key] = true
	return c.counts.Process(m, emit)
}

func (c *tallies) Snapshot(w io.Writer) error {
	clear(c.changed)
	return c.counts.Snapshot(w)
}

func (c *tallies) SnapshotChanges(w io.Writer) error {
	seen := maps.Clone(c.seen)
	maps.DeleteFunc(seen, func(k string, _ int) bool { return !c.changed[k] })
	clear(c.changed)
	return json.NewEncoder(w).Encode(seen)
}

func (c *tallies) Restore(r io.Reader) error {
	for d := json.NewDecoder(r); ; {
		var seen map[string]int
		if err := d.Decode(&seen); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		maps.Copy(c.seen, seen)
	}
}

func incremental(ctx context.Context, c *pulsarx.Client, in, out string, store pulsarx.CheckpointStore,
	factory func(pulsarx.Partition) (pulsarx.Processor[string, string], error),
) error {
	return pulsarx.RunStateful(ctx, c, pulsarx.String(),
		pulsarx.StatefulOptions{Topic: in, Subscription: "counts", Interval: 20 * time.Millisecond, Incremental: true}, factory,
		pulsarx.Output[string]{Codec: pulsarx.String(), Producer: pulsarx.ProducerOptions[string]{Topic: out, Key: keyOf}}, store)
}

// watched counts what a store is asked for.
type watched struct {
	appender
	saves, appends, longest, run int
}

func (s *watched) Save(ctx context.Context, name string, generation uint64, write func(io.Writer) error) error {
	s.saves, s.run = s.saves+1, 0
	return s.appender.Save(ctx, name, generation, write)
}

func (s *watched) Append(ctx context.Context, name string, generation uint64, write func(io.Writer) error) error {
	s.appends, s.run = s.appends+1, s.run+1
	s.longest = max(s.longest, s.run)
	return s.appender.Append(ctx, name, generation, write)
}

// TestIncremental: a job writes whole checkpoints and changes, stops and goes on from them, and has the outputs of a clean run.
func TestIncremental(t *testing.T) {
	for kind, connect := range map[string]func(testing.TB, *pulsarx.Client, string) appender{
		"folder": func(tb testing.TB, _ *pulsarx.Client, _ string) appender {
			tb.Helper()
			return dirStore(tb)
		},
		"topics": func(tb testing.TB, c *pulsarx.Client, namespace string) appender {
			tb.Helper()
			return topicStore(tb, c, pulsarx.TopicStoreOptions{Topic: namespace + "checkpoints", ChunkBytes: 100, CompactAfter: 1})
		},
	} {
		t.Run(kind, func(t *testing.T) {
			s := inProcess(t)
			c := s.client(t)
			namespace := deduplicating(t, c)
			in, out := namespace+"in", namespace+"out"
			store := &watched{appender: connect(t, c, namespace)}
			var values []string
			p := keyed(t, c, in)
			more := func(n, keys int) {
				for range n {
					values = append(values, fmt.Sprintf("k%d:%d", len(values)%keys, len(values)))
					send(t, p, values[len(values)-1])
				}
			}
			more(300, 300)
			for range 2 {
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- incremental(ctx, c, in, out, store, newTallies) }()
				for range 6 {
					more(3, 300)
					equalOutputs(t, c, out, clean(values))
					time.Sleep(30 * time.Millisecond)
				}
				stop()
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			if store.saves < 2 || store.appends < 2 {
				t.Errorf("%d saves, %d appends", store.saves, store.appends)
			}
			more(1, 1) // a partition is ours with its first message
			ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
			defer stop()
			if err := incremental(ctx, c, in, out, store, newCounts); err == nil || !strings.Contains(err.Error(), "SnapshotChanges") {
				t.Errorf("a processor without changes: %v", err)
			}
			if err := incremental(ctx, c, in, out, struct{ pulsarx.CheckpointStore }{store}, newTallies); err == nil || !strings.Contains(err.Error(), "Append") {
				t.Errorf("a store without Append: %v", err)
			}
		})
	}
}

// TestIncrementalRule: after so many changes, or as much as the state, a checkpoint is whole.
func TestIncrementalRule(t *testing.T) {
	s := inProcess(t)
	c := s.client(t)
	namespace := deduplicating(t, c)
	in, out := namespace+"in", namespace+"out"
	store := &watched{appender: dirStore(t)}
	values := keyedValues(12, 2) // of few keys, so that changes are as large as the state soon
	p := keyed(t, c, in)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- incremental(ctx, c, in, out, store, newTallies) }()
	for i, v := range values {
		send(t, p, v)
		equalOutputs(t, c, out, clean(values[:i+1]))
		time.Sleep(30 * time.Millisecond)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if store.saves < 2 || store.longest > 2 {
		t.Errorf("%d saves, %d appends, %d in a row", store.saves, store.appends, store.longest)
	}
}

// mortalTallies are tallies that die at the point that their process was told.
type mortalTallies struct {
	tallies
	job *processJob
}

func (m *mortalTallies) Process(message pulsarx.Message[string], emit func(string)) error {
	m.job.at("before a message")
	err := m.tallies.Process(message, emit)
	m.job.at("after a message")
	return err
}

func (m *mortalTallies) SnapshotChanges(w io.Writer) error {
	if _, err := io.WriteString(w, "{}\n{"); err != nil {
		return err
	}
	m.job.at("in changes")
	var text strings.Builder
	err := m.tallies.SnapshotChanges(&text)
	if err == nil {
		_, err = io.WriteString(w, strings.TrimPrefix(text.String(), "{"))
	}
	return err
}

func (s *mortalStore) Append(ctx context.Context, name string, generation uint64, write func(io.Writer) error) error {
	s.job.at("before an append")
	err := s.claimer.(appender).Append(ctx, name, generation, write)
	s.job.at("after an append")
	return err
}
