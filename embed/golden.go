package embed

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// ErrGolden says that an embedder does not make the vectors that were recorded of it.
var ErrGolden = errors.New("embed: other vectors than recorded")

// MinCosine is how similar, by cosine, a vector has to be to the recorded one: far more than between other machines and versions of a
// runtime, and less than with other weights, another pooling or another tokenizer.
const MinCosine = 0.999

// maxGoldenLine bounds a line of a file of recorded vectors, in bytes.
const maxGoldenLine = 16 << 20

// goldenLine is a line of a file of recorded vectors: a text and its vector.
type goldenLine struct {
	Text   *string   `json:"text"`
	Vector []float32 `json:"vector"`
}

// Record writes what e makes of texts, for [Verify]: a JSON object a line, with the text and its vector. Texts that fail are an error.
func Record(ctx context.Context, w io.Writer, e Embedder[string], texts []string) error {
	vectors, errs := Each(ctx, e, texts)
	if err := NewBatchError(errs); err != nil {
		return err
	}
	out := json.NewEncoder(w)
	for i := range texts {
		if err := out.Encode(goldenLine{&texts[i], vectors[i]}); err != nil {
			return err
		}
	}
	return nil
}

// Verify embeds the texts that [Record] wrote, one at a time, and returns an error that is [ErrGolden] where a vector has another
// length or points elsewhere: its cosine to the recorded one is below [MinCosine]. Programs call it before they say that they are
// ready, so that a model, a library or a tokenizer that was changed by mistake is found before its vectors are mixed with others.
// A file without any line is an error.
func Verify(ctx context.Context, r io.Reader, e Embedder[string]) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxGoldenLine)
	n := 0
	for lines.Scan() {
		n++
		var want goldenLine
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil || want.Text == nil {
			return fmt.Errorf("embed: line %d of the recorded vectors is not a text and its vector", n)
		}
		got, errs := Each(ctx, e, []string{*want.Text})
		if errs[0] != nil {
			return fmt.Errorf("embed: line %d of the recorded vectors: %w", n, errs[0])
		}
		if len(got[0]) != len(want.Vector) {
			return fmt.Errorf("%w: line %d: %d components, recorded %d", ErrGolden, n, len(got[0]), len(want.Vector))
		}
		if c := cosine(got[0], want.Vector); !(c >= MinCosine) {
			return fmt.Errorf("%w: line %d: cosine %.4f", ErrGolden, n, c)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("embed: the recorded vectors: %w", err)
	}
	if n == 0 {
		return errors.New("embed: no recorded vectors")
	}
	return nil
}

// cosine returns the cosine of two vectors of the same length; NaN where one has no direction.
func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}
