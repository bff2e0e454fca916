package onnx

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/embed/tokenizer"
)

func (f *folder) readTokenizerConfig(dir string) error {
	var c struct {
		ModelMaxLength *float64 `json:"model_max_length"`
		Side           string   `json:"truncation_side"`
	}
	path := filepath.Join(dir, "tokenizer_config.json")
	if _, err := readJSON(path, &c); err != nil {
		return err
	}
	f.cutsLeft = c.Side == "left"
	if c.Side != "" && c.Side != "right" && !f.cutsLeft {
		return fmt.Errorf("%w: %s: truncation_side %.100q", ErrUnsupported, path, c.Side)
	}
	if c.ModelMaxLength == nil || f.limit > 0 { // sentence-transformers sets max_seq_length in its place
		return nil
	}
	return f.lower(*c.ModelMaxLength, path, "model_max_length")
}

// bertClasses are transformers' tokenizers that override the BertNormalizer of tokenizer.json by what tokenizer_config.json says, and what it
// does not say by their defaults. Where it names no class, the model's type does.
var bertClasses = map[string]string{"bert": "BertTokenizer", "distilbert": "DistilBertTokenizer", "mpnet": "MPNetTokenizer"}

// checkFlags refuses a tokenizer_config.json that tokenizer.json contradicts: one of the two is not what the model was trained with.
func (f *folder) checkFlags(dir string) error {
	said := struct {
		Class   string `json:"tokenizer_class"`
		Lower   bool   `json:"do_lower_case"`
		Accents *bool  `json:"strip_accents"`
		Chinese bool   `json:"tokenize_chinese_chars"`
	}{Class: bertClasses[f.architecture], Lower: true, Chinese: true}
	path := filepath.Join(dir, "tokenizer_config.json")
	if _, err := readJSON(path, &said); err != nil {
		return err
	}
	if !slices.Contains(slices.Collect(maps.Values(bertClasses)), strings.TrimSuffix(said.Class, "Fast")) {
		return nil
	}
	var file struct {
		Normalizer struct {
			Type    string `json:"type"`
			Lower   bool   `json:"lowercase"`
			Accents *bool  `json:"strip_accents"`
			Chinese bool   `json:"handle_chinese_chars"`
		} `json:"normalizer"`
	}
	if _, err := readJSON(f.tokenizer, &file); err != nil {
		return err
	}
	has := file.Normalizer
	if has.Type != "BertNormalizer" {
		return nil
	}
	strips := func(accents *bool, lower bool) bool { return accents == nil && lower || accents != nil && *accents }
	for _, flag := range []struct {
		name      string
		said, has bool
	}{
		{"do_lower_case", said.Lower, has.Lower},
		{"strip_accents", strips(said.Accents, said.Lower), strips(has.Accents, has.Lower)},
		{"tokenize_chinese_chars", said.Chinese, has.Chinese},
	} {
		if flag.said != flag.has {
			return fmt.Errorf("%w: %s: %s is %t (or so by default, for a %s), but the normalizer in %s has %t",
				ErrModel, path, flag.name, flag.said, said.Class, f.tokenizer, flag.has)
		}
	}
	return nil
}

// maxTokenizer bounds tokenizer.json, as package tokenizer does.
const maxTokenizer = 256 << 20

// loadTokenizer loads the tokenizer. Where texts are put in lower case and it does not do so, that is made its first normalizer, as in
// sentence-transformers.
func (f folder) loadTokenizer() (*tokenizer.Tokenizer, error) {
	if !f.lowers {
		return tokenizer.Load(f.tokenizer)
	}
	type normalizer struct {
		Type        string            `json:"type"`
		Normalizers []json.RawMessage `json:"normalizers"`
	}
	var file map[string]json.RawMessage
	var has, lower normalizer
	b, err := readFile(f.tokenizer, maxTokenizer)
	if err == nil {
		err = json.Unmarshal(b, &file)
	}
	old := file["normalizer"]
	if err == nil && len(old) > 0 {
		err = json.Unmarshal(old, &has)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.tokenizer, err)
	}
	if has.Type != "" && has.Type != "Sequence" {
		has.Normalizers = []json.RawMessage{old}
	}
	for _, one := range has.Normalizers {
		if json.Unmarshal(one, &lower) == nil && lower.Type == "Lowercase" {
			return tokenizer.Parse(b)
		}
	}
	has = normalizer{"Sequence", append([]json.RawMessage{[]byte(`{"type":"Lowercase"}`)}, has.Normalizers...)}
	if file["normalizer"], err = json.Marshal(has); err == nil {
		b, err = json.Marshal(file)
	}
	if err != nil {
		return nil, err
	}
	return tokenizer.Parse(b)
}
