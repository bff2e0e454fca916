package onnx

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/tidemark-go/tidemark/embed/tokenizer"
)

// addedToken is a token that is found in a text before the tokenizer's model sees it, as tokenizer.json writes it. An id of -1 is not known.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	Special    bool   `json:"special"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
}

// specialKeys are the names of special tokens in tokenizer_config.json and special_tokens_map.json.
var specialKeys = []string{
	"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token", "additional_special_tokens", "extra_special_tokens",
}

// readAdded reads the tokens that transformers adds to those of tokenizer.json, where they are not among them: those of the
// added_tokens_decoder in tokenizer_config.json, or of added_tokens.json from before there was one, and the special ones.
func (f *folder) readAdded(dir string) error {
	path := filepath.Join(dir, "tokenizer_config.json")
	var config struct {
		Decoder map[int32]addedToken `json:"added_tokens_decoder"`
	}
	if _, err := readJSON(path, &config); err != nil {
		return err
	}
	for id, token := range config.Decoder {
		token.ID = id
		f.added = append(f.added, token)
	}
	places := []string{path}
	if config.Decoder == nil {
		places = append(places, filepath.Join(dir, "special_tokens_map.json"))
	}
	for _, path := range places {
		named := map[string]any{}
		if _, err := readJSON(path, &named); err != nil {
			return err
		}
		for _, key := range specialKeys {
			f.addSpecial(named[key])
		}
	}
	if config.Decoder == nil {
		var ids map[string]int32
		if _, err := readJSON(filepath.Join(dir, "added_tokens.json"), &ids); err != nil {
			return err
		}
		for token, id := range ids { // behind the special ones, whose flags count
			f.added = append(f.added, addedToken{ID: id, Content: token, Normalized: true})
		}
	}
	f.added = slices.DeleteFunc(f.added, func(t addedToken) bool { return t.Content == "" })
	slices.SortStableFunc(f.added, func(a, b addedToken) int { return cmp.Compare(a.Content, b.Content) })
	return nil
}

// addSpecial adds a special token, which is a text or an object, or several of them.
func (f *folder) addSpecial(value any) {
	switch value := value.(type) {
	case string:
		f.added = append(f.added, addedToken{ID: -1, Content: value, Special: true})
	case []any:
		for _, one := range value {
			f.addSpecial(one)
		}
	case map[string]any:
		content, is := value["content"].(string)
		if !is {
			for _, one := range value {
				f.addSpecial(one)
			}
			return
		}
		flag := func(name string) bool { return value[name] == true }
		f.added = append(f.added, addedToken{-1, content, true, flag("single_word"), flag("lstrip"), flag("rstrip"), flag("normalized")})
	}
}

// addTokens puts those of them that tokenizer.json has as words of its model alone among its added tokens, as transformers does, and
// reports whether there are any. One that is said to have an id which it has not there is an error. A special token that only is named, and
// that tokenizer.json has not, is left out: transformers gives it an id for which the model has no vector.
func (f *folder) addTokens(t *tokenizer.Tokenizer) (more bool, err error) {
	var missing []any
	last := ""
	for _, a := range f.added {
		id, is := t.ID(a.Content)
		switch {
		case !is && a.ID >= 0:
			return false, fmt.Errorf("%s has no token %.100q, which the files beside it name: let transformers save it again", f.tokenizer, a.Content)
		case is && a.ID >= 0 && a.ID != id:
			return false, fmt.Errorf("%s has token %.100q with id %d, and the files beside it say %d", f.tokenizer, a.Content, id, a.ID)
		case is && a.Content != last && !finds(t, a.Content, id):
			a.ID, last = id, a.Content
			missing = append(missing, a)
		}
	}
	if missing == nil {
		return false, nil
	}
	var file map[string]json.RawMessage
	var added []any
	b := f.composed
	if b == nil {
		b, err = readFile(f.tokenizer, maxTokenizer)
	}
	if err == nil {
		err = json.Unmarshal(b, &file)
	}
	if old := file["added_tokens"]; err == nil && old != nil {
		err = json.Unmarshal(old, &added)
	}
	if err == nil {
		file["added_tokens"], err = json.Marshal(append(added, missing...))
	}
	if err == nil {
		f.composed, err = json.Marshal(file)
	}
	return true, err
}

// finds reports whether a token is found where it stands in a text.
func finds(t *tokenizer.Tokenizer, token string, id int32) bool {
	e, err := t.Encode(token)
	if err != nil {
		return false
	}
	for i, found := range e.IDs {
		if found == id && e.Offsets[i] == [2]int{0, len(token)} {
			return true
		}
	}
	return false
}
