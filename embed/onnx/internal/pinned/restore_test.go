package pinned

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

func bytesField(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

func varintField(number protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), value)
}

func join(parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func floats(values ...float32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func testTensor(name string, elem uint64, raw []byte, dims ...uint64) []byte {
	var t []byte
	for _, d := range dims {
		t = append(t, varintField(1, d)...)
	}
	return join(t, varintField(2, elem), bytesField(8, []byte(name)), bytesField(9, raw))
}

func testNode(op, output string, inputs ...string) []byte {
	var n []byte
	for _, in := range inputs {
		n = append(n, bytesField(1, []byte(in))...)
	}
	return join(n, bytesField(2, []byte(output)), bytesField(4, []byte(op)))
}

// smallGraph multiplies by one weight of 2×3 that was rounded with a scale a column.
func smallGraph() []byte {
	return join(
		varintField(1, 8),
		bytesField(7, join(
			bytesField(1, testNode("Cast", "w_f", "w_q")),
			bytesField(1, testNode("Mul", "w", "w_f", "w_scale")),
			bytesField(1, testNode("MatMul", "y", "x", "w")),
			bytesField(5, testTensor("w_q", elemInt8, []byte{10, 20, 30, 0xf6, 0, 127}, 2, 3)),
			bytesField(5, testTensor("w_scale", elemFloat32, floats(0.5, 1, 2), 1, 3)),
			bytesField(5, testTensor("bias", elemFloat32, floats(1), 1)),
		)),
		bytesField(8, varintField(2, 17)),
	)
}

// safetensors has the named 3×2 matrix, which is the weight turned.
func safetensors(tb testing.TB, values ...float32) []byte {
	tb.Helper()
	data := floats(values...)
	header, err := json.Marshal(map[string]any{
		"layer.weight": map[string]any{"dtype": "F32", "shape": []int{3, 2}, "data_offsets": []int{0, len(data)}},
		"__metadata__": map[string]any{"format": "pt"},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return join(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header, data)
}

func TestRestore(t *testing.T) {
	tests := map[string]struct {
		graph, weights []byte
		want           string // error; empty: none
	}{
		"original":             {smallGraph(), safetensors(t, 5.2, -4.8, 20.4, -0.3, 59, 255), ""},
		"another weight":       {smallGraph(), safetensors(t, 5.2, -4.8, 20.4, -0.3, 59, 258), "none of the fp32 weights"},
		"no graph":             {varintField(1, 8), safetensors(t, 1, 2, 3, 4, 5, 6), "not an ONNX model"},
		"no protobuf":          {[]byte("not a graph"), safetensors(t, 1, 2, 3, 4, 5, 6), "proto"},
		"nothing rounded":      {bytesField(7, bytesField(1, testNode("MatMul", "y", "x", "w"))), safetensors(t, 1, 2, 3, 4, 5, 6), "no int8 weights"},
		"no safetensors":       {smallGraph(), []byte("{}"), "not a safetensors file"},
		"header beyond file":   {smallGraph(), []byte("\xff\xff\xff\xff\xff\xff\xff\xff{}"), "cut short"},
		"numbers beyond file":  {smallGraph(), safetensors(t, 5.2, -4.8, 20.4, -0.3, 59, 255)[:100], "safetensors"},
		"shape and size apart": {smallGraph(), safetensors(t, 5.2, -4.8, 20.4, -0.3), "shape [3 2]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			graph, weights, out := filepath.Join(dir, "g"), filepath.Join(dir, "w"), filepath.Join(dir, "o")
			write(t, graph, string(test.graph))
			write(t, weights, string(test.weights))
			err := restore(graph, weights, out)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want %q", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			want := join(
				varintField(1, 8),
				bytesField(7, join(
					bytesField(1, testNode("MatMul", "y", "x", "w")),
					bytesField(5, testTensor("bias", elemFloat32, floats(1), 1)),
					bytesField(5, testTensor("w", elemFloat32, floats(5.2, 20.4, 59, -4.8, -0.3, 255), 2, 3)),
				)),
				bytesField(8, varintField(2, 17)),
			)
			if string(got) != string(want) {
				t.Errorf("restored graph\n%x\nwant\n%x", got, want)
			}
		})
	}
}

func FuzzRestore(f *testing.F) {
	f.Add(smallGraph(), safetensors(f, 5.2, -4.8, 20.4, -0.3, 59, 255))
	f.Fuzz(func(t *testing.T, model, file []byte) {
		weights, err := readSafetensors(file)
		if err != nil {
			return
		}
		_, graph, _, err := splitModel(model)
		if err != nil {
			return
		}
		_, _ = restoreGraph(graph, weights) // must not panic
	})
}
