//go:build ignore

// Testlog reads what go test -json prints and shows what a person wants of it: go test's own line for each package, all that a
// failed test printed, and what was skipped and why. It fails where a test failed, where none ran, and with -noskip where one
// was skipped.
//
//	go test -json ./... | testlog -log all.txt -report report.txt [-noskip]
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// event is one line of go test -json, as `go doc test2json` describes it.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

type test struct{ pkg, name string }

type results struct {
	out, log io.Writer
	output   map[test]string // of tests that have not ended
	passed   int
	failed   []test
	skipped  map[string]int // by reason
	coverage map[string]string
	broken   []string // packages that failed
}

func main() {
	logFile := flag.String("log", os.DevNull, "file for everything that the tests print")
	reportFile := flag.String("report", os.DevNull, "file to which the counts and the coverage are added")
	noskip := flag.Bool("noskip", false, "fail where a test is skipped")
	title := flag.String("title", "tests", "what the report calls them")
	flag.Parse()
	if err := run(*logFile, *reportFile, *title, *noskip); err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
}

func run(logFile, reportFile, title string, noskip bool) error {
	log, err := os.Create(logFile)
	if err != nil {
		return err
	}
	defer log.Close()
	report, err := os.OpenFile(reportFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer report.Close()
	r := &results{out: os.Stdout, log: log, output: map[test]string{}, skipped: map[string]int{}, coverage: map[string]string{}}
	if err := r.read(os.Stdin); err != nil {
		return err
	}
	r.report(io.MultiWriter(os.Stdout, report), title)
	return r.verdict(noskip)
}

func (r *results) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if line[0] == '{' && json.Unmarshal(line, &e) == nil {
				r.add(e)
			} else {
				fmt.Fprintf(r.out, "%s", line)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

var (
	packageLine  = regexp.MustCompile(`^(ok|FAIL|\?|---|panic:)\s`)
	coverageText = regexp.MustCompile(`coverage: ([0-9.]+%) of statements`)
	reasonText   = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (.*)$`)
)

func (r *results) add(e event) {
	id := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		fmt.Fprint(r.log, e.Output)
		r.output[id] += e.Output
		if e.Test == "" && packageLine.MatchString(e.Output) {
			fmt.Fprint(r.out, e.Output)
		}
		if found := coverageText.FindStringSubmatch(e.Output); e.Test == "" && found != nil {
			r.coverage[e.Package] = found[1]
		}
	case "pass":
		if e.Test != "" {
			r.passed++
		}
		delete(r.output, id)
	case "skip":
		if e.Test != "" {
			reason := "no reason given"
			if found := reasonText.FindStringSubmatch(r.output[id]); found != nil {
				reason = found[1]
			}
			r.skipped[reason]++
		}
		delete(r.output, id)
	case "fail":
		r.fail(id)
	}
}

func (r *results) fail(id test) {
	if id.name != "" {
		r.failed = append(r.failed, id)
		fmt.Fprint(r.out, r.output[id])
		delete(r.output, id)
		return
	}
	r.broken = append(r.broken, id.pkg)
	// What the package and tests that never ended have printed tells of a panic or a timeout.
	for _, other := range slices.SortedFunc(maps.Keys(r.output), func(a, b test) int { return strings.Compare(a.name, b.name) }) {
		if other.pkg == id.pkg {
			fmt.Fprint(r.out, r.output[other])
			delete(r.output, other)
		}
	}
}

func (r *results) skips() (n int) {
	for _, count := range r.skipped {
		n += count
	}
	return n
}

func (r *results) report(w io.Writer, title string) {
	fmt.Fprintf(w, "%s: %d passed, %d failed, %d skipped\n", title, r.passed, len(r.failed), r.skips())
	for _, reason := range slices.Sorted(maps.Keys(r.skipped)) {
		fmt.Fprintf(w, "  skipped %d: %s\n", r.skipped[reason], reason)
	}
	for _, failed := range r.failed {
		fmt.Fprintf(w, "  failed: %s %s\n", failed.pkg, failed.name)
	}
	for _, pkg := range slices.Sorted(maps.Keys(r.coverage)) {
		fmt.Fprintf(w, "  coverage %6s  %s\n", r.coverage[pkg], pkg)
	}
}

func (r *results) verdict(noskip bool) error {
	switch {
	case len(r.failed) > 0 || len(r.broken) > 0:
		return fmt.Errorf("%d tests in %d packages failed", len(r.failed), len(r.broken))
	case r.passed == 0:
		return errors.New("no test ran")
	case noskip && r.skips() > 0:
		return fmt.Errorf("%d tests were skipped", r.skips())
	}
	return nil
}
