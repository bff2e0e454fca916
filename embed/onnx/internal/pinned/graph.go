package pinned

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers below are those of onnx.proto (ONNX IR).

// part is one field of a protobuf message: all of it, and its content where it is length-delimited.
type part struct {
	number       protowire.Number
	whole, value []byte
	varint       uint64
}

// split cuts a message into its fields.
func split(message []byte) ([]part, error) {
	var parts []part
	for rest := message; len(rest) > 0; {
		number, kind, head := protowire.ConsumeTag(rest)
		if head < 0 {
			return nil, protowire.ParseError(head)
		}
		n := protowire.ConsumeFieldValue(number, kind, rest[head:])
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		p := part{number: number, whole: rest[:head+n]}
		switch kind {
		case protowire.BytesType:
			p.value, _ = protowire.ConsumeBytes(rest[head:])
		case protowire.VarintType:
			p.varint, _ = protowire.ConsumeVarint(rest[head:])
		}
		parts = append(parts, p)
		rest = rest[head+n:]
	}
	return parts, nil
}

// splitModel answers a ModelProto's graph = 7, and what stands before and after it.
func splitModel(model []byte) (before, graph, after []byte, err error) {
	parts, err := split(model)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, p := range parts {
		switch {
		case p.number == 7 && graph == nil:
			graph = p.value
		case graph == nil:
			before = append(before, p.whole...)
		default:
			after = append(after, p.whole...)
		}
	}
	if graph == nil {
		return nil, nil, nil, errors.New("not an ONNX model")
	}
	return before, graph, after, nil
}

// node is what restoring asks of a NodeProto: input = 1, output = 2, op_type = 4.
type node struct {
	op             string
	inputs, output []string
}

func readNode(message []byte) (node, error) {
	parts, err := split(message)
	n := node{}
	for _, p := range parts {
		switch p.number {
		case 1:
			n.inputs = append(n.inputs, string(p.value))
		case 2:
			n.output = append(n.output, string(p.value))
		case 4:
			n.op = string(p.value)
		}
	}
	return n, err
}

// tensor is what restoring asks of a TensorProto: dims = 1, data_type = 2, name = 8, raw_data = 9.
type tensor struct {
	name string
	elem uint64
	dims []int
	raw  []byte
}

const (
	elemFloat32 = 1
	elemInt8    = 3
)

func readTensor(message []byte) (tensor, error) {
	parts, err := split(message)
	t := tensor{}
	for _, p := range parts {
		switch p.number {
		case 1:
			if p.value == nil {
				t.dims = append(t.dims, int(p.varint))
			}
			for rest := p.value; len(rest) > 0; { // packed
				v, n := protowire.ConsumeVarint(rest)
				if n < 0 {
					return t, protowire.ParseError(n)
				}
				t.dims, rest = append(t.dims, int(v)), rest[n:]
			}
		case 2:
			t.elem = p.varint
		case 8:
			t.name = string(p.value)
		case 9:
			t.raw = p.value
		}
	}
	return t, err
}

// restoreGraph answers a GraphProto (node = 1, initializer = 5) in parts, with Mul(Cast(int8), scale) replaced by fp32 initializers.
func restoreGraph(graph []byte, weights []matrix) ([][]byte, error) {
	parts, err := split(graph)
	if err != nil {
		return nil, err
	}
	tensors, err := readTensors(parts)
	if err != nil {
		return nil, err
	}
	casts := map[string]string{} // output of a Cast: the int8 tensor
	gone := map[string]bool{}    // tensors that nothing asks for any more
	var kept, restored [][]byte
	for _, p := range parts {
		if p.number != 1 {
			continue
		}
		n, err := readNode(p.value)
		if err != nil {
			return nil, err
		}
		switch {
		case n.op == "Cast" && len(n.inputs) == 1 && len(n.output) == 1 && tensors[n.inputs[0]].elem == elemInt8:
			casts[n.output[0]] = n.inputs[0]
		case n.op == "Mul" && len(n.inputs) == 2 && len(n.output) == 1 && casts[n.inputs[0]] != "":
			q, scale := tensors[casts[n.inputs[0]]], tensors[n.inputs[1]]
			field, err := restoreTensor(n.output[0], q, scale, weights)
			if err != nil {
				return nil, err
			}
			restored = append(restored, field...)
			gone[q.name], gone[scale.name] = true, true
		default:
			kept = append(kept, p.whole)
		}
	}
	if len(restored) == 0 {
		return nil, errors.New("no int8 weights")
	}
	for _, p := range parts {
		if p.number != 1 && (p.number != 5 || !gone[tensorName(p.value)]) {
			kept = append(kept, p.whole)
		}
	}
	return append(kept, restored...), nil
}

// readTensors answers a graph's initializers by name.
func readTensors(parts []part) (map[string]tensor, error) {
	tensors := map[string]tensor{}
	for _, p := range parts {
		if p.number == 5 {
			t, err := readTensor(p.value)
			if err != nil {
				return nil, err
			}
			tensors[t.name] = t
		}
	}
	return tensors, nil
}

// tensorName is the name of an initializer that readTensors has read.
func tensorName(message []byte) string {
	t, _ := readTensor(message)
	return t.name
}

// restoreTensor answers the field of a GraphProto that defines name as an fp32 tensor.
func restoreTensor(name string, q, scale tensor, weights []matrix) ([][]byte, error) {
	if len(q.dims) != 2 || len(scale.dims) != 2 || scale.elem != elemFloat32 {
		return nil, fmt.Errorf("weight %s: shape %v, scale %v", name, q.dims, scale.dims)
	}
	r := rounded{q: q.raw, scale: scale.raw, rows: q.dims[0], cols: q.dims[1], perRow: scale.dims[1] == 1}
	steps := r.cols
	if r.perRow {
		steps = r.rows
	}
	if r.rows < 1 || r.cols < 1 || len(r.q)/r.rows != r.cols || len(r.scale) != 4*steps {
		return nil, fmt.Errorf("weight %s: shape %v, scale %v, but %d and %d bytes", name, q.dims, scale.dims, len(r.q), len(r.scale))
	}
	data, ok := r.original(weights)
	if !ok {
		return nil, fmt.Errorf("weight %s: none of the fp32 weights is what its int8 ones were rounded from", name)
	}
	var t []byte
	for _, d := range q.dims {
		t = protowire.AppendTag(t, 1, protowire.VarintType)
		t = protowire.AppendVarint(t, uint64(d))
	}
	t = protowire.AppendTag(t, 2, protowire.VarintType)
	t = protowire.AppendVarint(t, elemFloat32)
	t = protowire.AppendTag(t, 8, protowire.BytesType)
	t = protowire.AppendString(t, name)
	t = protowire.AppendTag(t, 9, protowire.BytesType)
	t = protowire.AppendVarint(t, uint64(len(data)))
	field := protowire.AppendTag(nil, 5, protowire.BytesType)
	field = protowire.AppendVarint(field, uint64(len(t)+len(data)))
	return [][]byte{append(field, t...), data}, nil
}
