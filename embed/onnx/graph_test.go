package onnx

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestReadGraph(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g.onnx")
	inner := message(6, node("DynamicQuantizeLinear", []string{"x"}, []string{"y"}))
	external := message(5, number(1, 2), number(2, 1), text(8, "w"), message(13, text(1, "location"), text(2, "w.bin")),
		message(13, text(1, "offset"), text(2, "0")), number(14, 1))
	tests := map[string]struct {
		model []byte
		want  graph
	}{
		"inputs and outputs": {
			model(idsInput, maskInput, valueInfo(11, "table", 1, 9, 4), lookup, embeddings(9), hiddenOut),
			graph{
				inputs:  []value{{"input_ids", 7, []int64{-1, -1}}, {"attention_mask", 7, []int64{-1, -1}}}, // the table is a weight
				outputs: []value{{"last_hidden_state", 1, []int64{-1, -1, 4}}},
			},
		},
		"no shape": {
			model(message(12, text(1, "y"), message(2, message(1, number(1, 10))))),
			graph{outputs: []value{{"y", 10, nil}}},
		},
		"quantizes":             {model(node("DynamicQuantizeLinear", nil, nil), node("Add", nil, nil)), graph{companyOp: "DynamicQuantizeLinear"}},
		"quantizes in a branch": {model(node("If", nil, nil, message(5, inner))), graph{companyOp: "DynamicQuantizeLinear"}},
		"quantizes in a function": {
			append(model(node("Add", nil, nil)), message(25, text(1, "f"), message(7, text(4, "MatMulNBits")))...),
			graph{companyOp: "MatMulNBits"},
		},
		"weights beside it": {model(external, external, node("Constant", nil, nil, message(5, message(5, message(13, text(2, "c.bin"), text(1, "location")))))), graph{external: []string{"c.bin", "w.bin"}}},
		"unknown fields":    {append(number(1000, 5), model()...), graph{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, test.model, 0o644); err != nil {
				t.Fatal(err)
			}
			got, err := readGraph(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.sha256) != 64 {
				t.Errorf("hash %q", got.sha256)
			}
			got.sha256 = ""
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("read %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestReadGraphErrors(t *testing.T) {
	deep := node("Add", nil, nil)
	for range 40 {
		deep = node("If", nil, nil, message(5, message(6, deep)))
	}
	whole := model(idsInput, maskInput, lookup, embeddings(9), hiddenOut)
	tests := map[string][]byte{
		"empty":           {},
		"text":            []byte("this is no model, it is a text"),
		"pointer of LFS":  []byte("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 90868376\n"),
		"no graph":        number(1, 8),
		"cut short":       whole[:len(whole)/2],
		"length too long": {7<<3 | 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"varint too long": bytes.Repeat([]byte{0xff}, 20),
		"field zero":      {0, 0},
		"too deep":        model(deep),
		"name too long":   model(node(strings.Repeat("x", maxGraphName+1), nil, nil)),
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "g.onnx")
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := readGraph(path)
			if !errors.Is(err, errNotONNX) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v", err)
			}
			if pointer := name == "pointer of LFS"; pointer != strings.Contains(err.Error(), "git lfs pull") {
				t.Errorf("error %v", err)
			}
		})
	}
	if _, err := readGraph(t.TempDir()); err == nil {
		t.Error("a folder was read as a graph")
	}
}

func FuzzReadGraph(f *testing.F) {
	f.Add(model(idsInput, maskInput, lookup, embeddings(3), hiddenOut))
	f.Add(model(node("If", nil, nil, message(5, message(6, node("DynamicQuantizeLinear", nil, nil))))))
	f.Fuzz(func(t *testing.T, content []byte) {
		w := walker{in: bufio.NewReader(bytes.NewReader(content))}
		if err := w.model(int64(len(content))); err == nil && w.pos != int64(len(content)) {
			t.Errorf("read %d of %d bytes", w.pos, len(content))
		}
	})
}

func TestSign(t *testing.T) {
	ids, mask, types := value{"input_ids", 7, []int64{-1, -1}}, value{"attention_mask", 7, nil}, value{"token_type_ids", 7, []int64{-1, -1}}
	tokens, pooled := value{"token_embeddings", 1, []int64{-1, -1, 4}}, value{"sentence_embedding", 1, []int64{-1, 4}}
	tests := map[string]struct {
		graph graph
		want  signature
		err   error
		says  string
	}{
		"tokens before sentence": {graph: graph{inputs: []value{mask, ids}, outputs: []value{pooled, tokens}}, want: signature{output: "token_embeddings", elem: 1}},
		"sentence only":          {graph: graph{inputs: []value{ids, mask, types}, outputs: []value{pooled}}, want: signature{output: "sentence_embedding", elem: 1, pooled: true}},
		"open dimension":         {graph: graph{inputs: []value{ids, mask}, outputs: []value{{"last_hidden_state", 1, []int64{-1, -1, -1}}}}, want: signature{output: "last_hidden_state", elem: 1}},
		"unknown input":          {graph: graph{inputs: []value{ids, mask, {"past_key_values", 7, nil}}, outputs: []value{tokens}}, err: ErrUnsupported, says: "past_key_values"},
		"no mask":                {graph: graph{inputs: []value{ids}, outputs: []value{tokens}}, want: signature{output: "token_embeddings", elem: 1}},
		"other names":            {graph: graph{inputs: []value{{"input_word_ids:0", 6, nil}, {"input_mask:0", 6, nil}}, outputs: []value{{"sequence_output:0", 1, nil}}}, want: signature{output: "sequence_output:0", elem: 1}},
		"fixed sizes":            {graph: graph{inputs: []value{{"input_ids", 7, []int64{-1, 128}}, {"attention_mask", 6, []int64{2, -1}}}, outputs: []value{tokens}}, want: signature{output: "token_embeddings", elem: 1, rows: rows{texts: 2, tokens: 128}}},
		"unknown output":         {graph: graph{inputs: []value{ids, mask}, outputs: []value{{"logits", 1, nil}}}, err: ErrUnsupported, says: "logits"},
		"half precision":         {graph: graph{inputs: []value{ids, mask}, outputs: []value{{"last_hidden_state", 10, nil}}}, want: signature{output: "last_hidden_state", elem: 10}},
		"double precision":       {graph: graph{inputs: []value{ids, mask}, outputs: []value{{"last_hidden_state", 11, nil}}}, err: ErrUnsupported, says: "float64"},
		"other dimension":        {graph: graph{inputs: []value{ids, mask}, outputs: []value{{"last_hidden_state", 1, []int64{-1, -1, 768}}}}, err: ErrModel, says: "768"},
		"no token axis":          {graph: graph{inputs: []value{ids, mask}, outputs: []value{{"last_hidden_state", 1, []int64{-1, 4}}}}, err: ErrModel, says: "last_hidden_state"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := sign(test.graph, folder{dimensions: 4})
			if !errors.Is(err, test.err) || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Fatalf("error %v, want %v that says %q", err, test.err, test.says)
			}
			if err == nil && !reflect.DeepEqual(got, test.want) {
				t.Errorf("signature %+v, want %+v", got, test.want)
			}
		})
	}
}
