//go:build unix

// Package speed measures how fast texts are embedded, for benchmarks that compare ways to do so.
package speed

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Figures are texts a second, by the clock and of this process's processor time, and the seconds that a call takes.
type Figures struct{ Wall, CPU, P50, P99 float64 }

// least is how long figures are taken over, at least.
const least = 700 * time.Millisecond

// Measure has so many callers embed at the same time, each one call after the other, all of them taking the next of calls. A first round
// over all calls, or one second of it, warms up.
func Measure(callers int, calls [][]string, embed func(texts []string) error) (Figures, error) {
	warm := time.Now()
	for _, call := range calls {
		if err := embed(call); err != nil {
			return Figures{}, err
		}
		if time.Since(warm) > time.Second {
			break
		}
	}
	took, failed := make([][]time.Duration, callers), make([]error, callers)
	var next, texts atomic.Int64
	var all sync.WaitGroup
	used, err := ProcessorTime()
	began := time.Now()
	for c := range callers {
		all.Go(func() {
			for failed[c] == nil && (took[c] == nil || time.Since(began) < least) {
				call := calls[int(next.Add(1)-1)%len(calls)]
				start := time.Now()
				failed[c] = embed(call)
				took[c] = append(took[c], time.Since(start))
				texts.Add(int64(len(call)))
			}
		})
	}
	all.Wait()
	wall := time.Since(began).Seconds()
	after, err2 := ProcessorTime()
	if err := errors.Join(err, err2, errors.Join(failed...)); err != nil {
		return Figures{}, err
	}
	durations := slices.Concat(took...)
	slices.Sort(durations)
	at := func(share int) float64 { return durations[len(durations)*share/100].Seconds() }
	n := float64(texts.Load())
	return Figures{n / wall, n / (after - used), at(50), at(99)}, nil
}

// ProcessorTime is what this process has used, in seconds.
func ProcessorTime() (float64, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9, nil
}
