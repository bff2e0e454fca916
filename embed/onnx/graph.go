package onnx

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// graph is what an ONNX file declares, read without ONNX Runtime and without holding its weights in memory.
type graph struct {
	inputs, outputs []value
	// companyOp is an operator through which a text's neighbours in a batch change its vector, "" where there is none.
	companyOp string
	// external names the files beside the model that hold weights, sorted.
	external []string
	// sha256 is the hash of the file, in hex.
	sha256 string
}

// value is an input or output of a graph. A dimension of -1 is left open; dims is nil where no shape is declared.
type value struct {
	name string
	elem int
	dims []int64
}

// Element types of the ONNX standard (TensorProto.DataType) that errors name.
var elemNames = map[int]string{1: "float32", 6: "int32", 7: "int64", 10: "float16", 11: "float64", 16: "bfloat16"}

const (
	elemFloat32  = 1
	elemUint8    = 2
	elemInt8     = 3
	elemInt32    = 6
	elemInt64    = 7
	elemFloat16  = 10
	elemBFloat16 = 16
)

func (v value) String() string {
	name, ok := elemNames[v.elem]
	if !ok {
		name = fmt.Sprintf("element type %d", v.elem)
	}
	return fmt.Sprintf("%s %s%v", v.name, name, v.dims)
}

// companyOps quantize activations with a scale taken over the whole batch, or choose other kernels for one row than for many.
var companyOps = []string{"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "MatMulNBits"}

// Bounds of what is kept from a file; honest models stay far below.
const (
	maxGraphNames = 64 << 20 // bytes of names in all
	maxGraphName  = 64 << 10
	maxGraphDepth = 32 // messages inside messages, subgraphs included
)

var errNotONNX = errors.New("not an ONNX model")

// lfsPointer begins the small text file that a clone without Git LFS has in the place of a large one.
const lfsPointer = "version https://git-lfs"

// readGraph walks the protobuf of an ONNX file once, hashing it on the way. Its memory is bounded whatever the file holds.
func readGraph(path string) (graph, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return graph{}, err
	}
	defer func() { _ = f.Close() }() // only read from
	hash := sha256.New()
	w := walker{in: bufio.NewReaderSize(io.TeeReader(f, hash), 1<<16)}
	if head, _ := w.in.Peek(len(lfsPointer)); string(head) == lfsPointer {
		return graph{}, fmt.Errorf("%s: %w but a pointer to one, which git lfs pull fetches", path, errNotONNX)
	}
	if err := w.model(size); err != nil {
		return graph{}, fmt.Errorf("%s: %w", path, err)
	}
	if !w.found {
		return graph{}, fmt.Errorf("%s: %w: it holds no graph", path, errNotONNX)
	}
	g := w.graph
	g.inputs = slices.DeleteFunc(g.inputs, func(v value) bool { return w.initializers[v.name] })
	slices.Sort(g.external)
	g.external = slices.Compact(g.external)
	g.sha256 = hex.EncodeToString(hash.Sum(nil))
	return g, nil
}

// openRegular opens a file and answers its size. What is not a regular file is refused, since reading it may block.
func openRegular(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s: not a regular file", path)
	}
	f, err := os.Open(path)
	return f, info.Size(), err
}

// walker reads protobuf's wire format from a stream: field numbers as in onnx.proto (ONNX IR, opset-independent).
type walker struct {
	graph
	in           *bufio.Reader
	pos          int64
	depth, names int
	found        bool
	initializers map[string]bool
}

// field is one field of a message: a number for wire type varint, or size bytes that follow.
type field struct {
	id, number uint64
	size       int64
}

// fields calls visit for each field of a message of n bytes. What visit leaves unread of a field is skipped.
func (w *walker) fields(n int64, visit func(field) error) error {
	if w.depth++; w.depth > maxGraphDepth {
		return fmt.Errorf("%w: nested deeper than %d messages", errNotONNX, maxGraphDepth)
	}
	defer func() { w.depth-- }()
	for end := w.pos + n; w.pos < end; {
		f, err := w.next(end)
		if err != nil {
			return err
		}
		after := w.pos + f.size
		if err := visit(f); err != nil {
			return err
		}
		if err := w.skip(after - w.pos); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) next(end int64) (field, error) {
	tag, err := w.varint()
	if err != nil {
		return field{}, err
	}
	f := field{id: tag >> 3}
	switch tag & 7 {
	case 0:
		f.number, err = w.varint()
	case 1:
		f.size = 8
	case 2:
		var size uint64
		size, err = w.varint()
		f.size = int64(min(size, 1<<62))
	case 5:
		f.size = 4
	default:
		err = fmt.Errorf("%w: unknown wire type %d at byte %d", errNotONNX, tag&7, w.pos)
	}
	if err == nil && (f.id == 0 || f.size > end-w.pos || w.pos > end) {
		err = fmt.Errorf("%w: malformed or cut short at byte %d", errNotONNX, w.pos)
	}
	return f, err
}

// ReadByte lets binary.ReadUvarint count the bytes that it takes.
func (w *walker) ReadByte() (byte, error) {
	b, err := w.in.ReadByte()
	if err == nil {
		w.pos++
	}
	return b, err
}

func (w *walker) varint() (uint64, error) {
	n, err := binary.ReadUvarint(w)
	if err != nil {
		return 0, fmt.Errorf("%w: malformed or cut short at byte %d: %w", errNotONNX, w.pos, err)
	}
	return n, nil
}

func (w *walker) skip(n int64) error {
	for n > 0 {
		done, err := w.in.Discard(int(min(n, 1<<30)))
		w.pos += int64(done)
		n -= int64(done)
		if err != nil {
			return fmt.Errorf("%w: cut short at byte %d: %w", errNotONNX, w.pos, err)
		}
	}
	return nil
}

func (w *walker) text(f field) (string, error) {
	if w.names += int(min(f.size, maxGraphNames)); f.size > maxGraphName || w.names > maxGraphNames {
		return "", fmt.Errorf("%w: names too long at byte %d", errNotONNX, w.pos)
	}
	b := make([]byte, f.size)
	n, err := io.ReadFull(w.in, b)
	w.pos += int64(n)
	if err != nil {
		return "", fmt.Errorf("%w: cut short at byte %d: %w", errNotONNX, w.pos, err)
	}
	return string(b), nil
}

// model reads a ModelProto: graph = 7, functions = 25.
func (w *walker) model(n int64) error {
	return w.fields(n, func(f field) error {
		switch f.id {
		case 7:
			w.found = true
			return w.graphProto(f.size, true)
		case 25:
			return w.fields(f.size, func(f field) error { // FunctionProto: node = 7
				if f.id == 7 {
					return w.node(f.size)
				}
				return nil
			})
		}
		return nil
	})
}

// graphProto reads a GraphProto: node = 1, initializer = 5, input = 11, output = 12.
func (w *walker) graphProto(n int64, top bool) error {
	return w.fields(n, func(f field) error {
		switch {
		case f.id == 1:
			return w.node(f.size)
		case f.id == 5:
			name, err := w.tensor(f.size)
			if err == nil && top {
				if w.initializers == nil {
					w.initializers = map[string]bool{}
				}
				w.initializers[name] = true
			}
			return err
		case f.id == 11 && top:
			return w.valueInfo(f.size, &w.inputs)
		case f.id == 12 && top:
			return w.valueInfo(f.size, &w.outputs)
		}
		return nil
	})
}

// node reads a NodeProto: op_type = 4, attribute = 5 (AttributeProto: t = 5, g = 6, tensors = 10, graphs = 11).
func (w *walker) node(n int64) error {
	return w.fields(n, func(f field) error {
		switch f.id {
		case 4:
			op, err := w.text(f)
			if slices.Contains(companyOps, op) {
				w.companyOp = op
			}
			return err
		case 5:
			return w.fields(f.size, func(f field) error {
				switch f.id {
				case 5, 10:
					_, err := w.tensor(f.size)
					return err
				case 6, 11:
					return w.graphProto(f.size, false)
				}
				return nil
			})
		}
		return nil
	})
}

// tensor reads a TensorProto's name = 8 and external_data = 13 (key = 1, value = 2), and skips its numbers.
func (w *walker) tensor(n int64) (name string, err error) {
	err = w.fields(n, func(f field) error {
		switch f.id {
		case 8:
			name, err = w.text(f)
			return err
		case 13:
			var key, val string
			err := w.fields(f.size, func(f field) error {
				var err error
				switch f.id {
				case 1:
					key, err = w.text(f)
				case 2:
					val, err = w.text(f)
				}
				return err
			})
			if key == "location" {
				w.external = append(w.external, val)
			}
			return err
		}
		return nil
	})
	return name, err
}

// valueInfo reads a ValueInfoProto: name = 1, type = 2 (tensor_type = 1: elem_type = 1, shape = 2: dim = 1: dim_value = 1).
func (w *walker) valueInfo(n int64, to *[]value) error {
	v := value{}
	dim := func(f field) error {
		if f.id != 1 {
			return nil
		}
		if len(v.dims) == 16 {
			return fmt.Errorf("%w: %s has more than 16 dimensions", errNotONNX, v.name)
		}
		size := int64(-1)
		err := w.fields(f.size, func(f field) error {
			if f.id == 1 {
				size = int64(f.number)
			}
			return nil
		})
		v.dims = append(v.dims, size)
		return err
	}
	tensorType := func(f field) error {
		switch f.id {
		case 1:
			v.elem = int(f.number)
		case 2:
			v.dims = []int64{}
			return w.fields(f.size, dim)
		}
		return nil
	}
	err := w.fields(n, func(f field) error {
		var err error
		switch f.id {
		case 1:
			v.name, err = w.text(f)
		case 2:
			err = w.fields(f.size, func(f field) error {
				if f.id == 1 {
					return w.fields(f.size, tensorType)
				}
				return nil
			})
		}
		return err
	})
	*to = append(*to, v)
	return err
}
