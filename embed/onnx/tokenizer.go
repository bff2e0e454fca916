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

// bertFlags are what tokenizer_config.json says of BERT's normalizer.
type bertFlags struct {
	Class   string `json:"tokenizer_class"`
	Lower   bool   `json:"do_lower_case"`
	Accents *bool  `json:"strip_accents"`
	Chinese bool   `json:"tokenize_chinese_chars"`
}

// ofBERT reports whether the class heeds them.
func (b bertFlags) ofBERT() bool {
	return slices.Contains(slices.Collect(maps.Values(bertClasses)), strings.TrimSuffix(b.Class, "Fast"))
}

// checkFlags refuses a tokenizer_config.json that tokenizer.json contradicts: one of the two is not what the model was trained with. Where
// there is none, it makes one.
func (f *folder) checkFlags(dir string) error {
	said := bertFlags{Class: bertClasses[f.architecture], Lower: true, Chinese: true}
	path := filepath.Join(dir, "tokenizer_config.json")
	if _, err := readJSON(path, &said); err != nil {
		return err
	}
	if filepath.Base(f.tokenizer) == vocabularyFile {
		return f.compose(dir, said)
	}
	if !said.ofBERT() {
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
	if _, err := readJSONUpTo(maxTokenizer, f.tokenizer, &file); err != nil {
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

// prefixClasses are transformers' tokenizers whose ByteLevel puts a space before a text where tokenizer_config.json says so, and else not.
var prefixClasses = map[string]string{
	"roberta": "RobertaTokenizer", "gpt2": "GPT2Tokenizer", "bart": "BartTokenizer", "longformer": "LongformerTokenizer", "deberta": "DebertaTokenizer",
}

// checkPrefix is [folder.checkFlags] for the space before a text. What is said counts for any class, as before transformers 5.
func (f *folder) checkPrefix(dir string) error {
	said := struct {
		Class  string `json:"tokenizer_class"`
		Prefix *bool  `json:"add_prefix_space"`
	}{Class: prefixClasses[f.architecture]}
	path := filepath.Join(dir, "tokenizer_config.json")
	if _, err := readJSON(path, &said); err != nil {
		return err
	}
	heeds := slices.Contains(slices.Collect(maps.Values(prefixClasses)), strings.TrimSuffix(said.Class, "Fast"))
	if said.Prefix == nil && !heeds || filepath.Base(f.tokenizer) == vocabularyFile {
		return nil
	}
	var file struct {
		PreTokenizer struct {
			Type   string `json:"type"`
			Prefix bool   `json:"add_prefix_space"`
		} `json:"pre_tokenizer"`
	}
	if _, err := readJSONUpTo(maxTokenizer, f.tokenizer, &file); err != nil {
		return err
	}
	want, has := said.Prefix != nil && *said.Prefix, file.PreTokenizer
	if has.Type == "ByteLevel" && has.Prefix != want {
		return fmt.Errorf("%w: %s: add_prefix_space is %t (or so by default), but the pre_tokenizer in %s has %t", ErrModel, path, want, f.tokenizer, has.Prefix)
	}
	return nil
}

// maxTokenizer bounds tokenizer.json, as package tokenizer does.
const maxTokenizer = 256 << 20

// loadTokenizer loads the tokenizer. Where texts are put in lower case and it does not do so, that is made its first normalizer, as in
// sentence-transformers.
func (f folder) loadTokenizer() (*tokenizer.Tokenizer, error) {
	b, err := f.composed, error(nil)
	switch {
	case b == nil && !f.lowers:
		return tokenizer.Load(f.tokenizer)
	case b == nil:
		b, err = readFile(f.tokenizer, maxTokenizer)
	}
	if err == nil && f.lowers {
		b, err = lowering(b)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.tokenizer, err)
	}
	return tokenizer.Parse(b)
}

// lowering is a tokenizer.json whose first normalizer is Lowercase, unless it has one.
func lowering(b []byte) ([]byte, error) {
	type normalizer struct {
		Type        string            `json:"type"`
		Normalizers []json.RawMessage `json:"normalizers"`
	}
	var file map[string]json.RawMessage
	var has, lower normalizer
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, err
	}
	old := file["normalizer"]
	if len(old) > 0 {
		if err := json.Unmarshal(old, &has); err != nil {
			return nil, err
		}
	}
	if has.Type != "" && has.Type != "Sequence" {
		has.Normalizers = []json.RawMessage{old}
	}
	for _, one := range has.Normalizers {
		if json.Unmarshal(one, &lower) == nil && lower.Type == "Lowercase" {
			return b, nil
		}
	}
	first, err := json.Marshal(normalizer{"Sequence", append([]json.RawMessage{[]byte(`{"type":"Lowercase"}`)}, has.Normalizers...)})
	if err != nil {
		return nil, err
	}
	file["normalizer"] = first
	return json.Marshal(file)
}
