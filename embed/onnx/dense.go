package onnx

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
)

// dense is a layer of sentence-transformers: a matrix, a bias, and a function of each component.
type dense struct {
	in, out    int
	activation string
	matrix     []float32 // of out rows
	bias       []float32
	residual   bool      // what goes in is added to what the function makes
	bridge     []float32 // with residual, where out is not in: the matrix that what goes in is multiplied with
}

// denseActivations are the functions of a dense layer, by the last part of torch's names for them.
var denseActivations = map[string]func(x float64) float64{
	"Identity": func(x float64) float64 { return x },
	"Tanh":     math.Tanh,
	"ReLU":     func(x float64) float64 { return max(x, 0) },
	"Sigmoid":  sigmoid,
	"GELU":     func(x float64) float64 { return x * (1 + math.Erf(x/math.Sqrt2)) / 2 },
	"SiLU":     func(x float64) float64 { return x * sigmoid(x) },
	"Mish":     func(x float64) float64 { return x * math.Tanh(softplus(x)) },
	"Softplus": softplus,
	"LeakyReLU": func(x float64) float64 {
		return max(x, 0.01*x)
	},
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// readDense reads a layer's folder.
func readDense(dir string) (dense, error) {
	c := struct {
		In         int    `json:"in_features"`
		Out        int    `json:"out_features"`
		Bias       *bool  `json:"bias"`
		Activation string `json:"activation_function"`
		Input      string `json:"module_input_name"`
		Output     string `json:"module_output_name"`
		Residual   bool   `json:"use_residual"`
	}{Activation: "torch.nn.Tanh"}
	path := filepath.Join(dir, "config.json")
	if found, err := readJSON(path, &c); err != nil {
		return dense{}, err
	} else if !found {
		return dense{}, fmt.Errorf("%w: %s is missing", ErrModel, path)
	}
	d := dense{in: c.In, out: c.Out, activation: lastName(c.Activation), residual: c.Residual}
	switch _, known := denseActivations[d.activation]; {
	case !known || !strings.HasPrefix(c.Activation, "torch."):
		return d, fmt.Errorf("%w: %s: activation_function %.100q; known are torch's %s", ErrUnsupported, path, c.Activation, sorted(denseActivations))
	case !ofSentence(c.Input) || !ofSentence(c.Output):
		return d, fmt.Errorf("%w: %s: from %.100q to %.100q; known is %s", ErrUnsupported, path, c.Input, c.Output, sentenceFeature)
	case d.in < 1 || d.in > maxDimensions || d.out < 1 || d.out > maxDimensions:
		return d, fmt.Errorf("%w: %s: %d features in, %d out", ErrModel, path, d.in, d.out)
	}
	return d, d.readWeights(dir, c.Bias == nil || *c.Bias)
}

func (d *dense) readWeights(dir string, biased bool) error {
	w, err := layerWeights(dir)
	if err != nil {
		return err
	}
	if d.matrix, err = w.floats("linear.weight", int64(d.out), int64(d.in)); err == nil && biased {
		d.bias, err = w.floats("linear.bias", int64(d.out))
	}
	if err == nil && d.residual && d.in != d.out {
		d.bridge, err = w.floats("residual.weight", int64(d.out), int64(d.in))
	}
	return err
}

func (d dense) made() int { return d.out }

func (d dense) fingerprint() string {
	head := fmt.Sprintf("%d %s\n", d.in, d.activation)
	if d.residual {
		return "dense " + hashNumbers(head+"residual\n", d.matrix, d.bias, d.bridge)
	}
	return "dense " + hashNumbers(head, d.matrix, d.bias)
}

func (d dense) apply(vector []float32) []float32 {
	out, activate := make([]float32, d.out), denseActivations[d.activation]
	for i := range out {
		sum := dotProduct(d.matrix[i*d.in:][:d.in], vector)
		if d.bias != nil {
			sum += float64(d.bias[i])
		}
		sum = activate(sum)
		switch {
		case d.bridge != nil:
			sum += dotProduct(d.bridge[i*d.in:][:d.in], vector)
		case d.residual:
			sum += float64(vector[i])
		}
		out[i] = float32(sum)
	}
	return out
}

// dotProduct is the product of two vectors of one length, in 64 bits.
func dotProduct(row, vector []float32) float64 {
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
	return sums[0] + sums[1] + sums[2] + sums[3]
}
