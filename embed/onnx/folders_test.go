//go:build cgo

package onnx

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/servicetest"
)

// folderGolden is a folder, and what sentence-transformers makes of texts with it: a line of testdata/folders.jsonl.gz, which
// testdata/folders.py made.
type folderGolden struct {
	Name    string
	Files   map[string][]byte
	Prompt  string
	Texts   []string
	Vectors [][]float32
}

// folderGoldens reads what was recorded. Where FOLDERS_SEED is set, as many folders are made afresh, of that seed.
func folderGoldens(tb testing.TB) []folderGolden {
	tb.Helper()
	path := filepath.Join("testdata", "folders.jsonl.gz")
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	in, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		tb.Fatal(err)
	}
	lines := json.NewDecoder(in)
	if seed := os.Getenv("FOLDERS_SEED"); seed != "" {
		lines = json.NewDecoder(bytes.NewReader(servicetest.Python(tb, []string{"sentence-transformers==6.2.0"}, "testdata/folders.py", seed, "100")))
	}
	var all []folderGolden
	for {
		var g folderGolden
		if err := lines.Decode(&g); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			tb.Fatal(err)
		}
		all = append(all, g)
	}
}

// TestFolders embeds texts with folders of many kinds as sentence-transformers does.
func TestFolders(t *testing.T) {
	t.Parallel()
	goldens := folderGoldens(t)
	if len(goldens) < 20 {
		t.Fatalf("%d folders", len(goldens))
	}
	for _, g := range goldens {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			f := files{}
			for name, b := range g.Files {
				f[name] = b
			}
			text := open(t, TextOptions{Dir: f.write(t), Prompt: g.Prompt})
			for i, got := range embedAll(t, text, g.Texts...) {
				if len(got) != len(g.Vectors[i]) {
					t.Fatalf("%d dimensions, want %d", len(got), len(g.Vectors[i]))
				}
				if c, d := cosine(got, g.Vectors[i]), apart(got, g.Vectors[i]); c < 0.999999 || d > 1e-4 && !strings.Contains(g.Name, "normalize") {
					t.Errorf("%q: cosine %f, differs by %g\n%v\n%v", g.Texts[i], c, d, got, g.Vectors[i])
				}
			}
		})
	}
}
