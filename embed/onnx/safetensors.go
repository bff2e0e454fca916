package onnx

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// errNotSafetensors says that a file is not what Hugging Face's safetensors format describes.
var errNotSafetensors = errors.New("not a safetensors file")

// maxHeader bounds the JSON header of a safetensors file, as the format's own reader does.
const maxHeader = 100_000_000

// weights is what the tables of a model's safetensors files say. A file is eight bytes with the length of a JSON header, the header, the
// numbers. The numbers stay in the files.
type weights struct {
	path    string   // the file, or the index of several
	files   []string // links resolved, in the order of their names
	tensors map[string]tensor
}

// tensor is where the numbers of a weight lie.
type tensor struct {
	file  string
	dtype string
	elem  int // of the ONNX standard; 0 where a weight can't have dtype
	shape []int64
	from  int64 // byte in the file
	size  int64 // bytes
}

// dtypes are the element types of safetensors that a weight may have, as those of the ONNX standard, and their bytes.
var dtypes = map[string]struct {
	elem  int
	bytes int64
}{"F32": {elemFloat32, 4}, "F16": {elemFloat16, 2}, "BF16": {elemBFloat16, 2}}

// indexFile is the name that Hugging Face gives to the index of weights in several files.
const indexFile = weightsFile + ".index.json"

// maxFiles bounds an index; the largest models have some hundred.
const maxFiles = 10_000

// readWeights reads the table of a file, or those of all files that an index names; together, their headers take no more than one may.
func readWeights(path string) (weights, error) {
	w := weights{path: path, tensors: map[string]tensor{}}
	names, index := []string{filepath.Base(path)}, object[string](nil)
	if names[0] == indexFile {
		var err error
		if names, index, err = readIndex(path); err != nil {
			return w, err
		}
	}
	resolved, left := map[string]string{}, int64(maxHeader)
	for _, name := range names {
		// ONNX Runtime follows no link out of a folder, as there are in Hugging Face's cache.
		file, err := filepath.EvalSymlinks(filepath.Join(filepath.Dir(path), filepath.FromSlash(name)))
		if err == nil && !slices.Contains(w.files, file) {
			left, err = w.add(file, left)
		}
		if err != nil {
			return w, fmt.Errorf("%w: %w", ErrModel, err)
		}
		resolved[name] = file
	}
	for _, name := range slices.Sorted(maps.Keys(index)) {
		if file := index[name]; w.tensors[name].file != resolved[file] {
			return w, fmt.Errorf("%w: %s: tensor %.100q is not in %.100q", ErrModel, path, name, file)
		}
	}
	return w, nil
}

// readIndex reads which files there are, in the order of their names, and which of them each tensor is in. As in transformers, a file may
// hold more than that.
func readIndex(path string) (files []string, of object[string], err error) {
	var index struct {
		WeightMap object[string] `json:"weight_map"`
	}
	if _, err := readJSON(path, &index); err != nil {
		return nil, nil, err
	}
	files = slices.Sorted(maps.Values(index.WeightMap))
	files = slices.Compact(files)
	if len(files) == 0 || len(files) > maxFiles {
		return nil, nil, fmt.Errorf("%w: %s: weight_map names %d files; known are 1 to %d", ErrModel, path, len(files), maxFiles)
	}
	for _, name := range files {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return nil, nil, fmt.Errorf("%w: %s: file %.100q is not inside the folder", ErrModel, path, name)
		}
	}
	return files, index.WeightMap, nil
}

// add adds the table of a file, whose header may take so many bytes, and answers how many are left of them.
func (w *weights) add(path string, most int64) (left int64, err error) {
	f, size, err := openRegular(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read from
	tensors, header, err := readTable(f, size, most)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	for name, t := range tensors {
		if twin, is := w.tensors[name]; is {
			return 0, fmt.Errorf("tensor %.100q is in %s and in %s", name, twin.file, path)
		}
		t.file = path
		w.tensors[name] = t
	}
	w.files = append(w.files, path)
	return most - header, nil
}

// folder is where all files lie, in it or below.
func (w weights) folder() string {
	folder := filepath.Dir(w.files[0])
	for _, file := range w.files[1:] {
		for folder != filepath.Dir(folder) && !below(folder, file) {
			folder = filepath.Dir(folder)
		}
	}
	return folder
}

func below(folder, file string) bool {
	path, err := filepath.Rel(folder, file)
	return err == nil && filepath.IsLocal(path)
}

// readTable reads the head of a file of so many bytes. The header in it has n, at most so many.
func readTable(r io.Reader, size, most int64) (tensors map[string]tensor, n int64, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, 0, fmt.Errorf("%w: cut short: %w", errNotSafetensors, err)
	}
	if string(head[:]) == lfsPointer[:8] {
		return nil, 0, fmt.Errorf("%w but a pointer to one, which git lfs pull fetches", errNotSafetensors)
	}
	length := binary.LittleEndian.Uint64(head[:])
	if length > uint64(max(0, min(most, size-8))) {
		return nil, 0, fmt.Errorf("%w: a header of %d bytes in a file of %d, where %d are allowed", errNotSafetensors, length, size, most)
	}
	n = int64(length)
	header := make([]byte, n)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, 0, fmt.Errorf("%w: cut short: %w", errNotSafetensors, err)
	}
	var entries object[json.RawMessage]
	if err := json.Unmarshal(header, &entries); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errNotSafetensors, err)
	}
	tensors = make(map[string]tensor, len(entries))
	for name, raw := range entries {
		if name == "__metadata__" {
			continue
		}
		if tensors[name], err = readEntry(raw, 8+n, size); err != nil {
			return nil, 0, fmt.Errorf("%w: tensor %.100q: %w", errNotSafetensors, name, err)
		}
	}
	return tensors, n, nil
}

// object is a JSON object in which no name comes twice.
type object[V any] map[string]V

// UnmarshalJSON refuses a name that comes again, where a map would keep the last.
func (o *object[V]) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return fmt.Errorf("no JSON object but %.20q", b)
	}
	*o = object[V]{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string) // a name of an object is one
		if _, twice := (*o)[name]; twice {
			return fmt.Errorf("%.100q comes twice", name)
		}
		var v V
		if err := d.Decode(&v); err != nil {
			return err
		}
		(*o)[name] = v
	}
	return nil
}

// readEntry reads a tensor's entry of the header. Its numbers lie between start and end of the file.
func readEntry(raw []byte, start, end int64) (tensor, error) {
	var e struct {
		DType   string   `json:"dtype"`
		Shape   []int64  `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return tensor{}, err
	}
	from, to := e.Offsets[0], e.Offsets[1]
	if from < 0 || to < from || to > end-start {
		return tensor{}, fmt.Errorf("bytes %d to %d of %d", from, to, end-start)
	}
	t := tensor{dtype: e.DType, shape: e.Shape, from: start + from, size: to - from}
	d, known := dtypes[e.DType]
	if !known { // ids and masks that nothing asks for
		return t, nil
	}
	count := int64(1)
	for _, n := range e.Shape {
		if n < 0 || n > 0 && count > math.MaxInt64/8/n {
			return tensor{}, fmt.Errorf("shape %v", e.Shape)
		}
		count *= n
	}
	if count*d.bytes != to-from {
		return tensor{}, fmt.Errorf("shape %v of %s in %d bytes", e.Shape, e.DType, to-from)
	}
	t.elem = d.elem
	return t, nil
}

// find answers a tensor that must be there and have this shape; -1 is any.
func (w weights) find(name string, shape ...int64) (tensor, error) {
	t, is := w.tensors[name]
	switch {
	case !is:
		return t, fmt.Errorf("%w: %s has no weight %s", ErrModel, w.path, name)
	case t.elem == 0:
		return t, fmt.Errorf("%w: %s: weight %s of the type %.20q; known are %s", ErrUnsupported, t.file, name, t.dtype, sorted(dtypes))
	case !slices.EqualFunc(t.shape, shape, func(have, want int64) bool { return have == want || want < 0 && have > 0 }):
		return t, fmt.Errorf("%w: %s: weight %s has the shape %v, wanted %v", ErrModel, t.file, name, t.shape, shape)
	}
	return t, nil
}

// floats reads a tensor's numbers.
func (t tensor) floats() ([]float32, error) {
	f, err := os.Open(t.file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	b := make([]byte, t.size)
	if _, err := f.ReadAt(b, t.from); err != nil {
		return nil, fmt.Errorf("%s: %w", t.file, err)
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
