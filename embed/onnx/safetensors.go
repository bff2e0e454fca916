package onnx

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// errNotSafetensors says that a file is not what Hugging Face's safetensors format describes.
var errNotSafetensors = errors.New("not a safetensors file")

// maxHeader bounds the JSON header of a safetensors file, as the format's own reader does.
const maxHeader = 100_000_000

// weights is the table of a safetensors file: eight bytes with the length of a JSON header, the header, the numbers. The numbers stay
// in the file.
type weights struct {
	path    string
	tensors map[string]tensor
}

// tensor is where the numbers of a weight lie in the file.
type tensor struct {
	elem  int // of the ONNX standard
	shape []int64
	from  int64 // byte in the file
	size  int64 // bytes
}

// dtypes are the element types of safetensors that a weight may have, as those of the ONNX standard, and their bytes.
var dtypes = map[string]struct {
	elem  int
	bytes int64
}{"F32": {elemFloat32, 4}, "F16": {elemFloat16, 2}, "BF16": {elemBFloat16, 2}}

// readWeights reads the table. Tensors of other element types are left out, since models carry ids and masks that nothing asks for.
func readWeights(path string) (weights, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return weights{}, err
	}
	defer func() { _ = f.Close() }() // only read from
	tensors, err := readTable(f, size)
	if err != nil {
		return weights{}, fmt.Errorf("%s: %w", path, err)
	}
	return weights{path, tensors}, nil
}

// readTable reads the head of a file of so many bytes.
func readTable(r io.Reader, size int64) (map[string]tensor, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("%w: cut short: %w", errNotSafetensors, err)
	}
	if string(head[:]) == lfsPointer[:8] {
		return nil, fmt.Errorf("%w but a pointer to one, which git lfs pull fetches", errNotSafetensors)
	}
	n := binary.LittleEndian.Uint64(head[:])
	if n > maxHeader || int64(n) > size-8 {
		return nil, fmt.Errorf("%w: a header of %d bytes in a file of %d", errNotSafetensors, n, size)
	}
	header := make([]byte, n)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, fmt.Errorf("%w: cut short: %w", errNotSafetensors, err)
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(header, &entries); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSafetensors, err)
	}
	tensors := make(map[string]tensor, len(entries))
	for name, raw := range entries {
		if name == "__metadata__" {
			continue
		}
		t, known, err := readEntry(raw, 8+int64(n), size)
		if err != nil {
			return nil, fmt.Errorf("%w: tensor %.100q: %w", errNotSafetensors, name, err)
		}
		if known {
			tensors[name] = t
		}
	}
	return tensors, nil
}

// readEntry reads a tensor's entry of the header. Its numbers lie between start and end of the file.
func readEntry(raw []byte, start, end int64) (t tensor, known bool, err error) {
	var e struct {
		DType   string   `json:"dtype"`
		Shape   []int64  `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return t, false, err
	}
	from, to := e.Offsets[0], e.Offsets[1]
	if from < 0 || to < from || to > end-start {
		return t, false, fmt.Errorf("bytes %d to %d of %d", from, to, end-start)
	}
	d, known := dtypes[e.DType]
	if !known {
		return t, false, nil
	}
	count := int64(1)
	for _, n := range e.Shape {
		if n < 0 || n > 0 && count > math.MaxInt64/8/n {
			return t, false, fmt.Errorf("shape %v", e.Shape)
		}
		count *= n
	}
	if count*d.bytes != to-from {
		return t, false, fmt.Errorf("shape %v of %s in %d bytes", e.Shape, e.DType, to-from)
	}
	return tensor{d.elem, e.Shape, start + from, to - from}, true, nil
}

// floats reads a tensor's numbers.
func (w weights) floats(t tensor) ([]float32, error) {
	f, err := os.Open(w.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	b := make([]byte, t.size)
	if _, err := f.ReadAt(b, t.from); err != nil {
		return nil, fmt.Errorf("%s: %w", w.path, err)
	}
	return decodeFloats(nil, b, t.elem), nil
}

// decodeFloats appends numbers of an element type, little-endian, to dst.
func decodeFloats(dst []float32, b []byte, elem int) []float32 {
	switch elem {
	case elemFloat32:
		for ; len(b) >= 4; b = b[4:] {
			dst = append(dst, math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
	case elemBFloat16:
		for ; len(b) >= 2; b = b[2:] {
			dst = append(dst, math.Float32frombits(uint32(binary.LittleEndian.Uint16(b))<<16))
		}
	case elemFloat16:
		for ; len(b) >= 2; b = b[2:] {
			dst = append(dst, halfFloat(binary.LittleEndian.Uint16(b)))
		}
	}
	return dst
}

// halfFloat is the number of IEEE 754's binary16.
func halfFloat(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exponent {
	case 0: // zero and what is below 2^-14, where a step is 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*0x1p-24))
	case 0x1f: // infinite or not a number
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}
