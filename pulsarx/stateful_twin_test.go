//go:build unix && !solaris && !aix

package pulsarx_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestStatefulTwin: a process that has all partitions is frozen, with messages that it has already got. The broker, which serves the
// topics anew, knows nothing of it any more and gives the partitions to another one. When it thaws, it goes on with what it has, and
// can neither publish nor save: the outputs are those of a clean run.
func TestStatefulTwin(t *testing.T) {
	t.Parallel()
	for name, connect := range servers {
		for kind, choose := range jobStores {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				s := connect(t)
				c := s.client(t)
				j := newJob(t, s, c, 2, 1)
				choose(t, &j)
				values := keyedValues(600, 11)
				p := keyed(t, c, j.Namespace+"in")
				sendAll(t, p, values[:200])
				twin := j.start(t)
				processes := []*exec.Cmd{twin}
				defer func() { kill(processes...) }()
				equalOutputs(t, c, j.Namespace+"out", clean(values[:200]))
				unlock := lockFolder(t, j.Dir)
				signal(t, twin, syscall.SIGSTOP)
				awaitStop(t, twin)
				unlock()
				sendAll(t, p, values[200:400]) // which the broker sends to the frozen one
				var topics []string            // those of checkpoints too, in the midst of a save perhaps
				if err := c.Admin(t.Context(), "GET", strings.TrimSuffix(adminPath(j.Namespace, ""), "/"), nil, &topics); err != nil {
					t.Fatal(err)
				}
				for _, topic := range topics {
					unload(t, c, topic)
				}
				processes = append(processes, j.start(t))
				equalOutputs(t, c, j.Namespace+"out", clean(values[:400]))
				signal(t, twin, syscall.SIGCONT)
				sendAll(t, p, values[400:])
				equalOutputs(t, c, j.Namespace+"out", clean(values))
			})
		}
	}
}

func signal(t *testing.T, process *exec.Cmd, what syscall.Signal) {
	t.Helper()
	if err := process.Process.Signal(what); err != nil {
		t.Fatal(err)
	}
}

// awaitStop waits until all threads of a process stand still, which takes some time on a busy machine.
func awaitStop(t *testing.T, process *exec.Cmd) {
	t.Helper()
	var status syscall.WaitStatus
	err := error(syscall.EINTR)
	for errors.Is(err, syscall.EINTR) {
		_, err = syscall.Wait4(process.Process.Pid, &status, syscall.WUNTRACED, nil)
	}
	if err != nil || !status.Stopped() {
		t.Fatalf("the process has not stopped: %v, %#x", err, status)
	}
}

// lockFolder waits for the locks of a DirStore's folder, so that nobody who is frozen then has one, which would stop others for ever.
func lockFolder(t *testing.T, dir string) (unlock func()) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.lock"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	for _, name := range names {
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
			err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		for _, file := range files {
			_ = file.Close() // nothing was written to it
		}
	}
}
