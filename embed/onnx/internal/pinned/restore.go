package pinned

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// restore writes the graph at graphPath to out with the fp32 weights at weightsPath (safetensors) in the place of its int8 ones.
//
// The int8 graph holds a weight as Mul(Cast(int8 tensor), scale), which ONNX Runtime folds to fp32 when it loads: int8 saves disk, not
// time, and costs accuracy, most of all for very short texts (cosine 0.996 for the empty one). Which tensor belongs where needs no
// table: it is the one whose every number is within half a step of the int8 one. So a wrong pair of files is an error.
func restore(graphPath, weightsPath, out string) error {
	model, err := os.ReadFile(graphPath)
	if err != nil {
		return err
	}
	file, err := os.ReadFile(weightsPath)
	if err != nil {
		return err
	}
	weights, err := readSafetensors(file)
	if err != nil {
		return fmt.Errorf("%s: %w", weightsPath, err)
	}
	before, graph, after, err := splitModel(model)
	if err != nil {
		return fmt.Errorf("%s: %w", graphPath, err)
	}
	parts, err := restoreGraph(graph, weights)
	if err != nil {
		return fmt.Errorf("%s: %w", graphPath, err)
	}
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	head := protowire.AppendTag(before, 7, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(size))
	return writeParts(out, slices.Concat([][]byte{head}, parts, [][]byte{after}))
}

func writeParts(path string, parts [][]byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for _, p := range parts {
		_, _ = w.Write(p) // Flush answers the first error
	}
	return errors.Join(w.Flush(), f.Sync(), f.Close())
}

// matrix is a weight as safetensors has it: rows × cols float32, little-endian.
type matrix struct {
	data       []byte
	rows, cols int
}

func (m matrix) at(row, col int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(m.data[4*(row*m.cols+col):]))
}

// readSafetensors answers the float32 matrices of a safetensors file: the length of a JSON header, the header, the numbers.
func readSafetensors(file []byte) ([]matrix, error) {
	if len(file) < 8 {
		return nil, errors.New("not a safetensors file")
	}
	n := binary.LittleEndian.Uint64(file)
	if n > uint64(len(file)-8) {
		return nil, errors.New("safetensors header is cut short")
	}
	header, data := file[8:8+n], file[8+n:]
	var entries map[string]struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(header, &entries); err != nil {
		return nil, fmt.Errorf("safetensors header: %w", err)
	}
	var all []matrix
	for name, e := range entries {
		if e.DType != "F32" || len(e.Shape) != 2 {
			continue
		}
		from, to := e.Offsets[0], e.Offsets[1]
		if from < 0 || from > to || to > len(data) || e.Shape[0] < 1 || e.Shape[1] < 1 || (to-from)/4/e.Shape[0] != e.Shape[1] {
			return nil, fmt.Errorf("safetensors: %s has the shape %v in bytes %d to %d of %d", name, e.Shape, from, to, len(data))
		}
		all = append(all, matrix{data[from:to], e.Shape[0], e.Shape[1]})
	}
	return all, nil
}

// rounded is a weight of the graph as int8 numbers times scales, one scale a row or one a column.
type rounded struct {
	q, scale   []byte
	rows, cols int
	perRow     bool
}

// original answers the tensor that r was rounded from, laid out as r is.
func (r rounded) original(weights []matrix) ([]byte, bool) {
	for _, w := range weights {
		if w.rows == r.rows && w.cols == r.cols && r.near(w.at) {
			return w.data, true
		}
		if turned := func(row, col int) float32 { return w.at(col, row) }; w.rows == r.cols && w.cols == r.rows && r.near(turned) {
			data := make([]byte, 0, len(w.data))
			for row := range r.rows {
				for col := range r.cols {
					data = binary.LittleEndian.AppendUint32(data, math.Float32bits(turned(row, col)))
				}
			}
			return data, true
		}
	}
	return nil, false
}

// near says whether every number is within half a step, and what float32 arithmetic adds to it.
func (r rounded) near(at func(row, col int) float32) bool {
	for row := range r.rows {
		for col := range r.cols {
			i := col
			if r.perRow {
				i = row
			}
			step := float64(math.Float32frombits(binary.LittleEndian.Uint32(r.scale[4*i:])))
			if math.Abs(float64(at(row, col))-step*float64(int8(r.q[row*r.cols+col]))) > 0.501*step {
				return false
			}
		}
	}
	return true
}
