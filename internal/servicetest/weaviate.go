package servicetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const weaviateStartTimeout = 2 * time.Minute

// Weaviate says how a Weaviate of a test's own is made. Its version is that of the server at WEAVIATE_HTTP.
type Weaviate struct {
	// Nodes is how many nodes the cluster has. Default 1.
	Nodes int
	// Env are more variables of each node's environment, written as NAME=value.
	Env []string
	// Disk is the size in bytes of a file system of each node's own for its data, in memory. Where the test may not mount one it is
	// skipped, as Env says. Default: a folder of the test's.
	Disk int
}

// WeaviateNode is a node that the test may kill and start again. It keeps its ports and its data.
type WeaviateNode struct {
	// HTTP and GRPC are where it listens, as host:port.
	HTTP, GRPC string
	// Dir is the folder of its data.
	Dir string

	binary  string
	env     []string
	process *exec.Cmd
}

// Start starts the nodes and waits until each is ready. They are killed after the test, and with its process. Where the server is not
// installed by .ci/services the test is skipped, as Env says.
func (w Weaviate) Start(tb testing.TB) []*WeaviateNode {
	tb.Helper()
	binary := Installed(tb, "weaviate-"+weaviateVersion(tb)+"/weaviate-server")
	folder := tb.TempDir()
	count := max(w.Nodes, 1)
	nodes, members, gossip := make([]*WeaviateNode, count), make([]string, count), make([]string, count)
	const ports = 6 // of a node
	first := freePorts(tb, ports*len(nodes))
	for i := range nodes {
		// Raft's RPC port is taken to be the one after Raft's own when a node looks for others.
		port := first + ports*i
		name, folder := "node"+strconv.Itoa(i), folder
		if w.Disk > 0 {
			folder = disk(tb, w.Disk)
		}
		members[i], gossip[i] = name+":"+strconv.Itoa(port+4), "127.0.0.1:"+strconv.Itoa(port+2)
		nodes[i] = &WeaviateNode{
			HTTP: "127.0.0.1:" + strconv.Itoa(port), GRPC: "127.0.0.1:" + strconv.Itoa(port+1), binary: binary, Dir: filepath.Join(folder, name),
			env: []string{
				"PERSISTENCE_DATA_PATH=" + filepath.Join(folder, name), "CLUSTER_HOSTNAME=" + name,
				"GRPC_PORT=" + strconv.Itoa(port+1), "CLUSTER_GOSSIP_BIND_PORT=" + strconv.Itoa(port+2), "CLUSTER_DATA_BIND_PORT=" + strconv.Itoa(port+3),
				"RAFT_PORT=" + strconv.Itoa(port+4), "RAFT_INTERNAL_RPC_PORT=" + strconv.Itoa(port+5),
			},
		}
	}
	for _, n := range nodes {
		// The nodes differ in their ports alone; their Raft need not be as patient as across machines.
		// One that comes back asks all of them: the others stop to look for it when it is gone for half a minute.
		n.env = append(n.env, "CLUSTER_JOIN="+strings.Join(gossip, ","),
			"CLUSTER_ADVERTISE_ADDR=127.0.0.1", "CLUSTER_BIND_ADDR=127.0.0.1", "CLUSTER_IN_LOCALHOST=true",
			"RAFT_JOIN="+strings.Join(members, ","), "RAFT_BOOTSTRAP_EXPECT="+strconv.Itoa(count), "RAFT_TIMEOUTS_MULTIPLIER=1",
			"AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED=true", "DEFAULT_VECTORIZER_MODULE=none", "DISABLE_TELEMETRY=true",
			"GO_PROFILING_DISABLE=true")
		n.env = append(n.env, w.Env...)
		n.Start(tb)
		tb.Cleanup(n.Kill)
		if n == nodes[0] && len(nodes) > 1 {
			awaitPort(tb, gossip[0]) // the others look for it once, when they start
		}
	}
	for _, n := range nodes {
		n.Await(tb)
	}
	return nodes
}

// Start starts the node, without waiting for it.
func (n *WeaviateNode) Start(tb testing.TB) {
	tb.Helper()
	if err := os.MkdirAll(n.Dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	log, err := os.OpenFile(n.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	_, port, _ := strings.Cut(n.HTTP, ":")
	//nolint:noctx // Kill ends it, after the test's context
	n.process = exec.Command(n.binary, "--scheme", "http", "--host", "127.0.0.1", "--port", port)
	n.process.Dir, n.process.Env = n.Dir, append(os.Environ(), n.env...)
	n.process.Stdout, n.process.Stderr = log, log
	n.process.SysProcAttr = withParent()
	if err := n.process.Start(); err != nil {
		tb.Fatal(err)
	}
	_ = log.Close() // the process has its own
}

// disk returns a folder that is a file system of its own, until the end of the test. It is mounted where no other process sees it but
// through the one that holds it, which ends with the test's process.
func disk(tb testing.TB, size int) string {
	tb.Helper()
	folder := tb.TempDir()
	//nolint:gosec // nothing of it comes from outside
	holder := exec.CommandContext(tb.Context(), "unshare", "-rm", "sh", "-c",
		fmt.Sprintf("mount -t tmpfs -o size=%d tmpfs '%s' && echo mounted && exec cat", size, folder))
	holds, err := holder.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	says, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		lacks(tb, "a file system of the test's own: "+err.Error())
	}
	tb.Cleanup(func() {
		_ = holds.Close()
		_ = holder.Wait()
	})
	if answer, err := bufio.NewReader(says).ReadString('\n'); answer != "mounted\n" {
		lacks(tb, fmt.Sprintf("a file system of the test's own: unshare or mount failed (%v)", err))
	}
	return filepath.Join("/proc", strconv.Itoa(holder.Process.Pid), "root", folder)
}

// Await waits until the node is ready.
func (n *WeaviateNode) Await(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), weaviateStartTimeout)
	defer cancel()
	for get(ctx, "http://"+n.HTTP+"/v1/.well-known/ready", nil) != nil {
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(n.log())
			tb.Fatalf("Weaviate at %s is not ready; the end of its log:\n%s", n.HTTP, log[max(0, len(log)-logTail):])
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// awaitPort waits until something listens at address.
func awaitPort(tb testing.TB, address string) {
	tb.Helper()
	for deadline := time.Now().Add(weaviateStartTimeout); ; time.Sleep(20 * time.Millisecond) {
		conn, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("Weaviate does not listen: %v", err)
		}
	}
}

// Kill ends the node at once, as a crash does. It may be called again.
func (n *WeaviateNode) Kill() {
	_ = n.process.Process.Kill() // fails only where it has ended
	_ = n.process.Wait()         // it was killed
}

// CPU returns the processor time that the node has used, 0 where the system has no /proc.
func (n *WeaviateNode) CPU(tb testing.TB) time.Duration {
	tb.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(n.process.Process.Pid) + "/stat")
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	// After the name in parentheses: the state is the first field, user and system time are the 12th and 13th, in hundredths.
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	if err != nil || len(fields) < 13 {
		tb.Fatalf("/proc/PID/stat: %q, %v", stat, err)
	}
	sum := 0
	for _, field := range fields[11:13] {
		ticks, err := strconv.Atoi(field)
		if err != nil {
			tb.Fatal(err)
		}
		sum += ticks
	}
	return time.Duration(sum) * 10 * time.Millisecond
}

func (n *WeaviateNode) log() string { return n.Dir + ".log" }

// weaviateVersion asks the server at WEAVIATE_HTTP.
func weaviateVersion(tb testing.TB) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), cleanupTimeout)
	defer cancel()
	var meta struct {
		Version string `json:"version"`
	}
	if err := get(ctx, "http://"+Env(tb, "WEAVIATE_HTTP")+"/v1/meta", &meta); err != nil || meta.Version == "" {
		tb.Fatalf("the version of the server at WEAVIATE_HTTP: %v", err)
	}
	return meta.Version
}

// get decodes the JSON at a URL into out, unless that is nil.
func get(ctx context.Context, url string, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// freePorts returns the first of n ports in a row, 31 at most, on which nothing listens and which no other test of any process gets: the port
// before them is taken until the end of the test. They are below those that systems give to connections, so that none of these takes one
// between two starts of a server.
func freePorts(tb testing.TB, n int) int {
	tb.Helper()
	const lowest, highest, block = 20_000, 32_000, 32
	for range 1000 {
		first := lowest + block*rand.IntN((highest-lowest)/block)
		taken := listen(tb, first)
		if taken == nil {
			continue
		}
		if free(tb, first+1, n) {
			tb.Cleanup(func() { _ = taken.Close() })
			return first + 1
		}
		_ = taken.Close()
	}
	tb.Fatalf("no %d ports in a row are free", n)
	return 0
}

func free(tb testing.TB, first, n int) bool {
	tb.Helper()
	for port := first; port < first+n; port++ {
		listener := listen(tb, port)
		if listener == nil {
			return false
		}
		_ = listener.Close()
	}
	return true
}

// listen returns nil where the port is in use.
func listen(tb testing.TB, port int) net.Listener {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return nil
	}
	return listener
}
