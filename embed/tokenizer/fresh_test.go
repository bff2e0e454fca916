package tokenizer_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/tidemark-go/tidemark/internal/servicetest"
)

// TestFreshModels lets the original train models of a random seed, and compares texts that nobody has seen before.
// TIDEMARK_SEED gives the seed of a run that failed.
func TestFreshModels(t *testing.T) {
	t.Parallel()
	seed := os.Getenv("TIDEMARK_SEED")
	if seed == "" {
		seed = strconv.Itoa(rand.IntN(1e9))
	}
	t.Logf("TIDEMARK_SEED=%s", seed)
	out := servicetest.Python(t, []string{"tokenizers==0.23.3", "sentencepiece==0.2.1"}, "testdata/record_models.py", seed, "5000")
	in := bufio.NewScanner(bytes.NewReader(out))
	in.Buffer(nil, 64<<20)
	models := 0
	for ; in.Scan(); models++ {
		var g golden
		if err := json.Unmarshal(in.Bytes(), &g); err != nil {
			t.Fatal(err)
		}
		t.Run(strconv.Itoa(models), func(t *testing.T) { g.compare(t) })
	}
	if err := in.Err(); err != nil || models < 10 {
		t.Errorf("%d models, error %v", models, err)
	}
}
