package servicetest

import (
	"bufio"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Redis starts an empty redis-server for this test and returns its address, as host:port, and what ends it at once, as a crash does. It
// keeps nothing on disk, and ends after the test. Where redis-server is not on the PATH the test is skipped, as Env says.
func Redis(tb testing.TB) (address string, kill func()) {
	tb.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		lacks(tb, "there is no redis-server")
	}
	for range 5 { // another process may take the port first
		port := strconv.Itoa(freePorts(tb, 1))
		if kill := startRedis(tb, program, port); kill != nil {
			return "127.0.0.1:" + port, kill
		}
	}
	tb.Fatal("redis-server ends as soon as it is started; its log is above")
	return "", nil
}

// startRedis returns when the server is ready, and nil when it has ended by itself.
func startRedis(tb testing.TB, program, port string) (kill func()) {
	tb.Helper()
	//nolint:noctx // kill ends it, after the test's context
	cmd := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", tb.TempDir())
	cmd.SysProcAttr = withParent()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	log, said := bufio.NewReader(out), []string(nil)
	for {
		line, err := log.ReadString('\n')
		if err != nil {
			_ = cmd.Wait() // it has ended, which the log says more of
			tb.Log(strings.Join(said, ""))
			return nil
		}
		if said = append(said, line); strings.Contains(line, "Ready to accept connections") {
			break
		}
	}
	read := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, log) // to its end
		close(read)
	}()
	kill = func() {
		_ = cmd.Process.Kill() // fails only where it has ended
		<-read
		_ = cmd.Wait() // it was killed
	}
	tb.Cleanup(kill)
	return kill
}
