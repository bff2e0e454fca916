package weaviate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// ownServer is a Weaviate that a test may stop and start again.
type ownServer struct {
	binary, data string
	http, grpc   string
	cmd          *exec.Cmd
}

// newOwnServer starts the server that .ci/services has installed, on ports and a folder of its own.
func newOwnServer(t *testing.T) *ownServer {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a server twice")
	}
	servicetest.Env(t, "WEAVIATE_HTTP") // else nothing may be installed either
	binary := servicetest.Installed(t, "weaviate-*/weaviate-server")
	s := &ownServer{binary: binary, data: t.TempDir(), http: freePort(t), grpc: freePort(t)}
	s.start(t)
	t.Cleanup(func() { s.stop(t, syscall.SIGKILL) })
	return s
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

func (s *ownServer) start(t *testing.T) {
	t.Helper()
	s.cmd = exec.Command(s.binary, "--scheme", "http", "--host", "127.0.0.1", "--port", s.http)
	s.cmd.Dir = s.data
	s.cmd.Env = append(os.Environ(), "PERSISTENCE_DATA_PATH="+s.data, "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED=true",
		"CLUSTER_ADVERTISE_ADDR=127.0.0.1", "CLUSTER_HOSTNAME=own", "RAFT_BOOTSTRAP_EXPECT=1", "GRPC_PORT="+s.grpc, "DISABLE_TELEMETRY=true",
		"DEFAULT_VECTORIZER_MODULE=none", "PROMETHEUS_MONITORING_ENABLED=false", "GO_PROFILING_DISABLE=true",
		"CLUSTER_GOSSIP_BIND_PORT="+freePort(t), "CLUSTER_DATA_BIND_PORT="+freePort(t), "RAFT_PORT="+freePort(t), "RAFT_INTERNAL_RPC_PORT="+freePort(t))
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

func (s *ownServer) stop(t *testing.T, signal os.Signal) {
	t.Helper()
	if s.cmd == nil {
		return
	}
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Error(err)
	}
	_ = s.cmd.Wait() // it was killed
	s.cmd = nil
}

// TestServerRestarts kills a server in the middle of a batch and starts it again: what was not done has an error that passes, the same
// Store goes on by itself, and in the end every object is there, once.
func TestServerRestarts(t *testing.T) {
	server := newOwnServer(t)
	s := open(t, Options{
		HTTP: "127.0.0.1:" + server.http, GRPC: "127.0.0.1:" + server.grpc, Collection: fmt.Sprintf("Test_%x", rand.Uint64()),
		ConnectTimeout: 90 * time.Second, ReadTimeout: 30 * time.Second, MaxBatch: 20,
	})
	var numbers []int
	for n := range 2000 {
		numbers = append(numbers, n)
	}
	m := upserts(numbers...)
	apply(t, s, m[:100]...)
	done := make(chan error, 1)
	go func() { done <- s.Apply(context.Background(), m) }()
	for count(t, s, s.collection) < 300 { // it is in the middle
	}
	server.stop(t, syscall.SIGKILL)
	err := <-done
	at := failed(t, err)
	if len(at) == 0 || len(at) > 1900 || itemerror.IsPermanent(err) {
		t.Errorf("%d of %d failed: %.300v", len(at), len(m), err)
	}
	server.start(t)
	if err := await(t.Context(), func() error { return s.conn.rest(t.Context(), http.MethodGet, "/v1/.well-known/ready", nil, nil) }); err != nil {
		t.Fatal(err)
	}
	isFailed := map[int]bool{}
	for _, i := range at {
		isFailed[i] = true
	}
	for err = s.Apply(t.Context(), m[:1]); err != nil; err = s.Apply(t.Context(), m[:1]) { // until gRPC is back
		if itemerror.IsPermanent(err) || !sleep(t.Context(), 100*time.Millisecond) {
			t.Fatal(err)
		}
	}
	there := map[string]bool{}
	for o, err := range vectorstore.All(t.Context(), s, "") {
		if err != nil {
			t.Fatal(err)
		}
		there[string(o.ID)] = true
	}
	for i := range m {
		if !isFailed[i] && !there[string(m[i].Object.ID)] {
			t.Fatalf("object %d was acknowledged and is lost", i)
		}
	}
	apply(t, s, m...)
	if n := count(t, s, s.collection); n != len(m) {
		t.Errorf("%d objects are stored, want %d", n, len(m))
	}
}
