package onnx

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"path/filepath"
	"strings"
)

// layer is a module of sentence-transformers behind the pooling, which makes another vector of a text's.
type layer interface {
	apply(vector []float32) []float32
	made() int           // components of what apply answers
	fingerprint() string // changes with what apply makes of a vector
}

// readLayers reads the modules behind the pooling, each of which takes what the one before it makes.
func (f *folder) readLayers(modules []module) error {
	for _, m := range modules {
		var l layer
		var in int
		var err error
		switch lastName(m.Type) {
		case "Dense":
			var d dense
			d, err = readDense(m.Path)
			l, in = d, d.in
		case "LayerNorm":
			var n layerNorm
			n, err = readLayerNorm(m.Path)
			l, in = n, n.made()
		default:
			l, in, err = unit(f.made()), f.made(), checkNormalize(m.Path)
		}
		switch {
		case err != nil:
			return err
		case in != f.made():
			return fmt.Errorf("%w: %s: it takes %d features, but what is before it makes %d", ErrModel, m.Path, in, f.made())
		}
		f.layers = append(f.layers, l)
	}
	return nil
}

// unit scales vectors of so many components to length 1, where other layers follow; one that is all zero stays so.
type unit int

func (u unit) made() int { return int(u) }

func (u unit) fingerprint() string { return "normalize" }

func (u unit) apply(vector []float32) []float32 {
	_ = scale(vector)
	return vector
}

// checkNormalize reads the folder of the module Normalize, which mostly is empty.
func checkNormalize(dir string) error {
	var c struct {
		Input  string `json:"module_input_name"`
		Output string `json:"module_output_name"`
	}
	path := filepath.Join(dir, "config.json")
	if _, err := readJSON(path, &c); err != nil {
		return err
	}
	if !ofSentence(c.Input) || !ofSentence(c.Output) {
		return fmt.Errorf("%w: %s: from %.100q to %.100q; known is %s", ErrUnsupported, path, c.Input, c.Output, sentenceFeature)
	}
	return nil
}

// layerNorm brings a vector's components to the mean 0 and the variance 1, and then to those that were learned.
type layerNorm struct{ weight, bias []float32 }

// layerNormEpsilon is torch's; no file says another one.
const layerNormEpsilon = 1e-5

func readLayerNorm(dir string) (n layerNorm, err error) {
	var c struct {
		Dimension int `json:"dimension"`
	}
	path := filepath.Join(dir, "config.json")
	if found, err := readJSON(path, &c); err != nil {
		return n, err
	} else if !found || c.Dimension < 1 || c.Dimension > maxDimensions {
		return n, fmt.Errorf("%w: %s: dimension %d", ErrModel, path, c.Dimension)
	}
	w, err := layerWeights(dir)
	if err != nil {
		return n, err
	}
	if n.weight, err = w.floats("norm.weight", int64(c.Dimension)); err == nil {
		n.bias, err = w.floats("norm.bias", int64(c.Dimension))
	}
	return n, err
}

func (n layerNorm) made() int { return len(n.weight) }

func (n layerNorm) fingerprint() string { return "norm " + hashNumbers("", n.weight, n.bias) }

func (n layerNorm) apply(vector []float32) []float32 {
	var sum, squares float64
	for _, x := range vector {
		sum += float64(x)
	}
	middle := sum / float64(len(vector))
	for _, x := range vector {
		squares += (float64(x) - middle) * (float64(x) - middle)
	}
	factor := 1 / math.Sqrt(squares/float64(len(vector))+layerNormEpsilon)
	for i, x := range vector {
		vector[i] = float32((float64(x)-middle)*factor)*n.weight[i] + n.bias[i]
	}
	return vector
}

// layerWeights reads the table of a layer's weights. They must be in model.safetensors: those that are pickled would be a program to run.
func layerWeights(dir string) (weights, error) {
	path := filepath.Join(dir, weightsFile)
	if !exists(path) && exists(filepath.Join(dir, "pytorch_model.bin")) {
		return weights{}, fmt.Errorf("%w: %s: weights in pytorch_model.bin; known is %s, which sentence-transformers writes when it saves the model",
			ErrUnsupported, dir, weightsFile)
	}
	return readWeights(path)
}

// floats reads the numbers of a tensor that must be there.
func (w weights) floats(name string, shape ...int64) ([]float32, error) {
	t, err := w.find(name, shape...)
	if err != nil {
		return nil, err
	}
	numbers, err := t.floats()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	return numbers, nil
}

func hashNumbers(head string, lists ...[]float32) string {
	h := sha256.New()
	h.Write([]byte(head))
	for _, numbers := range lists {
		for _, x := range numbers {
			var b [4]byte
			binary.LittleEndian.PutUint32(b[:], math.Float32bits(x))
			h.Write(b[:])
		}
		h.Write([]byte("\n"))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// lastName is what stands behind the last dot of a Python name.
func lastName(name string) string { return name[strings.LastIndex(name, ".")+1:] }

// sentenceFeature is what sentence-transformers calls the vector of a text, between its modules.
const sentenceFeature = "sentence_embedding"

// ofSentence reports whether a module reads or writes the vector of a text; "" is the module's default.
func ofSentence(name string) bool { return name == "" || name == sentenceFeature }
