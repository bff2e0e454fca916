package onnx

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// vocabularyFile has BERT's tokens, one a line, in folders from before there was tokenizer.json.
const vocabularyFile = "vocab.txt"

// specialToken is the name of a special token, which files write as a text or as an object.
type specialToken string

// UnmarshalJSON reads both; null is no name.
func (s *specialToken) UnmarshalJSON(b []byte) error {
	var token struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(b, &token) == nil {
		if token.Content != "" {
			*s = specialToken(token.Content)
		}
		return nil
	}
	return json.Unmarshal(b, (*string)(s))
}

// bertSpecials are the names of BERT's special tokens.
type bertSpecials struct {
	Unknown   specialToken `json:"unk_token"`
	Separator specialToken `json:"sep_token"`
	Padding   specialToken `json:"pad_token"`
	Class     specialToken `json:"cls_token"`
	Mask      specialToken `json:"mask_token"`
}

// compose makes the tokenizer.json that transformers' BertTokenizer makes of vocab.txt.
func (f *folder) compose(dir string, flags bertFlags) error {
	if strings.TrimSuffix(flags.Class, "Fast") == bertClasses["mpnet"] || !flags.ofBERT() {
		return fmt.Errorf("%w: %s has %s and no tokenizer.json, which AutoTokenizer.from_pretrained(...).save_pretrained(...) in Python writes",
			ErrUnsupported, dir, vocabularyFile)
	}
	names := bertSpecials{"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}
	for _, name := range []string{"special_tokens_map.json", "tokenizer_config.json"} { // the latter's count
		if _, err := readJSON(filepath.Join(dir, name), &names); err != nil {
			return err
		}
	}
	b, err := readFile(f.tokenizer, maxTokenizer)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrModel, err)
	}
	lines := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(b)) // as Python reads a text
	vocabulary := map[string]int{}
	for i, token := range strings.Split(strings.TrimSuffix(lines, "\n"), "\n") {
		vocabulary[token] = i
	}
	type object = map[string]any
	var added []object
	for _, name := range []specialToken{names.Padding, names.Unknown, names.Class, names.Separator, names.Mask} {
		id, is := vocabulary[string(name)]
		if !is {
			return fmt.Errorf("%w: %s: the special token %.100q is not in it", ErrModel, f.tokenizer, name)
		}
		added = append(added, object{
			"id": id, "content": name, "special": true, "normalized": false, "single_word": false, "lstrip": false, "rstrip": false,
		})
	}
	f.composed, err = json.Marshal(object{
		"added_tokens": added,
		"normalizer": object{
			"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": flags.Chinese, "strip_accents": flags.Accents, "lowercase": flags.Lower,
		},
		"pre_tokenizer": object{"type": "BertPreTokenizer"},
		"post_processor": object{
			"type": "BertProcessing", "sep": []any{names.Separator, vocabulary[string(names.Separator)]}, "cls": []any{names.Class, vocabulary[string(names.Class)]},
		},
		"model": object{
			"type": "WordPiece", "unk_token": names.Unknown, "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary,
		},
	})
	return err
}
