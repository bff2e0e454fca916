//go:build race

package window

// raced says that the race detector watches, which slows these tests down tenfold. There is one goroutine for it to watch, so repetitions are
// left to the suite without it.
const raced = true
