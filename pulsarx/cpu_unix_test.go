//go:build unix

package pulsarx_test

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used of the processors: it tells clients apart also on a machine that has other work.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
