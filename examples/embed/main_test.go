package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// program runs the program.
func runProgram(t *testing.T, in string, arguments ...string) (out, problems string, code int) {
	t.Helper()
	var o, p bytes.Buffer
	code = run(t.Context(), arguments, strings.NewReader(in), &o, &p)
	return o.String(), p.String(), code
}

const lines = "a red cup\nthe crimson mug\nshares fell on Tuesday\n"

// TestVectors prints vectors that the program itself takes as golden ones, of a file and of the standard input.
func TestVectors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lines.txt")
	if err := os.WriteFile(file, []byte("no end & <none>"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, problems, code := runProgram(t, lines, file, "-")
	if code != allWell {
		t.Fatalf("code %d: %s", code, problems)
	}
	var texts []string
	for _, l := range strings.Split(strings.TrimSpace(out), "\n") {
		var v struct {
			Text   string
			Vector []float32
		}
		if err := json.Unmarshal([]byte(l), &v); err != nil || len(v.Vector) != 384 {
			t.Errorf("%d components, %v", len(v.Vector), err)
		}
		texts = append(texts, v.Text)
	}
	if got := strings.Join(texts, "\n") + "\n"; got != "no end & <none>\n"+lines {
		t.Errorf("texts %q", got)
	}

	golden := filepath.Join(t.TempDir(), "golden.jsonl")
	if err := os.WriteFile(golden, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, problems, code := runProgram(t, "tea", "-golden", golden); code != allWell {
		t.Errorf("code %d: %s", code, problems)
	}
	if _, problems, code := runProgram(t, "tea", "-golden", golden, "-pooling", "cls"); code != failed || !strings.Contains(problems, "other vectors than recorded") {
		t.Errorf("another pooling: code %d: %s", code, problems)
	}
}

// TestNear ranks lines, and TestPairs compares them with each other.
func TestNear(t *testing.T) {
	out, problems, code := runProgram(t, lines, "-near", "a cup in the color of blood", "-top", "2")
	if code != allWell || !regexp.MustCompile(`^ +0\.\d{4}  a red cup\n +0\.\d{4}  the crimson mug\n$`).MatchString(out) {
		t.Errorf("code %d, %s%s", code, problems, out)
	}
}

func TestPairs(t *testing.T) {
	out, problems, code := runProgram(t, lines, "-pairs")
	got := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if code != allWell || len(got) != 3 || !strings.HasSuffix(got[0], "  1 a red cup | 2 the crimson mug") {
		t.Errorf("code %d, %s%s", code, problems, out)
	}
	if _, problems, code := runProgram(t, strings.Repeat("tea\n", maxPairs+1), "-pairs"); code != failed || !strings.Contains(problems, "200 lines at most") {
		t.Errorf("code %d, %s", code, problems)
	}
}

// TestShow says what the default model is.
func TestShow(t *testing.T) {
	for _, c := range []struct {
		arguments string
		want      []string
	}{
		{"-show", []string{
			"model +all-MiniLM-L6-v2, bert", "graph .*model.safetensors: the graph is built", "texts +packed, without padding, at most 256 tokens",
			"pooling +mean, scaled to length 1", "dimensions +384", "limit +256 tokens", "prompts +none", "runs on +CPU, fp32, 1 threads",
		}},
		{"-show -precision int8 -batch-tokens -1 -dimensions 64 -limit 32", []string{"texts +one by one", "dimensions +64 of 384", "limit +32 tokens", "int8"}},
	} {
		out, problems, code := runProgram(t, "", append(strings.Fields(c.arguments), "-threads", "1")...)
		for _, want := range c.want {
			if code != allWell || !regexp.MustCompile(`(?m)^.*`+want).MatchString(out) {
				t.Errorf("%s: code %d, no %q in %s%s", c.arguments, code, want, problems, out)
			}
		}
	}
}

// TestBench measures each way for a moment.
func TestBench(t *testing.T) {
	out, problems, code := runProgram(t, "", "-bench", "-bench-time", "1ms")
	for _, way := range []string{"batches of 32", "one by one", "8 callers, Batcher", "64 callers, Batcher"} {
		if !regexp.MustCompile(`(?m)^` + way + ` +\d+\.\d +\d+ +[\d.]+m?s +[\d.]+m?s$`).MatchString(out) {
			t.Errorf("code %d, no %q in %s%s", code, way, problems, out)
		}
	}
}

// TestFailures complains about the line that fails, prints the others, and refuses flags that make no sense.
func TestFailures(t *testing.T) {
	out, problems, code := runProgram(t, "tea\n"+strings.Repeat("long ", 20)+"\ncoffee\n", "-limit", "8", "-long", "reject")
	if code != failed || strings.Count(out, "\n") != 2 || !strings.Contains(problems, "embed: line 2: ") || strings.Contains(problems, "long long") {
		t.Errorf("code %d, %s%s", code, problems, out)
	}
	for arguments, want := range map[string]struct {
		code     int
		problems string
	}{
		"-help":                        {allWell, "usage: embed"},
		"-near a -pairs":               {misused, "exclude each other"},
		"-near-prompt query":           {misused, "needs -near"},
		"-top -1 -near a":              {misused, "-top"},
		"-precision fp16":              {misused, "see embed -help"},
		"-unknown":                     {misused, "see embed -help"},
		"-model /nowhere":              {failed, "/nowhere"},
		"nowhere.txt":                  {failed, "nowhere.txt"},
		"-prompt query":                {failed, `no prompt "query"`},
		"-provider CUDA":               {failed, "execution provider: CUDA"},
		"-near a -near-prompt passage": {failed, `no prompt "passage"`},
		"-pairs":                       {failed, "needs two lines"},
	} {
		if _, problems, code := runProgram(t, "tea", strings.Fields(arguments)...); code != want.code || !strings.Contains(problems, want.problems) {
			t.Errorf("%s: code %d, %s", arguments, code, problems)
		}
	}
}
