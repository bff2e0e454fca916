package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// board shows features while they come: on a terminal as a table that changes in its place, elsewhere line by line.
type board struct {
	out  io.Writer
	live bool
	done chan struct{} // closed when every partition of every job is complete

	ended func() // closes it, once

	mu       sync.Mutex
	panels   map[string]*panel
	complete map[source]bool
	drawn    int // lines
	when     time.Time
}

// panel is what the board shows of one job.
type panel struct {
	results, updated, late int
	upTo                   time.Time // the latest watermark
	recent, lates          []string
}

// Lines of a panel: the whole table fits in a terminal of 24.
const (
	recentLines = 4
	lateLines   = 2
)

func newBoard(out io.Writer) *board {
	b := &board{out: out, live: isTerminal(out), done: make(chan struct{}), panels: map[string]*panel{}, complete: map[source]bool{}}
	b.ended = sync.OnceFunc(func() { close(b.done) })
	for _, j := range jobs {
		b.panels[j.name] = &panel{}
	}
	return b
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// wait returns when all is complete.
func (b *board) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-b.done:
		return nil
	}
}

func (b *board) show(batch []Feature) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range batch {
		line := b.panels[f.Job].add(f)
		if f.Kind == watermark && f.End.Equal(endOfDay) {
			b.complete[source{f.Job, f.Partition}] = true
		}
		if !b.live && line != "" {
			if _, err := fmt.Fprintln(b.out, line); err != nil {
				return err
			}
		}
	}
	all := len(b.complete) == len(jobs)*partitions
	if all {
		defer b.ended()
	}
	const frame = 50 * time.Millisecond
	if b.live && (all || time.Since(b.when) > frame) {
		return b.draw()
	}
	return nil
}

func clock(t time.Time) string { return t.Format("15:04:05") }

// add takes a feature down and returns its line, empty for a watermark.
func (p *panel) add(f Feature) (line string) {
	switch f.Kind {
	case watermark:
		if f.End.After(p.upTo) {
			p.upTo = f.End
		}
		return ""
	case late:
		p.late++
		line = fmt.Sprintf("%-8s  %s            %-5s   1 click   %7.2f  too late, no window is left for it", f.Job, clock(f.Start), f.User, f.Spent)
		p.lates = last(append(p.lates, line), lateLines)
		return line
	case "updated":
		p.updated++
	}
	p.results++
	clicks := "clicks"
	if f.Clicks == 1 {
		clicks = "click"
	}
	line = fmt.Sprintf("%-8s  %s - %s  %-5s  %2d %-6s  %7.2f  %s", f.Job, clock(f.Start), clock(f.End), f.User, f.Clicks, clicks, f.Spent, f.Kind)
	p.recent = last(append(p.recent, line), recentLines)
	return line
}

func last(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }

// draw writes the table over the one before. Lines that are longer than the terminal is wide are cut, not wrapped, so that the table
// is always as high as it was.
func (b *board) draw() error {
	const wrapOff, wrapOn = "\x1b[?7l", "\x1b[?7h"
	var text strings.Builder
	text.WriteString(wrapOff)
	if b.drawn > 0 {
		fmt.Fprintf(&text, "\x1b[%dA\x1b[J", b.drawn) // so many lines up, and clear what is below
	}
	b.drawn, b.when = 0, time.Now()
	write := func(format string, args ...any) {
		fmt.Fprintf(&text, format+"\n", args...)
		b.drawn++
	}
	for _, j := range jobs {
		p := b.panels[j.name]
		upTo := "-"
		if !p.upTo.IsZero() {
			upTo = clock(p.upTo)
		}
		write("%s %s: complete up to %s; %d results, %d of them updates; %d late clicks", strings.ToUpper(j.name), j.what,
			upTo, p.results, p.updated, p.late)
		for i := range recentLines + lateLines {
			line := ""
			switch k := i - recentLines; {
			case i < len(p.recent):
				line = p.recent[i]
			case k >= 0 && k < len(p.lates):
				line = p.lates[k]
			}
			write("  %s", line)
		}
	}
	text.WriteString(wrapOn)
	_, err := io.WriteString(b.out, text.String())
	return err
}
