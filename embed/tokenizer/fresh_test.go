package tokenizer_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/embed/tokenizer"
	"github.com/tidemark-go/tidemark/internal/servicetest"
)

// TestFresh lets the original answer for files of another seed each time, and compares texts that nobody has seen before: models that it
// trains, in the layouts that are in use, and random models with random parts around.
func TestFresh(t *testing.T) {
	t.Parallel()
	seed := strconv.FormatUint(servicetest.FreshSeed(t), 10)
	for _, run := range []struct {
		script, size string
		least        int // files
	}{
		{"record_models.py", "5000", 10}, // tokens of each
		{"record_parts.py", "400", 300},
		{"record_expressions.py", "300", 300},
	} {
		t.Run(run.script, func(t *testing.T) {
			t.Parallel()
			out := servicetest.Python(t, []string{"tokenizers==0.23.3", "sentencepiece==0.2.1"}, "testdata/"+run.script, seed, run.size)
			in := bufio.NewScanner(bytes.NewReader(out))
			in.Buffer(nil, 64<<20)
			files := 0
			for ; in.Scan(); files++ {
				var g golden
				if err := json.Unmarshal(in.Bytes(), &g); err != nil {
					t.Fatal(err)
				}
				if _, err := tokenizer.Parse(g.Tokenizer); errors.Is(err, tokenizer.ErrUnsupported) && strings.Contains(err.Error(), ": more than ") {
					continue // an expression beyond the bounds
				}
				t.Run(strconv.Itoa(files), func(t *testing.T) { g.compare(t) })
			}
			if err := in.Err(); err != nil || files < run.least {
				t.Errorf("%d files, error %v", files, err)
			}
		})
	}
}
