package onnx

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

// numbersFile is a safetensors file with these tensors in 32 bits.
func numbersFile(tb testing.TB, tensors map[string][][]float32) []byte {
	tb.Helper()
	header, numbers := map[string]any{}, []byte{}
	for name, rows := range tensors {
		from, shape := len(numbers), []int{len(rows), len(rows[0])}
		if len(rows) == 1 {
			shape = shape[1:]
		}
		for _, row := range rows {
			for _, x := range row {
				numbers = binary.LittleEndian.AppendUint32(numbers, math.Float32bits(x))
			}
		}
		header[name] = files{"dtype": "F32", "shape": shape, "data_offsets": []int{from, len(numbers)}}
	}
	b, err := json.Marshal(header)
	if err != nil {
		tb.Fatal(err)
	}
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(b))), b...), numbers...)
}

// withDense adds a dense layer from so many components to two: the sum of all, and the first minus the second minus 1.
func withDense(tb testing.TB, f files, path string, in int, activation string) files {
	tb.Helper()
	rows := [][]float32{make([]float32, in), make([]float32, in)}
	for i := range in {
		rows[0][i] = 1
	}
	rows[1][0], rows[1][1] = 1, -1
	f = f.with(path+"/config.json", files{"in_features": in, "out_features": 2, "bias": true, "activation_function": "torch.nn.modules.activation." + activation})
	f = f.with(path+"/model.safetensors", numbersFile(tb, map[string][][]float32{"linear.weight": rows, "linear.bias": {{0, -1}}}))
	modules, _ := f["modules.json"].([]any)
	return f.with("modules.json", append(modules[:len(modules):len(modules)], files{"path": path, "type": "sentence_transformers.models.Dense"}))
}

func TestDenseLayer(t *testing.T) {
	for activation, want := range map[string][2]float64{ // of 3 and -2
		"Identity": {3, -2}, "Tanh": {0.99505475, -0.96402758}, "ReLU": {3, 0}, "Sigmoid": {0.95257413, 0.11920292},
		"GELU": {2.99595031, -0.04550026}, "SiLU": {2.85772238, -0.23840584},
		"Mish": {2.98653500, -0.25250148}, "Softplus": {3.04858735, 0.12692801}, "LeakyReLU": {3, -0.02},
	} {
		dir := withDense(t, testFolder([]byte("graph")), "2_Dense", testDims, activation).write(t)
		f, err := readFolder(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		got := f.layers[0].apply([]float32{1, 2, 3, -3})
		if f.made() != 2 || len(got) != 2 || math.Abs(float64(got[0])-want[0]) > 1e-6 || math.Abs(float64(got[1])-want[1]) > 1e-6 {
			t.Errorf("%s: %v of %d components, want %v", activation, got, f.made(), want)
		}
	}
	for name, d := range map[string]dense{
		"residual": {in: 2, out: 2, activation: "ReLU", matrix: []float32{1, 0, 0, -1}, residual: true},
		"bridge":   {in: 2, out: 2, activation: "ReLU", matrix: []float32{1, 0, 0, -1}, residual: true, bridge: []float32{1, 0, 0, 1}},
	} {
		if got := d.apply([]float32{3, 4}); got[0] != 6 || got[1] != 4 {
			t.Errorf("%s: %v", name, got)
		}
		if without := (dense{in: d.in, out: d.out, activation: d.activation, matrix: d.matrix}); d.fingerprint() == without.fingerprint() {
			t.Errorf("%s: the fingerprint is that of a layer without", name)
		}
	}
	long := dense{in: 7, out: 1, activation: "Identity", matrix: []float32{1, 2, 4, 8, 16, 32, 64}}
	if got := long.apply([]float32{1, 1, 1, 1, 1, 1, 1}); got[0] != 127 {
		t.Errorf("a row of seven without a bias: %v", got)
	}
}

func TestDenseLayerErrors(t *testing.T) {
	base := withDense(t, testFolder([]byte("graph")), "2_Dense", testDims, "Tanh")
	for name, test := range map[string]struct {
		folder files
		err    error
		says   string
	}{
		"no config":            {base.with("2_Dense/config.json", nil), ErrModel, "config.json is missing"},
		"an activation":        {base.with("2_Dense/config.json", files{"activation_function": "torch.nn.modules.activation.CELU"}), ErrUnsupported, "CELU"},
		"somebody's Tanh":      {base.with("2_Dense/config.json", files{"activation_function": "custom.Tanh"}), ErrUnsupported, "custom.Tanh"},
		"no residual":          {base.with("2_Dense/config.json", files{"use_residual": true}), ErrModel, "residual.weight"},
		"of tokens":            {base.with("2_Dense/config.json", files{"module_input_name": "token_embeddings"}), ErrUnsupported, "token_embeddings"},
		"no size":              {base.with("2_Dense/config.json", files{"out_features": 0}), ErrModel, "features in, 0 out"},
		"another size":         {base.with("2_Dense/config.json", files{"in_features": 5}), ErrModel, "wanted [2 5]"},
		"not what comes in":    {withDense(t, testFolder([]byte("graph")), "2_Dense", 5, "Tanh"), ErrModel, "what is before it makes 4"},
		"no bias in the file":  {base.with("2_Dense/model.safetensors", numbersFile(t, map[string][][]float32{"linear.weight": {{1, 1, 1, 1}, {1, 1, 1, 1}}})), ErrModel, "linear.bias"},
		"no weights":           {base.with("2_Dense/model.safetensors", nil), ErrModel, "model.safetensors"},
		"weights of a program": {base.with("2_Dense/model.safetensors", nil).with("2_Dense/pytorch_model.bin", []byte("p")), ErrUnsupported, "pytorch_model.bin"},
	} {
		if _, err := readFolder(test.folder.write(t), ""); !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: error %v, want %v that says %q", name, err, test.err, test.says)
		}
	}
}
