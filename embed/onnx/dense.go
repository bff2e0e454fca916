package onnx

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
)

// dense is a layer of sentence-transformers behind the pooling: a matrix, a bias, and a function of each component.
type dense struct {
	in, out    int
	activation string
	matrix     []float32 // of out rows
	bias       []float32
}

// denseActivations are the functions of a dense layer, by the last part of torch's names for them.
var denseActivations = map[string]func(x float64) float64{
	"Identity": func(x float64) float64 { return x },
	"Tanh":     math.Tanh,
	"ReLU":     func(x float64) float64 { return max(x, 0) },
	"Sigmoid":  func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
	"GELU":     func(x float64) float64 { return x * (1 + math.Erf(x/math.Sqrt2)) / 2 },
	"SiLU":     func(x float64) float64 { return x / (1 + math.Exp(-x)) },
}

// readDense reads a layer's folder. Its weights must be in model.safetensors: those that are pickled would be a program to run.
func readDense(dir string) (dense, error) {
	c := struct {
		In         int    `json:"in_features"`
		Out        int    `json:"out_features"`
		Bias       *bool  `json:"bias"`
		Activation string `json:"activation_function"`
		Input      string `json:"module_input_name"`
		Output     string `json:"module_output_name"`
		Residual   bool   `json:"use_residual"`
	}{}
	path := filepath.Join(dir, "config.json")
	if found, err := readJSON(path, &c); err != nil {
		return dense{}, err
	} else if !found {
		return dense{}, fmt.Errorf("%w: %s is missing", ErrModel, path)
	}
	d := dense{in: c.In, out: c.Out, activation: lastName(c.Activation)}
	if c.Activation == "" {
		d.activation = "Tanh"
	}
	switch _, known := denseActivations[d.activation]; {
	case !known:
		return d, fmt.Errorf("%w: %s: activation_function %.100q; known are %s", ErrUnsupported, path, c.Activation, sorted(denseActivations))
	case c.Residual:
		return d, fmt.Errorf("%w: %s: use_residual", ErrUnsupported, path)
	case !ofSentence(c.Input) || !ofSentence(c.Output):
		return d, fmt.Errorf("%w: %s: from %.100q to %.100q; known is %s", ErrUnsupported, path, c.Input, c.Output, sentenceFeature)
	case d.in < 1 || d.in > maxDimensions || d.out < 1 || d.out > maxDimensions:
		return d, fmt.Errorf("%w: %s: %d features in, %d out", ErrModel, path, d.in, d.out)
	}
	return d, d.readWeights(dir, c.Bias == nil || *c.Bias)
}

func (d *dense) readWeights(dir string, biased bool) error {
	path := filepath.Join(dir, weightsFile)
	if !exists(path) && exists(filepath.Join(dir, "pytorch_model.bin")) {
		return fmt.Errorf("%w: %s: weights in pytorch_model.bin; known is %s, which sentence-transformers writes when it saves the model",
			ErrUnsupported, dir, weightsFile)
	}
	w, err := readWeights(path)
	if err != nil {
		return err
	}
	if d.matrix, err = w.floats("linear.weight", int64(d.out), int64(d.in)); err == nil && biased {
		d.bias, err = w.floats("linear.bias", int64(d.out))
	}
	return err
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

// apply answers what the layer makes of a vector.
func (d dense) apply(vector []float32) []float32 {
	out, activate := make([]float32, d.out), denseActivations[d.activation]
	for i := range out {
		row := d.matrix[i*d.in:][:d.in]
		var sums [4]float64 // apart, so that the processor need not wait for one to add to it
		n := len(row) &^ 3
		for j := 0; j < n; j += 4 {
			v, r := vector[j:j+4:j+4], row[j:j+4:j+4]
			for k := range sums {
				sums[k] += float64(v[k]) * float64(r[k])
			}
		}
		for j := n; j < len(row); j++ {
			sums[0] += float64(vector[j]) * float64(row[j])
		}
		sum := sums[0] + sums[1] + sums[2] + sums[3]
		if d.bias != nil {
			sum += float64(d.bias[i])
		}
		out[i] = float32(activate(sum))
	}
	return out
}

// lastName is what stands behind the last dot of a Python name.
func lastName(name string) string { return name[strings.LastIndex(name, ".")+1:] }

// sentenceFeature is what sentence-transformers calls the vector of a text, between its modules.
const sentenceFeature = "sentence_embedding"

// ofSentence reports whether a module reads or writes the vector of a text; "" is the module's default.
func ofSentence(name string) bool { return name == "" || name == sentenceFeature }
