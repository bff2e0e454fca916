//go:build unix

package tokenizer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-go/tidemark/embed/tokenizer"
	"github.com/tidemark-go/tidemark/internal/servicetest"
)

// BenchmarkPeers measures, in one run, how many tokens a second of processor time this package, the original and the Go package
// sugarme make of the same texts with the same file, and prints how many times theirs ours is.
func BenchmarkPeers(b *testing.B) {
	trained := lines[golden](b, "testdata/models.jsonl.gz")
	files := map[string][]byte{"BPE": trained[0].Tokenizer, "Expression": withO200K(b, trained[2].Tokenizer), "Unigram": trained[8].Tokenizer}
	data, err := os.ReadFile(minilm)
	if err != nil {
		b.Fatal(err)
	}
	files["WordPiece"] = data
	var texts []string
	for _, a := range lines[answer](b, "testdata/minilm/sentences.jsonl")[:44] { // sentences of many languages
		texts = append(texts, strings.ReplaceAll(a.Text, "\n", " "))
	}
	for _, kind := range []string{"WordPiece", "BPE", "Expression", "Unigram"} {
		b.Run(kind, func(b *testing.B) {
			dir := b.TempDir()
			file, list := filepath.Join(dir, "tokenizer.json"), filepath.Join(dir, "texts.txt")
			write(b, file, files[kind])
			write(b, list, []byte(strings.Join(texts, "\n")))
			original := number(b, servicetest.Python(b, []string{"tokenizers==0.23.3"}, "testdata/original_speed.py", file, list))
			tok := load(b, file)
			var ours float64
			for b.Loop() {
				ours = speed(b, tok, texts)
			}
			b.ReportMetric(ours, "tokens/cpu-s")
			b.ReportMetric(ours/original, "x-original")
			if kind == "WordPiece" { // sugarme panics on these texts with the others
				b.ReportMetric(ours/sugarme(b, file, list), "x-sugarme")
			}
		})
	}
}

// withO200K is a file like Llama 3's that splits words by the expression of OpenAI's o200k_base, which no function is written out for.
func withO200K(b *testing.B, file []byte) []byte {
	b.Helper()
	const ending = `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
	o200k := `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` + ending +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*` + ending +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	quoted, err := json.Marshal(o200k)
	if err != nil {
		b.Fatal(err)
	}
	replaced := regexp.MustCompile(`"Regex": "[^"]*"`).ReplaceAllLiteral(file, append([]byte(`"Regex": `), quoted...))
	if bytes.Equal(replaced, file) {
		b.Fatal("the file has no expression")
	}
	return replaced
}

// speed is how many tokens this package makes in a second of processor time.
func speed(b *testing.B, tok *tokenizer.Tokenizer, texts []string) float64 {
	b.Helper()
	var dst tokenizer.Encoding
	tokens, began := 0, processorTime(b)
	for processorTime(b)-began < 1 {
		for _, s := range texts {
			var err error
			dst.IDs, dst.TypeIDs, dst.Offsets = dst.IDs[:0], dst.TypeIDs[:0], dst.Offsets[:0]
			if dst, err = tok.AppendEncode(dst, s, 0); err != nil {
				b.Fatal(err)
			}
			tokens += len(dst.IDs)
		}
	}
	return float64(tokens) / (processorTime(b) - began)
}

// sugarme is how many tokens sugarme makes: testdata/sugarme, a module of its own, measures it.
func sugarme(b *testing.B, file, list string) float64 {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), "go", "run", ".", file, list)
	cmd.Dir = filepath.Join("testdata", "sugarme")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatal(err)
	}
	return number(b, out)
}

func number(b *testing.B, out []byte) float64 {
	b.Helper()
	n, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		b.Fatal(fmt.Errorf("%w: %s", err, out))
	}
	return n
}

func write(b *testing.B, path string, data []byte) {
	b.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.Fatal(err)
	}
}

// processorTime is what this process has used, in seconds.
func processorTime(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
