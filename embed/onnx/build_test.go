package onnx

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// The functions of this file write small ONNX graphs, so that tests run real ones of every kind.

func message(number protowire.Number, parts ...[]byte) []byte {
	var body []byte
	for _, p := range parts {
		body = append(body, p...)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), body)
}

func text(number protowire.Number, s string) []byte { return message(number, []byte(s)) }

func number(number protowire.Number, n int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), uint64(n))
}

// valueInfo is an input (11) or output (12) of a graph.
func valueInfo(field protowire.Number, name string, elem int64, dims ...int64) []byte {
	var shape []byte
	for _, d := range dims {
		if d < 0 {
			shape = append(shape, message(1, text(2, "open"))...)
			continue
		}
		shape = append(shape, message(1, number(1, d))...)
	}
	return message(field, text(1, name), message(2, message(1, number(1, elem), message(2, shape))))
}

func node(op string, inputs, outputs []string, attributes ...[]byte) []byte {
	var parts [][]byte
	for _, in := range inputs {
		parts = append(parts, text(1, in))
	}
	for _, out := range outputs {
		parts = append(parts, text(2, out))
	}
	return message(1, append(append(parts, text(4, op)), attributes...)...)
}

func ints(name string, values ...int64) []byte {
	parts := [][]byte{text(1, name), number(20, 7)}
	for _, v := range values {
		parts = append(parts, number(8, v))
	}
	return message(5, parts...)
}

func integer(name string, n int64) []byte {
	return message(5, text(1, name), number(20, 2), number(3, n))
}

func table(name string, rows, cols int, at func(row, col int) float32) []byte {
	raw := make([]byte, 0, 4*rows*cols)
	for r := range rows {
		for c := range cols {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(at(r, c)))
		}
	}
	return message(5, number(1, int64(rows)), number(1, int64(cols)), number(2, 1), text(8, name), message(9, raw))
}

func model(parts ...[]byte) []byte {
	var graph []byte
	for _, p := range parts {
		graph = append(graph, p...)
	}
	return append(append(number(1, 8), message(7, text(2, "test"), graph)...), message(8, number(2, 17))...)
}

// The parts that most graphs of the tests share: an embedding table of testDims numbers a token, looked up and answered as it is.
const testDims = 4

var (
	idsInput  = valueInfo(11, "input_ids", 7, -1, -1)
	maskInput = valueInfo(11, "attention_mask", 7, -1, -1)
	hiddenOut = valueInfo(12, "last_hidden_state", 1, -1, -1, testDims)
	lookup    = node("Gather", []string{"table", "input_ids"}, []string{"last_hidden_state"})
)

// entry is the table's number for a token, small enough for float32 to hold exactly.
func entry(row, col int) float32 { return float32(row%1000)*float32(col+1) + 1 }

func embeddings(rows int) []byte { return table("table", rows, testDims, entry) }

// files is a model folder by path; a value is a []byte, or whatever becomes its JSON.
type files map[string]any

// testFolder is a folder around a graph, with the vocabulary of the tokenizer in it and no normalization.
func testFolder(graph []byte) files {
	return files{
		"modules.json": []any{
			files{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
			files{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
		},
		"1_Pooling/config.json":     files{"word_embedding_dimension": testDims, "pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false},
		"config.json":               files{"model_type": "bert", "hidden_size": testDims, "max_position_embeddings": 512, "vocab_size": len(testVocabulary), "pad_token_id": 0},
		"sentence_bert_config.json": files{"max_seq_length": 16, "do_lower_case": false},
		"tokenizer_config.json":     files{"model_max_length": 1e30},
		"tokenizer.json":            testTokenizer(),
		"model.onnx":                graph,
	}
}

var testVocabulary = []string{
	"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "green", "blue", "cup", "lamp", "bad", "##ly", "worse", "the", "of", "sea",
}

// ids of testVocabulary.
const (
	padID, clsID, sepID, redID, greenID, blueID, cupID, lampID, badID, worseID, seaID = 0, 2, 3, 5, 6, 7, 8, 9, 10, 12, 15
)

func testTokenizer() files {
	vocabulary := map[string]int{}
	var added []any
	for id, token := range testVocabulary {
		vocabulary[token] = id
		if id <= 4 {
			added = append(added, files{
				"id": id, "content": token, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
			})
		}
	}
	special := func(token string, id int) files {
		return files{"id": token, "ids": []int{id}, "tokens": []string{token}}
	}
	return files{
		"version": "1.0", "truncation": nil, "padding": files{
			"strategy": files{"Fixed": 12}, "direction": "Right", "pad_to_multiple_of": nil, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
		},
		"added_tokens":  added,
		"normalizer":    files{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": nil, "lowercase": true},
		"pre_tokenizer": files{"type": "BertPreTokenizer"},
		"post_processor": files{
			"type": "TemplateProcessing",
			"single": []any{
				files{"SpecialToken": files{"id": "[CLS]", "type_id": 0}},
				files{"Sequence": files{"id": "A", "type_id": 0}},
				files{"SpecialToken": files{"id": "[SEP]", "type_id": 0}},
			},
			"pair": []any{
				files{"SpecialToken": files{"id": "[CLS]", "type_id": 0}},
				files{"Sequence": files{"id": "A", "type_id": 0}},
				files{"SpecialToken": files{"id": "[SEP]", "type_id": 0}},
				files{"Sequence": files{"id": "B", "type_id": 1}},
				files{"SpecialToken": files{"id": "[SEP]", "type_id": 1}},
			},
			"special_tokens": files{"[CLS]": special("[CLS]", clsID), "[SEP]": special("[SEP]", sepID)},
		},
		"decoder": files{"type": "WordPiece", "prefix": "##", "cleanup": true},
		"model": files{
			"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary,
		},
	}
}

// write puts the folder on the disk and answers where.
func (f files) write(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "test-model")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	for name, content := range f {
		b, is := content.([]byte)
		if !is {
			var err error
			if b, err = json.Marshal(content); err != nil {
				tb.Fatal(err)
			}
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// with answers the folder with one file more or other; a nil content removes it, and keys given change a JSON object's.
func (f files) with(name string, content any) files {
	changed := files{}
	for k, v := range f {
		changed[k] = v
	}
	old, isObject := f[name].(files)
	keys, addsKeys := content.(files)
	switch {
	case content == nil:
		delete(changed, name)
	case isObject && addsKeys:
		object := files{}
		for k, v := range old {
			object[k] = v
		}
		for k, v := range keys {
			object[k] = v
		}
		changed[name] = object
	default:
		changed[name] = content
	}
	return changed
}
