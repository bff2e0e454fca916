// Package leaktest fails a package's tests when they leave goroutines behind.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a goroutine may take to end after the last test: longer than a look-up or a reconnection of
// pulsar-client-go that was under way, also on a loaded machine. A goroutine that is leaked is there for ever.
const patience = 2 * time.Minute

// Main runs the tests of a package, and ends the process with their result. Where they pass, goroutines that are left after two
// minutes fail them. It is what a TestMain calls.
func Main(m *testing.M, ignore ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		if err := left(patience, ignore...); err != nil {
			fmt.Fprintln(os.Stderr, "leaktest: goroutines are left by tests that passed:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// left says which goroutines are still there after the time given. goleak itself looks for about a second.
func left(patience time.Duration, ignore ...goleak.Option) error {
	deadline := time.Now().Add(patience)
	for {
		err := goleak.Find(ignore...)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
