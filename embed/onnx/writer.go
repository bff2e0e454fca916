package onnx

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protowire"
)

// graphWriter writes an ONNX model, node by node, in protobuf's wire format; the field numbers are those of onnx.proto (ONNX IR).
type graphWriter struct {
	graph []byte // the fields of a GraphProto
	names int
}

// Versions of what is written: Gelu came with operator set 20.
const (
	irVersion = 9
	opset     = 20
)

// microsoft is the domain of ONNX Runtime's own operators.
const microsoft = "com.microsoft"

// attribute is a named parameter of a node: an int64, a float32, a string or a []int64.
type attribute struct {
	name  string
	value any
}

func appendBytes(b []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), value)
}

func appendText(b []byte, field protowire.Number, s string) []byte {
	return appendBytes(b, field, []byte(s))
}

func appendNumber(b []byte, field protowire.Number, n int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(n))
}

// append appends an AttributeProto: name = 1, f = 2, i = 3, s = 4, ints = 8, type = 20.
func (a attribute) append(b []byte) []byte {
	m := appendText(nil, 1, a.name)
	switch v := a.value.(type) {
	case float32:
		m = protowire.AppendFixed32(protowire.AppendTag(m, 2, protowire.Fixed32Type), math.Float32bits(v))
		m = appendNumber(m, 20, 1)
	case int64:
		m = appendNumber(appendNumber(m, 3, v), 20, 2)
	case string:
		m = appendNumber(appendText(m, 4, v), 20, 3)
	case []int64:
		for _, n := range v {
			m = appendNumber(m, 8, n)
		}
		m = appendNumber(m, 20, 7)
	}
	return appendBytes(b, 5, m)
}

// node adds a node of a standard operator with one output, and returns the output's name. An input "" is one that is left out.
func (g *graphWriter) node(op string, inputs []string, attributes ...attribute) string {
	return g.nodes(op, "", 1, inputs, attributes...)[0]
}

// nodes is node with so many outputs, for an operator of a domain.
func (g *graphWriter) nodes(op, domain string, outputs int, inputs []string, attributes ...attribute) []string {
	names := make([]string, outputs)
	for i := range names {
		names[i] = g.name(op)
	}
	g.named(op, domain, names, inputs, attributes...)
	return names
}

// named adds a NodeProto: input = 1, output = 2, op_type = 4, attribute = 5, domain = 7.
func (g *graphWriter) named(op, domain string, outputs, inputs []string, attributes ...attribute) {
	var m []byte
	for _, in := range inputs {
		m = appendText(m, 1, in)
	}
	for _, out := range outputs {
		m = appendText(m, 2, out)
	}
	m = appendText(m, 4, op)
	for _, a := range attributes {
		m = a.append(m)
	}
	if domain != "" {
		m = appendText(m, 7, domain)
	}
	g.graph = appendBytes(g.graph, 1, m)
}

func (g *graphWriter) name(of string) string {
	g.names++
	return fmt.Sprintf("%s_%d", of, g.names)
}

// external adds an initializer whose numbers lie in a file, by its path from the folder that ONNX Runtime is told. TensorProto: dims = 1, data_type = 2, name = 8,
// external_data = 13 (key = 1, value = 2), data_location = 14.
func (g *graphWriter) external(name, path string, t tensor) string {
	m := tensorHead(name, t.elem, t.shape)
	for _, entry := range [][2]string{
		{"location", filepath.ToSlash(path)}, {"offset", fmt.Sprint(t.from)}, {"length", fmt.Sprint(t.size)},
	} {
		m = appendBytes(m, 13, appendText(appendText(nil, 1, entry[0]), 2, entry[1]))
	}
	g.graph = appendBytes(g.graph, 5, appendNumber(m, 14, 1))
	return name
}

// initializer adds one with its numbers in raw_data = 9, little-endian.
func (g *graphWriter) initializer(of string, elem int, raw []byte, shape ...int64) string {
	name := g.name(of)
	g.graph = appendBytes(g.graph, 5, appendBytes(tensorHead(name, elem, shape), 9, raw))
	return name
}

func (g *graphWriter) floats(of string, values []float32, shape ...int64) string {
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return g.initializer(of, elemFloat32, raw, shape...)
}

// ints adds a vector of int64.
func (g *graphWriter) ints(of string, values ...int64) string {
	raw := make([]byte, 0, 8*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	return g.initializer(of, elemInt64, raw, int64(len(values)))
}

// scalar adds an int64 without dimensions.
func (g *graphWriter) scalar(n int64) string {
	return g.initializer("number", elemInt64, binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

func tensorHead(name string, elem int, shape []int64) []byte {
	var m []byte
	for _, d := range shape {
		m = appendNumber(m, 1, d)
	}
	return appendText(appendNumber(m, 2, int64(elem)), 8, name)
}

// value adds an input (field 11) or output (12) of the graph; a dimension of -1 is left open.
func (g *graphWriter) value(field protowire.Number, v value) {
	var shape []byte
	for _, d := range v.dims {
		var dim []byte
		if d >= 0 {
			dim = appendNumber(nil, 1, d)
		}
		shape = appendBytes(shape, 1, dim)
	}
	tensorType := appendBytes(appendNumber(nil, 1, int64(v.elem)), 2, shape)
	g.graph = appendBytes(g.graph, field, appendBytes(appendText(nil, 1, v.name), 2, appendBytes(nil, 1, tensorType)))
}

// model returns the ModelProto: ir_version = 1, producer_name = 2, graph = 7 (its name = 2), opset_import = 8 (domain = 1, version = 2).
func (g *graphWriter) model() []byte {
	m := appendText(appendNumber(nil, 1, irVersion), 2, "tidemark")
	m = appendBytes(m, 7, appendText(g.graph, 2, "encoder"))
	m = appendBytes(m, 8, appendNumber(nil, 2, opset))
	return appendBytes(m, 8, appendNumber(appendText(nil, 1, microsoft), 2, 1))
}
