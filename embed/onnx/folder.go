package onnx

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/embed/tokenizer"
)

// folder is what a model's folder says about its model.
type folder struct {
	name          string
	architecture  string // model_type of config.json
	transformer   string // the folder with the files of the transformer
	graph         string // path of the ONNX file, of model.safetensors or of its index
	tokenizer     string // path of tokenizer.json, or of vocab.txt
	composed      []byte // the tokenizer.json that is made of vocab.txt, or of one with more added tokens
	added         []addedToken
	pooling       Pooling
	layers        []layer // behind the pooling
	normalize     bool    // behind the layers
	cut           int     // how many components are left of a vector; 0: all
	limit         int     // tokens, special tokens included; 0 where no file says
	cutsLeft      bool    // what is longer loses its beginning
	lowers        bool    // texts are put in lower case before everything else
	dimensions    int     // of a token's vector
	vocabulary    int     // token ids are below it; 0 where no file says
	padID         int64
	firstPosition int64 // the position id of a text's first token
	prompts       map[string]string
	defaultPrompt string
	promptLeftOut bool // the prompt's tokens, of the pooling
}

// built says that the graph is built from weights.
func (f folder) built() bool { return slices.Contains(weightsFiles, filepath.Base(f.graph)) }

// weightsFiles are the names of weights; model.safetensors stands for both.
var weightsFiles = []string{weightsFile, indexFile}

// module is an entry of modules.json.
type module struct {
	Path string
	Type string
}

// readFolder reads a folder as sentence-transformers saves it, where modules.json leads to everything else, or as transformers does. What
// it asks for and this package lacks is ErrUnsupported, what is missing or contradicts itself is ErrModel.
func readFolder(dir, file string) (folder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return folder{}, fmt.Errorf("%w: %w", ErrModel, err)
	}
	if info, err := os.Stat(dir); err != nil {
		return folder{}, fmt.Errorf("%w: %w", ErrModel, err)
	} else if !info.IsDir() {
		return folder{}, fmt.Errorf("%w: %s: not a folder", ErrModel, dir)
	}
	f := folder{name: folderName(dir)}
	transformer, pool, layers, err := f.readModules(dir)
	if err != nil {
		return folder{}, err
	}
	f.transformer = transformer
	f.tokenizer = filepath.Join(transformer, "tokenizer.json")
	if old := filepath.Join(transformer, vocabularyFile); !exists(f.tokenizer) && exists(old) {
		f.tokenizer = old
	}
	if info, err := os.Stat(f.tokenizer); err != nil {
		return folder{}, fmt.Errorf("%w: %w", ErrModel, err)
	} else if !info.Mode().IsRegular() {
		return folder{}, fmt.Errorf("%w: %s: not a regular file", ErrModel, f.tokenizer)
	}
	for _, read := range []func(string) error{f.readSentenceConfig, f.readTokenizerConfig, f.readConfig, f.checkFlags, f.checkPrefix, f.readAdded} {
		if err := read(transformer); err != nil {
			return folder{}, err
		}
	}
	if err := f.readPrompts(dir); err != nil {
		return folder{}, err
	}
	if err := f.readPooling(pool); err != nil {
		return folder{}, err
	}
	if err := f.readLayers(layers); err != nil {
		return folder{}, err
	}
	f.graph, err = findGraph(transformer, file)
	return f, err
}

// folderName is the folder's own name, or the model's where the folder is a revision in Hugging Face's download cache
// (models--owner--name/snapshots/revision).
func folderName(dir string) string {
	if filepath.Base(filepath.Dir(dir)) == "snapshots" {
		repo := filepath.Base(filepath.Dir(filepath.Dir(dir)))
		if i := strings.LastIndex(repo, "--"); i >= 0 {
			return repo[i+2:]
		}
	}
	return filepath.Base(dir)
}

// readModules answers the folder of the transformer, that of its pooling, "" where the folder has none, and the modules behind it, with
// whole paths.
func (f *folder) readModules(dir string) (transformer, pool string, layers []module, err error) {
	path := filepath.Join(dir, "modules.json")
	var modules []module
	if found, err := readJSON(path, &modules); err != nil {
		return "", "", nil, err
	} else if !found { // as transformers saves it; sentence-transformers takes the mean then
		return dir, "", nil, nil
	}
	var types []string
	for i, m := range modules {
		if m.Path != "" && !filepath.IsLocal(filepath.FromSlash(m.Path)) {
			return "", "", nil, fmt.Errorf("%w: %s: path %q leaves the folder", ErrModel, path, m.Path)
		}
		modules[i].Path = filepath.Join(dir, filepath.FromSlash(m.Path))
		types = append(types, m.Type)
	}
	// It does nothing when texts are embedded.
	modules = slices.DeleteFunc(modules, func(m module) bool { return m.is("Dropout") })
	if len(modules) < 2 || !modules[0].is("Transformer") || !modules[1].is("Pooling") || len(modules) > maxModules ||
		slices.ContainsFunc(modules[2:], func(m module) bool { return !m.is("Dense") && !m.is("LayerNorm") && !m.is("Normalize") }) {
		return "", "", nil, fmt.Errorf("%w: %s: modules %.1000q; known are those of sentence_transformers: Transformer, Pooling, "+
			"and behind them Dense, LayerNorm, Dropout and Normalize", ErrUnsupported, path, types)
	}
	layers = modules[2:]
	if last := len(layers) - 1; last >= 0 && layers[last].is("Normalize") {
		f.normalize = true
		err = checkNormalize(layers[last].Path)
		layers = layers[:last]
	}
	return modules[0].Path, modules[1].Path, layers, err
}

// is reports whether a module is of this class. Those of other packages, which may have the same name, are code to run.
func (m module) is(class string) bool {
	return lastName(m.Type) == class && strings.HasPrefix(m.Type, "sentence_transformers.")
}

// maxModules bounds how many layers a folder makes us read.
const maxModules = 16

// made is how many dimensions the folder's vectors have.
func (f folder) made() int {
	if n := len(f.layers); n > 0 {
		return f.layers[n-1].made()
	}
	return f.pooled()
}

// pooled is how many dimensions the pooling makes.
func (f folder) pooled() int { return len(f.pooling.modes()) * f.dimensions }

// offsetPositions are the model types whose position ids begin after the padding id, which costs that many of the positions.
var offsetPositions = []string{"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "roberta-prelayernorm", "longformer"}

func (f *folder) readConfig(dir string) error {
	var c struct {
		ModelType   string `json:"model_type"`
		MaxPosition int    `json:"max_position_embeddings"`
		HiddenSize  int    `json:"hidden_size"`
		Dim         int    `json:"dim"` // DistilBERT's name of hidden_size
		VocabSize   int    `json:"vocab_size"`
		PadTokenID  *int64 `json:"pad_token_id"`
	}
	path := filepath.Join(dir, "config.json")
	if found, err := readJSON(path, &c); err != nil {
		return err
	} else if !found {
		return fmt.Errorf("%w: %s is missing", ErrModel, path)
	}
	f.architecture = c.ModelType
	f.dimensions, f.vocabulary = max(c.HiddenSize, c.Dim), c.VocabSize
	offset := slices.Contains(offsetPositions, c.ModelType)
	if c.PadTokenID != nil {
		f.padID = *c.PadTokenID
	} else if offset {
		f.padID = 1 // as in transformers' classes for them
	}
	if f.padID < 0 || f.vocabulary > 0 && f.padID >= int64(f.vocabulary) {
		return fmt.Errorf("%w: %s: pad_token_id %d is outside of the vocabulary of %d", ErrModel, path, f.padID, f.vocabulary)
	}
	if offset {
		f.firstPosition = f.padID + 1
	}
	if c.ModelType == "mpnet" {
		f.firstPosition = 2 // whatever the padding id is
	}
	if c.MaxPosition == 0 {
		return nil
	}
	c.MaxPosition -= int(f.firstPosition)
	return f.lower(float64(c.MaxPosition), path, "max_position_embeddings")
}

// lower brings the limit down to what one more file says. A tokenizer without a limit says 1e30.
func (f *folder) lower(limit float64, path, key string) error {
	if !(limit >= 1) {
		return fmt.Errorf("%w: %s: %s is %v", ErrModel, path, key, limit)
	}
	if n := int(math.Min(limit, math.MaxInt32)); n < math.MaxInt32 && (f.limit == 0 || n < f.limit) {
		f.limit = n
	}
	return nil
}

func (f *folder) readPrompts(dir string) error {
	var c struct {
		Prompts       map[string]string `json:"prompts"`
		DefaultPrompt *string           `json:"default_prompt_name"`
		Cut           *int              `json:"truncate_dim"`
	}
	path := filepath.Join(dir, "config_sentence_transformers.json")
	if _, err := readJSON(path, &c); err != nil {
		return err
	}
	if c.Cut != nil {
		if f.cut = *c.Cut; f.cut < 1 {
			return fmt.Errorf("%w: %s: truncate_dim is %d", ErrModel, path, f.cut)
		}
	}
	f.prompts = c.Prompts
	if c.DefaultPrompt == nil {
		return nil
	}
	f.defaultPrompt = *c.DefaultPrompt
	if _, is := f.prompts[f.defaultPrompt]; !is {
		return fmt.Errorf("%w: %s: default_prompt_name %q is none of its prompts", ErrModel, path, f.defaultPrompt)
	}
	return nil
}

// prompt is what stands before every text.
type prompt struct {
	name     string // empty: none
	text     string
	encoding tokenizer.Encoding // of the prompt alone, special tokens included
	skip     int                // how many tokens the pooling leaves out because of it
}

// prompt returns a prompt, not yet encoded; "" names the folder's default.
func (f folder) prompt(name string) (prompt, error) {
	switch name {
	case NoPrompt:
		return prompt{}, nil
	case "":
		name = f.defaultPrompt
	}
	text, is := f.prompts[name]
	switch {
	case name == "":
	case !is:
		return prompt{}, fmt.Errorf("%w: no prompt %q; the folder has %q", ErrModel, name, slices.Sorted(maps.Keys(f.prompts)))
	}
	return prompt{name: name, text: text}, nil
}

// readPooling reads the pooling's folder; "" is the mean, and the dimension of config.json.
func (f *folder) readPooling(dir string) error {
	c, path := map[string]any{}, filepath.Join(dir, "config.json")
	if dir == "" {
		f.pooling = Mean
	} else if found, err := readJSON(path, &c); err != nil {
		return err
	} else if !found {
		return fmt.Errorf("%w: %s is missing", ErrModel, path)
	} else if err := f.readMode(path, c); err != nil {
		return err
	}
	f.promptLeftOut = c["include_prompt"] == false
	dims, is := c["word_embedding_dimension"].(float64)
	if !is {
		dims, is = c["embedding_dimension"].(float64)
	}
	switch {
	case is && (dims < 1 || dims > maxDimensions || dims != math.Trunc(dims)):
		return fmt.Errorf("%w: %s: dimension %v", ErrModel, path, dims)
	case is && f.dimensions != 0 && f.dimensions != int(dims):
		return fmt.Errorf("%w: %s: dimension %v, but config.json says hidden_size %d", ErrModel, path, dims, f.dimensions)
	case is:
		f.dimensions = int(dims)
	case f.dimensions < 1 || f.dimensions > maxDimensions:
		return fmt.Errorf("%w: %s: no dimension, and config.json has none either", ErrModel, path)
	}
	return nil
}

// oldPoolings are the names that sentence-transformers had for poolings before version 6, in the order in which it puts their vectors.
var oldPoolings = []struct {
	key  string
	mode Pooling
}{
	{"pooling_mode_cls_token", CLS},
	{"pooling_mode_max_tokens", Max},
	{"pooling_mode_mean_tokens", Mean},
	{"pooling_mode_mean_sqrt_len_tokens", MeanSqrtLen},
	{"pooling_mode_weightedmean_tokens", WeightedMean},
	{"pooling_mode_lasttoken", LastToken},
}

func (f *folder) readMode(path string, c map[string]any) error {
	var modes []Pooling
	switch mode := c["pooling_mode"].(type) {
	case string:
		modes = append(modes, Pooling(mode))
	case []any:
		for _, m := range mode {
			modes = append(modes, Pooling(fmt.Sprint(m)))
		}
	default:
		for _, old := range oldPoolings {
			if c[old.key] == true {
				modes = append(modes, old.mode)
			}
			delete(c, old.key)
		}
		for key, v := range c {
			if strings.HasPrefix(key, "pooling_mode_") && v == true {
				return fmt.Errorf("%w: %s: %.100s", ErrUnsupported, path, key)
			}
		}
		if len(modes) == 0 {
			modes = append(modes, Mean)
		}
	}
	if f.pooling = joinPoolings(modes); !f.pooling.known() {
		return fmt.Errorf("%w: %s: pooling modes %.300q; known are %q", ErrUnsupported, path, modes, poolings)
	}
	return nil
}

// maxDimensions bounds what a folder can make a batch allocate.
const maxDimensions = 1 << 16

// findGraph chooses the graph: the file that the caller names, else model.onnx, else onnx/model.onnx, else the only other one, else
// the weights that a graph can be built from.
func findGraph(dir, file string) (string, error) {
	if file != "" {
		if !filepath.IsLocal(file) {
			return "", fmt.Errorf("%w: File %q is not inside the folder", ErrModel, file)
		}
		path := filepath.Join(dir, file)
		if file == weightsFile {
			path = findWeights(dir)
		}
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%w: %w", ErrModel, err)
		}
		return path, nil
	}
	for _, name := range []string{"model.onnx", filepath.Join("onnx", "model.onnx")} {
		if path := filepath.Join(dir, name); exists(path) {
			return path, nil
		}
	}
	var others []string
	for _, pattern := range []string{"*.onnx", filepath.Join("onnx", "*.onnx")} {
		found, err := fs.Glob(os.DirFS(dir), filepath.ToSlash(pattern))
		if err != nil {
			return "", fmt.Errorf("%w: %s: %w", ErrModel, dir, err)
		}
		others = append(others, found...)
	}
	switch len(others) {
	case 0:
		if path := findWeights(dir); exists(path) {
			return path, nil
		}
		return "", fmt.Errorf("%w: %s holds neither model.onnx nor onnx/model.onnx nor %s", ErrModel, dir, weightsFile)
	case 1:
		return filepath.Join(dir, filepath.FromSlash(others[0])), nil
	}
	return "", fmt.Errorf("%w: %s holds several ONNX files %v: name one by TextOptions.File", ErrModel, dir, others)
}

// findWeights answers where the weights are: model.safetensors, else its index.
func findWeights(dir string) string {
	path, index := filepath.Join(dir, weightsFile), filepath.Join(dir, indexFile)
	if !exists(path) && exists(index) {
		return index
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// maxConfig bounds a configuration file; label tables make some of them large.
const maxConfig = 16 << 20

// readJSON answers false where there is no such file.
func readJSON(path string, to any) (bool, error) { return readJSONUpTo(maxConfig, path, to) }

func readJSONUpTo(most int64, path string, to any) (bool, error) {
	b, err := readFile(path, most)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), to)
	}
	if err != nil {
		return false, fmt.Errorf("%w: %s: %w", ErrModel, path, err)
	}
	return true, nil
}

// readFile reads a regular file of at most so many bytes.
func readFile(path string, most int64) ([]byte, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	if size > most {
		return nil, fmt.Errorf("longer than %d bytes", most)
	}
	return io.ReadAll(io.LimitReader(f, most))
}
