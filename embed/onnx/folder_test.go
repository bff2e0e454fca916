package onnx

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadFolder(t *testing.T) {
	base := testFolder([]byte("graph"))
	normalized := []any{
		files{"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
		files{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
		files{"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
	}
	moved := files{"modules.json": normalized, "1_Pooling/config.json": base["1_Pooling/config.json"]}
	for _, name := range []string{"config.json", "tokenizer.json", "sentence_bert_config.json"} {
		moved["0_Transformer/"+name] = base[name]
	}
	moved["0_Transformer/onnx/model.onnx"] = []byte("graph")
	tests := map[string]struct {
		folder files
		file   string
		want   folder
		onnx   string
	}{
		"plain":          {folder: base, want: folder{pooling: Mean, limit: 16}},
		"in a subfolder": {folder: moved, want: folder{pooling: Mean, limit: 16, normalize: true}, onnx: "0_Transformer/onnx/model.onnx"},
		"limit among the tokenizer's arguments": {
			folder: base.with("sentence_bert_config.json", files{"tokenizer_args": files{"model_max_length": 24, "use_fast": true}, "model_args": files{"dtype": "float32"}}),
			want:   folder{pooling: Mean, limit: 24},
		},
		"limit of tokenizer": {
			folder: base.with("sentence_bert_config.json", nil).with("tokenizer_config.json", files{"model_max_length": 9}), want: folder{pooling: Mean, limit: 9},
		},
		"limit before the tokenizer's": {folder: base.with("tokenizer_config.json", files{"model_max_length": 9}), want: folder{pooling: Mean, limit: 16}},
		"limit beyond the positions":   {folder: base.with("sentence_bert_config.json", files{"max_seq_length": 600}), want: folder{pooling: Mean, limit: 512}},
		"limit of positions":           {folder: base.with("sentence_bert_config.json", nil), want: folder{pooling: Mean, limit: 512}},
		"limit in an older file": {
			folder: base.with("sentence_bert_config.json", nil).with("sentence_distilbert_config.json", files{"max_seq_length": 12}),
			want:   folder{pooling: Mean, limit: 12},
		},
		"no limit of its own": {
			folder: base.with("sentence_bert_config.json", files{"max_seq_length": nil}).with("tokenizer_config.json", nil), want: folder{pooling: Mean, limit: 512},
		},
		"positions after the padding id": {
			folder: base.with("sentence_bert_config.json", nil).with("config.json", files{"model_type": "xlm-roberta", "max_position_embeddings": 514, "pad_token_id": 1}),
			want:   folder{pooling: Mean, limit: 512, padID: 1},
		},
		"no limit at all": {
			folder: base.with("sentence_bert_config.json", nil).with("config.json", files{"max_position_embeddings": nil}), want: folder{pooling: Mean},
		},
		"cls":                      {folder: base.with("1_Pooling/config.json", files{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}), want: folder{pooling: CLS, limit: 16}},
		"max":                      {folder: base.with("1_Pooling/config.json", files{"pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": false}), want: folder{pooling: Max, limit: 16}},
		"last":                     {folder: base.with("1_Pooling/config.json", files{"pooling_mode_lasttoken": true, "pooling_mode_mean_tokens": false}), want: folder{pooling: LastToken, limit: 16}},
		"weighted mean":            {folder: base.with("1_Pooling/config.json", files{"pooling_mode_weightedmean_tokens": true, "pooling_mode_mean_tokens": false}), want: folder{pooling: WeightedMean, limit: 16}},
		"as transformers saves it": {folder: base.with("modules.json", nil).with("1_Pooling/config.json", nil), want: folder{pooling: Mean, limit: 16}},
		"weights alone":            {folder: base.with("model.onnx", nil).with("model.safetensors", []byte("w")), want: folder{pooling: Mean, limit: 16}, onnx: "model.safetensors"},
		"a graph before weights":   {folder: base.with("model.safetensors", []byte("w")), want: folder{pooling: Mean, limit: 16}},
		"weights by name":          {folder: base.with("model.safetensors", []byte("w")), file: "model.safetensors", want: folder{pooling: Mean, limit: 16}, onnx: "model.safetensors"},
		"an index of weights":      {folder: base.with("model.onnx", nil).with(indexFile, []byte("{}")), want: folder{pooling: Mean, limit: 16}, onnx: indexFile},
		"weights before an index":  {folder: base.with("model.onnx", nil).with(indexFile, []byte("{}")).with("model.safetensors", []byte("w")), want: folder{pooling: Mean, limit: 16}, onnx: "model.safetensors"},
		"an index by name":         {folder: base.with(indexFile, []byte("{}")).with("model.safetensors", []byte("w")), file: indexFile, want: folder{pooling: Mean, limit: 16}, onnx: indexFile},
		"an index for the weights": {folder: base.with(indexFile, []byte("{}")), file: "model.safetensors", want: folder{pooling: Mean, limit: 16}, onnx: indexFile},
		"mode as a word":           {folder: base.with("1_Pooling/config.json", files{"pooling_mode": "cls", "pooling_mode_mean_tokens": false}), want: folder{pooling: CLS, limit: 16}},
		"no mode":                  {folder: base.with("1_Pooling/config.json", files{"pooling_mode_mean_tokens": false}), want: folder{pooling: Mean, limit: 16}},
		"two modes":                {folder: base.with("1_Pooling/config.json", files{"pooling_mode_cls_token": true}), want: folder{pooling: "cls+mean", limit: 16}},
		"two modes as words":       {folder: base.with("1_Pooling/config.json", files{"pooling_mode_mean_tokens": false, "pooling_mode": []string{"mean", "cls"}}), want: folder{pooling: "mean+cls", limit: 16}},
		"another model's padding":  {folder: base.with("config.json", files{"model_type": "roberta", "pad_token_id": nil}), want: folder{pooling: Mean, limit: 16, padID: 1}},
		"byte order mark":          {folder: base.with("sentence_bert_config.json", []byte("\xef\xbb\xbf{\"max_seq_length\": 7}")), want: folder{pooling: Mean, limit: 7}},
		"named file":               {folder: base.with("onnx/small.onnx", []byte("g")), file: "onnx/small.onnx", want: folder{pooling: Mean, limit: 16}, onnx: "onnx/small.onnx"},
		"both places":              {folder: base.with("onnx/model.onnx", []byte("g")), want: folder{pooling: Mean, limit: 16}},
		"only other":               {folder: base.with("onnx/small.onnx", []byte("g")).with("model.onnx", nil), want: folder{pooling: Mean, limit: 16}, onnx: "onnx/small.onnx"},
		"no prompts":               {folder: base.with("config_sentence_transformers.json", files{"prompts": files{}, "default_prompt_name": nil}), want: folder{pooling: Mean, limit: 16}},
		"as sentence-transformers 6 saves it": {
			folder: base.with("sentence_bert_config.json", textOutput("last_hidden_state")).with("1_Pooling/config.json", files{"pooling_mode_mean_tokens": false, "pooling_mode": []string{"mean"}}),
			want:   folder{pooling: Mean, limit: 16},
		},
		"a space before": {
			folder: base.with("tokenizer.json", byteLevel(true)).with("tokenizer_config.json", files{"tokenizer_class": "RobertaTokenizerFast", "add_prefix_space": true}), want: folder{pooling: Mean, limit: 16},
		},
		"a space before, of a class that is silent": {
			folder: base.with("tokenizer.json", byteLevel(true)).with("tokenizer_config.json", files{"tokenizer_class": "PreTrainedTokenizerFast"}), want: folder{pooling: Mean, limit: 16},
		},
		"flags of a class that has none": {folder: base.with("tokenizer_config.json", files{"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": false}), want: folder{pooling: Mean, limit: 16}},
		"DistilBERT's size":              {folder: base.with("config.json", files{"hidden_size": nil, "dim": testDims}), want: folder{pooling: Mean, limit: 16}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := test.folder.write(t)
			got, err := readFolder(dir, test.file)
			if err != nil {
				t.Fatal(err)
			}
			if test.onnx == "" {
				test.onnx = "model.onnx"
			}
			if got.graph != filepath.Join(dir, filepath.FromSlash(test.onnx)) {
				t.Errorf("graph %s, want %s", got.graph, test.onnx)
			}
			if got.name != "test-model" || got.dimensions != testDims || got.vocabulary != len(testVocabulary) || filepath.Base(got.tokenizer) != "tokenizer.json" {
				t.Errorf("read %+v", got)
			}
			if got.pooling != test.want.pooling || got.normalize != test.want.normalize || got.limit != test.want.limit || got.padID != test.want.padID {
				t.Errorf("read %+v, want %+v", got, test.want)
			}
		})
	}
}

// textOutput is what sentence-transformers 6 writes about the transformer's output.
func textOutput(name string) files {
	return files{
		"transformer_task": "feature-extraction", "module_output_name": "token_embeddings",
		"modality_config": files{"text": files{"method": "forward", "method_output_name": name}},
	}
}

// byteLevel is what a tokenizer.json has that puts a space before a text, or not.
func byteLevel(prefix bool) files {
	return files{"pre_tokenizer": files{"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": true}}
}

func TestReadFolderErrors(t *testing.T) {
	base := testFolder([]byte("graph"))
	modules := func(types ...string) files {
		var list []any
		for i, kind := range types {
			list = append(list, files{"path": []string{"", "1_Pooling", "2", "3"}[i], "type": "sentence_transformers.models." + kind})
		}
		return base.with("modules.json", list)
	}
	outside := base.with("modules.json", []any{files{"path": "", "type": "Transformer"}, files{"path": "../elsewhere", "type": "Pooling"}})
	tests := map[string]struct {
		folder files
		file   string
		err    error
		says   string
	}{
		"modules.json no JSON":     {folder: base.with("modules.json", []byte("[{")), err: ErrModel, says: "modules.json"},
		"modules.json no list":     {folder: base.with("modules.json", []byte("{}")), err: ErrModel, says: "modules.json"},
		"no modules":               {folder: base.with("modules.json", []byte("[]")), err: ErrUnsupported, says: "modules.json"},
		"a layer of tokens":        {folder: modules("Transformer", "CNN", "Pooling"), err: ErrUnsupported, says: "CNN"},
		"a weighted layer":         {folder: modules("Transformer", "WeightedLayerPooling", "Pooling"), err: ErrUnsupported, says: "WeightedLayerPooling"},
		"somebody's Transformer":   {folder: base.with("modules.json", []any{files{"type": "custom_st.Transformer"}, files{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}}), err: ErrUnsupported, says: "custom_st"},
		"no size of a LayerNorm":   {folder: modules("Transformer", "Pooling", "LayerNorm"), err: ErrModel, says: "dimension 0"},
		"another of a LayerNorm":   {folder: modules("Transformer", "Pooling", "LayerNorm").with("2/config.json", files{"dimension": 2}).with("2/model.safetensors", numbersFile(t, map[string][][]float32{"norm.weight": {{1, 1}}, "norm.bias": {{0, 0}}})), err: ErrModel, says: "takes 2 features"},
		"a LayerNorm without bias": {folder: modules("Transformer", "Pooling", "LayerNorm").with("2/config.json", files{"dimension": 4}).with("2/model.safetensors", numbersFile(t, map[string][][]float32{"norm.weight": {{1, 1, 1, 1}}})), err: ErrModel, says: "norm.bias"},
		"truncate_dim":             {folder: base.with("config_sentence_transformers.json", files{"truncate_dim": 0}), err: ErrModel, says: "truncate_dim is 0"},
		"normalized tokens": {
			folder: modules("Transformer", "Pooling", "Normalize").with("2/config.json", files{"module_input_name": "token_embeddings"}), err: ErrUnsupported, says: "token_embeddings",
		},
		"a setting of the tokenizer": {
			folder: base.with("sentence_bert_config.json", files{"tokenizer_args": files{"add_prefix_space": true}}), err: ErrUnsupported, says: "tokenizer_args.add_prefix_space",
		},
		"a setting of the model": {
			folder: base.with("sentence_bert_config.json", files{"config_kwargs": files{"num_hidden_layers": 2}}), err: ErrUnsupported, says: "config_kwargs.num_hidden_layers",
		},
		"a limit by the task": {folder: base.with("sentence_bert_config.json", files{"query_length": 8}), err: ErrUnsupported, says: "query_length"},
		"an argument of calls": {
			folder: base.with("sentence_bert_config.json", files{"processing_kwargs": files{"text": files{"max_length": 4}}}), err: ErrUnsupported, says: "processing_kwargs.text",
		},
		"no transformer":      {folder: modules("StaticEmbedding"), err: ErrUnsupported, says: "StaticEmbedding"},
		"words":               {folder: modules("WordEmbeddings", "Pooling"), err: ErrUnsupported, says: "WordEmbeddings"},
		"a recurrent layer":   {folder: modules("WordEmbeddings", "LSTM", "Pooling"), err: ErrUnsupported, says: "LSTM"},
		"two ways":            {folder: modules("Router", "Normalize"), err: ErrUnsupported, says: "Router"},
		"two ways, as it was": {folder: modules("Asym", "Normalize"), err: ErrUnsupported, says: "Asym"},
		"another task":        {folder: base.with("sentence_bert_config.json", files{"transformer_task": "fill-mask"}), err: ErrUnsupported, says: "fill-mask"},
		"another output":      {folder: base.with("sentence_bert_config.json", files{"module_output_name": "sentence_embedding"}), err: ErrUnsupported, says: "module_output_name"},
		"an output's pooler":  {folder: base.with("sentence_bert_config.json", textOutput("pooler_output")), err: ErrUnsupported, says: "modality_config"},
		"another lower case": {
			folder: base.with("tokenizer_config.json", files{"tokenizer_class": "BertTokenizerFast", "do_lower_case": false}), err: ErrModel, says: "do_lower_case is false",
		},
		"other accents": {
			folder: base.with("tokenizer_config.json", files{"tokenizer_class": "MPNetTokenizer", "tokenize_chinese_chars": false}), err: ErrModel, says: "tokenize_chinese_chars is false",
		},
		"a space before by default": {
			folder: base.with("tokenizer.json", byteLevel(true)).with("config.json", files{"model_type": "roberta"}), err: ErrModel, says: "add_prefix_space is false (or so",
		},
		"no space before": {
			folder: base.with("tokenizer.json", byteLevel(false)).with("tokenizer_config.json", files{"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": true}),
			err:    ErrModel, says: "add_prefix_space is true",
		},
		"no pooling":        {folder: modules("Transformer", "Normalize"), err: ErrUnsupported, says: "Normalize"},
		"a CLIP model":      {folder: modules("CLIPModel"), err: ErrUnsupported, says: "CLIPModel"},
		"a path outside":    {folder: outside, err: ErrModel, says: "../elsewhere"},
		"no config.json":    {folder: base.with("config.json", nil), err: ErrModel, says: "config.json"},
		"no tokenizer.json": {folder: base.with("tokenizer.json", nil), err: ErrModel, says: "tokenizer.json"},
		"a vocab.txt of another class": {
			folder: base.with("tokenizer.json", nil).with("vocab.txt", []byte("a\n")).with("tokenizer_config.json", files{"tokenizer_class": "BertJapaneseTokenizer"}),
			err:    ErrUnsupported, says: "save_pretrained",
		},
		"a vocab.txt without a special token": {
			folder: base.with("tokenizer.json", nil).with("vocab.txt", []byte("[PAD]\n[UNK]\n[CLS]\n[MASK]\n")), err: ErrModel, says: "[SEP]",
		},
		"no pooling config":       {folder: base.with("1_Pooling/config.json", nil), err: ErrModel, says: "1_Pooling"},
		"no ONNX file":            {folder: base.with("model.onnx", nil), err: ErrModel, says: "model.onnx"},
		"several ONNX files":      {folder: base.with("model.onnx", nil).with("a.onnx", []byte("a")).with("onnx/b.onnx", []byte("b")), err: ErrModel, says: "TextOptions.File"},
		"File is not there":       {folder: base, file: "other.onnx", err: ErrModel, says: "other.onnx"},
		"weights are not there":   {folder: base, file: "model.safetensors", err: ErrModel, says: "model.safetensors"},
		"File is outside":         {folder: base, file: "../model.onnx", err: ErrModel, says: "../model.onnx"},
		"an unknown mode":         {folder: base.with("1_Pooling/config.json", files{"pooling_mode": []string{"mean", "splade"}}), err: ErrUnsupported, says: "splade"},
		"an unknown old mode":     {folder: base.with("1_Pooling/config.json", files{"pooling_mode_median_tokens": true}), err: ErrUnsupported, says: "pooling_mode_median_tokens"},
		"a mode of no text":       {folder: base.with("1_Pooling/config.json", files{"pooling_mode": []any{3}}), err: ErrUnsupported, says: "3"},
		"dimensions disagree":     {folder: base.with("1_Pooling/config.json", files{"word_embedding_dimension": 8}), err: ErrModel, says: "hidden_size 4"},
		"no dimension":            {folder: base.with("1_Pooling/config.json", files{"word_embedding_dimension": nil}).with("config.json", files{"hidden_size": nil}), err: ErrModel, says: "dimension"},
		"a huge dimension":        {folder: base.with("1_Pooling/config.json", files{"word_embedding_dimension": 1e12}).with("config.json", files{"hidden_size": nil}), err: ErrModel, says: "dimension"},
		"limit zero":              {folder: base.with("sentence_bert_config.json", files{"max_seq_length": 0}), err: ErrModel, says: "max_seq_length"},
		"limit negative":          {folder: base.with("sentence_bert_config.json", nil).with("tokenizer_config.json", files{"model_max_length": -1}), err: ErrModel, says: "model_max_length"},
		"padding id out of range": {folder: base.with("config.json", files{"pad_token_id": 99}), err: ErrModel, says: "pad_token_id"},
		"truncation elsewhere":    {folder: base.with("tokenizer_config.json", files{"truncation_side": "middle"}), err: ErrUnsupported, says: "truncation_side"},
		"lower case by default": {
			folder: base.with("tokenizer_config.json", nil).with("tokenizer.json", files{"normalizer": files{"type": "BertNormalizer", "lowercase": false, "handle_chinese_chars": true}}),
			err:    ErrModel, says: "do_lower_case is true (or so by default",
		},
		"a default prompt without a text": {
			folder: base.with("config_sentence_transformers.json", files{"default_prompt_name": "query"}), err: ErrModel, says: "query",
		},
		"a huge config": {folder: base.with("config.json", make([]byte, maxConfig+1)), err: ErrModel, says: "longer than"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := readFolder(test.folder.write(t), test.file)
			if !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want %v that says %q", err, test.err, test.says)
			}
		})
	}
	t.Run("no folder", func(t *testing.T) {
		for _, dir := range []string{filepath.Join(t.TempDir(), "absent"), filepath.Join(base.write(t), "config.json")} {
			if _, err := readFolder(dir, ""); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error %v", err)
			}
		}
	})
	t.Run("a folder in a file's place", func(t *testing.T) {
		dir := base.with("config.json", nil).write(t)
		if err := os.Mkdir(filepath.Join(dir, "config.json"), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := readFolder(dir, ""); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "config.json") {
			t.Errorf("error %v", err)
		}
	})
}

func TestFolderName(t *testing.T) {
	for dir, want := range map[string]string{
		"/models/all-MiniLM-L6-v2": "all-MiniLM-L6-v2",
		"/hub/models--sentence-transformers--all-MiniLM-L6-v2/snapshots/c9745ed1": "all-MiniLM-L6-v2",
		"/hub/snapshots/plain": "plain",
	} {
		if got := folderName(filepath.FromSlash(dir)); got != want {
			t.Errorf("%s is named %q, want %q", dir, got, want)
		}
	}
}
