package onnx

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"slices"
)

// input is a text as the graph reads it.
type input struct {
	ids, types []int32
}

// plan groups the inputs that have no error into runs: texts of like length together, the longest last, at most so many tokens with
// padding. A budget of -1 makes runs of one, in order.
func plan(inputs []input, errs []error, budget int) [][]int {
	var rows []int
	for i := range inputs {
		if errs[i] == nil {
			rows = append(rows, i)
		}
	}
	if budget > 0 {
		slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(len(inputs[a].ids), len(inputs[b].ids)) })
	}
	var runs [][]int
	for start := 0; start < len(rows); {
		end := start + 1
		for end < len(rows) && (end-start+1)*len(inputs[rows[end]].ids) <= budget {
			end++
		}
		runs = append(runs, rows[start:end])
		start = end
	}
	return runs
}

// tensors lays the rows out for the graph's inputs, padded at the right to width.
func (b *batch) tensors(rows []int, width int, names []string, padID int64) [][]int64 {
	data := make([][]int64, len(names))
	for k, name := range names {
		data[k] = make([]int64, len(rows)*width)
		for i, row := range rows {
			line := data[k][i*width : (i+1)*width]
			in := b.inputs[row]
			for j := range line {
				switch {
				case j >= len(in.ids):
					if name == "input_ids" {
						line[j] = padID
					}
				case name == "input_ids":
					line[j] = int64(in.ids[j])
				case name == "attention_mask":
					line[j] = 1
				case name == "token_type_ids":
					line[j] = int64(in.types[j])
				}
			}
		}
	}
	return data
}

// batch is one call of Embed; its slices are aligned with the texts.
type batch struct {
	inputs  []input
	vectors [][]float32
	errs    []error
}

// fingerprint changes with whatever changes vectors: the graph, its weights, the tokenizer, the pooling, the limit.
func fingerprint(f folder, g graph, s signature) (string, error) {
	hash := sha256.New()
	hash.Write(fmt.Appendf(nil, "tidemark text 1\ngraph %s\noutput %s\npooling %s\nnormalize %t\nlimit %d\n",
		g.sha256, s.output, f.pooling, f.normalize, f.limit))
	if err := hashFile(hash, f.tokenizer); err != nil {
		return "", err
	}
	for _, name := range g.external {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return "", fmt.Errorf("%s: external weights %q are not inside the folder", f.onnx, name)
		}
		if err := hashFile(hash, filepath.Join(filepath.Dir(f.onnx), filepath.FromSlash(name))); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func hashFile(hash io.Writer, path string) error {
	file, size, err := openRegular(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read from
	if _, err := fmt.Fprintf(hash, "file %d\n", size); err != nil {
		return err
	}
	_, err = io.Copy(hash, file)
	return err
}
