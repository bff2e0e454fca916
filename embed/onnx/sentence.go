package onnx

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
)

// sentenceConfigs are the names that sentence-transformers has given one file, by the model's type; it reads the first that is there.
var sentenceConfigs = []string{
	"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json", "sentence_camembert_config.json",
	"sentence_albert_config.json", "sentence_xlm-roberta_config.json", "sentence_xlnet_config.json",
}

func (f *folder) readSentenceConfig(dir string) error {
	var c struct {
		MaxSeqLength *float64 `json:"max_seq_length"`
		LowerCase    bool     `json:"do_lower_case"`
		Task         string   `json:"transformer_task"` // this and the others since sentence-transformers 6
		Output       string   `json:"module_output_name"`
		Modalities   map[string]struct {
			Output any `json:"method_output_name"`
		} `json:"modality_config"`
	}
	arguments := map[string]any{}
	var path string
	for _, name := range sentenceConfigs {
		path = filepath.Join(dir, name)
		if found, err := readJSON(path, &c); err != nil {
			return err
		} else if found {
			if _, err := readJSON(path, &arguments); err != nil {
				return err
			}
			break
		}
	}
	f.lowers = c.LowerCase
	if given, err := checkArguments(path, arguments); err != nil {
		return err
	} else if given != nil { // in the place of the other
		c.MaxSeqLength = given
	}
	text, is := c.Modalities["text"]
	switch {
	case c.Task != "" && c.Task != "feature-extraction":
		return fmt.Errorf("%w: %s: transformer_task %.100q", ErrUnsupported, path, c.Task)
	case c.Output != "" && c.Output != "token_embeddings":
		return fmt.Errorf("%w: %s: module_output_name %.100q", ErrUnsupported, path, c.Output)
	case len(c.Modalities) > 0 && (!is || text.Output != "last_hidden_state"):
		return fmt.Errorf("%w: %s: modality_config; known is text by its last_hidden_state", ErrUnsupported, path)
	}
	if c.MaxSeqLength == nil {
		return nil
	}
	return f.lower(*c.MaxSeqLength, path, "max_seq_length")
}

// olderArguments are the names before sentence-transformers 6 of what it passes on to transformers.
var olderArguments = map[string]string{"tokenizer_args": "processor_kwargs", "model_args": "model_kwargs", "config_args": "config_kwargs"}

// harmless are those arguments that change no vector.
var harmless = map[string][]string{
	"processor_kwargs": {"model_max_length", "use_fast", "padding_side", "clean_up_tokenization_spaces", "trust_remote_code", "revision"},
	"model_kwargs": {
		"dtype", "torch_dtype", "attn_implementation", "add_pooling_layer", "use_safetensors", "low_cpu_mem_usage", "device_map", "file_name",
		"provider", "export", "trust_remote_code", "revision",
	},
	"config_kwargs": {"use_cache", "trust_remote_code", "revision"},
	// What follows is for single calls, or for one of two tasks.
	"processing_kwargs": nil, "tokenizer_name_or_path": nil, "query_length": nil, "document_length": nil, "query_expansion": nil,
}

// checkArguments refuses what sentence_bert_config.json passes on and may change vectors, and returns the tokenizer's limit where it is in it.
func checkArguments(path string, given map[string]any) (limit *float64, err error) {
	for key, value := range given {
		name := cmp.Or(olderArguments[key], key)
		known, passed := harmless[name]
		if !passed || value == nil {
			continue
		}
		all, is := value.(map[string]any)
		if !is {
			return nil, fmt.Errorf("%w: %s: %.100s", ErrUnsupported, path, key)
		}
		for argument, value := range all {
			n, number := value.(float64)
			if !slices.Contains(known, argument) || argument == "model_max_length" && !number {
				return nil, fmt.Errorf("%w: %s: %.100s.%.100s", ErrUnsupported, path, key, argument)
			}
			if argument == "model_max_length" {
				limit = &n
			}
		}
	}
	return limit, nil
}
