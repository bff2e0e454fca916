package pulsarx_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
)

// processJob is what a process is told that runs a job.
type processJob struct {
	URL, Admin, Namespace string
	Dir                   string // of a DirStore, a TopicStore where it is empty
	// Incremental writes changes to the checkpoints.
	Incremental bool
	// Die is the point at which the process kills itself, when it has come there Nth times.
	Die string
	Nth int
}

const processVariable = "PULSARX_STATEFUL"

// dyingPoints are the points at which it does, and at how many of its visits there a test lets it die.
var dyingPoints = map[string]int{
	"before a claim": 1, "after a claim": 1, "before a message": 4, "after a message": 4, "in a snapshot": 3, "before a save": 3, "after a save": 3,
	"in changes": 2, "before an append": 2, "after an append": 2, // of an incremental job
}

// at kills the process, as the system does: nothing runs any more, and the connections end.
func (j *processJob) at(point string) {
	if j.Die != point {
		return
	}
	if j.Nth--; j.Nth > 0 {
		return
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	panic(err)
}

// TestStatefulProcess is the process that other tests start, and nothing otherwise.
func TestStatefulProcess(t *testing.T) {
	text := os.Getenv(processVariable)
	if text == "" {
		return
	}
	var j processJob
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		t.Fatal(err)
	}
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: j.URL, AdminURL: j.Admin})
	if err != nil {
		t.Fatal(err)
	}
	factory := func(pulsarx.Partition) (pulsarx.Processor[string, string], error) {
		if j.Incremental {
			return &mortalTallies{tallies{counts{seen: map[string]int{}}, map[string]bool{}}, &j}, nil
		}
		return &mortal{counts{seen: map[string]int{}}, &j}, nil
	}
	t.Fatal(j.run(t.Context(), c, j.store(t, c), factory)) // until it is killed
}

func (j *processJob) run(ctx context.Context, c *pulsarx.Client, store pulsarx.CheckpointStore,
	factory func(pulsarx.Partition) (pulsarx.Processor[string, string], error),
) error {
	if j.Incremental {
		return incremental(ctx, c, j.Namespace+"in", j.Namespace+"out", store, factory)
	}
	return stateful(ctx, c, j.Namespace+"in", j.Namespace+"out", store, factory)
}

func (j *processJob) store(tb testing.TB, c *pulsarx.Client) claimer {
	tb.Helper()
	if j.Dir == "" {
		return &mortalStore{topicStore(tb, c, pulsarx.TopicStoreOptions{Topic: j.Namespace + "checkpoints", ChunkBytes: 16, CompactAfter: 1}), j}
	}
	store, err := pulsarx.NewDirStore(j.Dir)
	if err != nil {
		tb.Fatal(err)
	}
	return &mortalStore{store, j}
}

// mortal is counts that dies at the point that its process was told.
type mortal struct {
	counts
	job *processJob
}

func (m *mortal) Process(message pulsarx.Message[string], emit func(string)) error {
	m.job.at("before a message")
	err := m.counts.Process(message, emit)
	m.job.at("after a message")
	return err
}

func (m *mortal) Snapshot(w io.Writer) error {
	text, err := json.Marshal(m.seen)
	if err == nil {
		_, err = w.Write(text[:len(text)/2])
	}
	m.job.at("in a snapshot")
	if err == nil {
		_, err = w.Write(text[len(text)/2:])
	}
	return err
}

type mortalStore struct {
	claimer
	job *processJob
}

func (s *mortalStore) Claim(ctx context.Context, name string) (io.ReadCloser, uint64, error) {
	s.job.at("before a claim")
	r, generation, err := s.claimer.Claim(ctx, name)
	s.job.at("after a claim")
	return r, generation, err
}

func (s *mortalStore) Save(ctx context.Context, name string, generation uint64, write func(io.Writer) error) error {
	s.job.at("before a save")
	err := s.claimer.Save(ctx, name, generation, write)
	s.job.at("after a save")
	return err
}

// start runs the job in a process of its own.
func (j processJob) start(tb testing.TB) *exec.Cmd {
	tb.Helper()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		tb.Fatal(err)
	}
	text, err := json.Marshal(j)
	if err != nil {
		tb.Fatal(err)
	}
	process := exec.CommandContext(tb.Context(), self, "-test.run=^TestStatefulProcess$")
	process.Env = append(os.Environ(), processVariable+"="+string(text))
	process.Stdout, process.Stderr = tb.Output(), tb.Output()
	if err := process.Start(); err != nil {
		tb.Fatal(err)
	}
	return process
}

func kill(processes ...*exec.Cmd) {
	for _, p := range processes {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
}

// jobStores are where the checkpoints of a job can be.
var jobStores = map[string]func(testing.TB, *processJob){
	"folder": func(tb testing.TB, j *processJob) {
		tb.Helper()
		j.Dir = tb.TempDir()
	},
	"topics": func(tb testing.TB, _ *processJob) { tb.Helper() },
	"folder, changes": func(tb testing.TB, j *processJob) {
		tb.Helper()
		j.Dir, j.Incremental = tb.TempDir(), true
	},
	"topics, changes": func(tb testing.TB, j *processJob) {
		tb.Helper()
		j.Incremental = true
	},
}

// newJob makes the topics of a job.
func newJob(tb testing.TB, s server, c *pulsarx.Client, in, out int) processJob {
	tb.Helper()
	j := processJob{URL: s.url, Admin: s.admin, Namespace: deduplicating(tb, c)}
	createPartitions(tb, c, j.Namespace+"in", in)
	createPartitions(tb, c, j.Namespace+"out", out)
	return j
}

// TestStatefulPoints: a process kills itself at each point, of each message, snapshot and save, and another one goes on. The outputs are
// those of a clean run.
func TestStatefulPoints(t *testing.T) {
	s := inProcess(t)
	c := s.client(t)
	for kind, choose := range jobStores {
		for point, most := range dyingPoints {
			if changes := strings.HasSuffix(kind, "changes"); changes != strings.Contains("in changes before an append after an append", point) {
				continue
			}
			for nth := range most {
				t.Run(fmt.Sprintf("%s/%s/%d", kind, point, nth), func(t *testing.T) {
					j := newJob(t, s, c, 1, 1)
					choose(t, &j)
					var values []string
					p := keyed(t, c, j.Namespace+"in")
					more := func() {
						values = keyedValues(len(values)+1, 2)
						send(t, p, values[len(values)-1])
					}
					more()
					more()
					j.Die, j.Nth = point, nth+1
					process := j.start(t)
					died := make(chan struct{})
					go func() {
						defer close(died)
						_ = process.Wait() // it kills itself
					}()
					for alive := true; alive; {
						select {
						case <-died:
							alive = false
						case <-time.After(20 * time.Millisecond):
							if more(); len(values) > 2000 {
								_ = process.Process.Kill()
								t.Fatal("it lives")
							}
						}
					}
					more()
					j.Die = ""
					j.finish(t, c, values)
				})
			}
		}
	}
}

// finish runs the job in this process until all outputs are there.
func (j processJob) finish(t *testing.T, c *pulsarx.Client, values []string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	factory := newCounts
	if j.Incremental {
		factory = newTallies
	}
	go func() { done <- j.run(ctx, c, j.store(t, c), factory) }()
	equalOutputs(t, c, j.Namespace+"out", clean(values))
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestStatefulProcesses: three processes share a job; one is killed, another one joins, all are killed, one is left. The outputs are
// those of a clean run.
func TestStatefulProcesses(t *testing.T) {
	t.Parallel()
	for name, connect := range servers {
		for kind, choose := range jobStores {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				s := connect(t)
				c := s.client(t)
				j := newJob(t, s, c, 4, 2)
				choose(t, &j)
				values := keyedValues(900, 23)
				p := keyed(t, c, j.Namespace+"in")
				processes := []*exec.Cmd{j.start(t), j.start(t), j.start(t)}
				defer func() { kill(processes...) }()
				for step, part := range slices.Collect(slices.Chunk(values, 150)) {
					sendAll(t, p, part)
					time.Sleep(300 * time.Millisecond)
					switch step {
					case 1:
						kill(processes[0])
						processes = processes[1:]
					case 2:
						processes = append(processes, j.start(t))
					case 3:
						kill(processes...)
						processes = []*exec.Cmd{j.start(t)}
					}
				}
				equalOutputs(t, c, j.Namespace+"out", clean(values))
			})
		}
	}
}
