package onnx

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"
)

// Precision is how exact the numbers are that a graph computes with.
type Precision int

const (
	// FP32 computes with 32-bit floating point numbers: the vectors of the original.
	FP32 Precision = iota
	// Int8 holds the matrices of a graph that is built from model.safetensors in 8 bits a number and multiplies integers: the vectors
	// point almost where those of FP32 do (the package doc has figures), and have another fingerprint.
	Int8
)

// String is "fp32" or "int8".
func (p Precision) String() string {
	switch p {
	case FP32:
		return "fp32"
	case Int8:
		return "int8"
	}
	return fmt.Sprintf("Precision(%d)", int(p))
}

// exactShare is which part of what a matrix is multiplied with stays in 32 bits: one number of so many.
const exactShare = 48

// quantizedLinear is linear with matrices of 8 bits, a scale for each of their rows. What is multiplied with them is rounded to 8 bits too,
// between the least and the most that a token has, so that no text's numbers depend on its neighbours; the products are added up as
// integers, without rounding.
//
// A few components are much larger than all others, and would leave those few of the 256 steps. They are found by their weights, and
// multiplied as they are (as in LLM.int8, arXiv:2208.07339, where they are found by their size). The product that does so also adds the
// biases, and what the lowest code stands for.
func (e *encoder) quantizedLinear(x string, in, out int64, scale float32, names []string) string {
	rows := out * int64(len(names))
	var matrix, bias []float32
	for i, name := range names {
		m, b := e.numbers(name+".weight", out, in), e.numbers(name+".bias", out)
		if e.err != nil {
			return ""
		}
		if i == 0 {
			multiply(m, scale)
			multiply(b, scale)
		}
		matrix, bias = append(matrix, m...), append(bias, b...)
	}
	loud := e.loud // of the components of a token
	if len(names) == 1 && !strings.HasSuffix(names[0], e.names.widen) {
		loud = loudest(columnNorms(matrix, int(in)))
	}
	codes, steps, exact := quantize(matrix, int(in), loud)

	// A token of which all is the same has steps of 0: its codes are any, and count for nothing.
	rest := e.node("Mul", []string{x, e.floats("rest", others(int(in), loud), in)})
	components := e.ints("components", -1)
	least := e.node("ReduceMin", []string{rest, components})
	width := e.node("Sub", []string{e.node("ReduceMax", []string{rest, components}), least})
	step := e.node("Mul", []string{width, e.floats("codes", []float32{1.0 / 255})})
	above := e.node("Sub", []string{rest, least})
	coded := e.node("QuantizeLinear", []string{above, e.node("Squeeze", []string{step, e.ints("column", 1)})}, attribute{"axis", int64(0)})
	elem, middle := elemInt8, byte(0)
	if !e.signed {
		elem, middle = elemUint8, 128
		for i := range codes {
			codes[i] += middle
		}
	}
	product := e.nodes("MatMulIntegerToFloat", microsoft, 1, []string{
		coded, e.initializer("weights", elem, codes, in, rows), e.floats("one", []float32{1}), e.floats("steps", steps, rows),
		"", e.initializer("middle", elem, []byte{middle}),
	})[0]
	few := e.node("Concat", []string{
		e.node("Gather", []string{x, e.ints("loud", loud...)}, attribute{"axis", int64(1)}), least, e.one,
	}, attribute{"axis", int64(1)})
	product = e.node("Mul", []string{product, step})
	return e.node("Gemm", []string{few, e.floats("exact", append(exact, bias...), int64(len(loud)+2), rows), product})
}

// signedWeights says which kind of 8-bit weights this processor multiplies faster without overflow: x86 without VNNI adds products of
// unsigned and signed numbers up in 16 bits, and cuts them off. The integers, and with them the vectors, are the same.
func signedWeights() bool {
	return runtime.GOARCH != "amd64" || cpu.X86.HasAVX512VNNI || cpu.X86.HasAVXVNNI
}

func multiply(values []float32, by float32) {
	for i := range values {
		values[i] *= by
	}
}

// numbers reads a weight of the file.
func (e *encoder) numbers(name string, shape ...int64) []float32 {
	t := e.find(name, shape...)
	if e.err != nil {
		return nil
	}
	numbers, err := t.floats()
	if err != nil {
		e.err = fmt.Errorf("%w: %w", ErrModel, err)
	}
	return numbers
}

// quantize rounds the rows of a matrix, but for the components that are loud: a number is its code times the row's step. The codes are
// turned: a column for each row. So is exact, which has the loud components, and below them what the codes of a row add up to.
func quantize(matrix []float32, row int, loud []int64) (codes []byte, steps, exact []float32) {
	rows := len(matrix) / row
	codes, steps, exact = make([]byte, len(matrix)), make([]float32, rows), make([]float32, (len(loud)+1)*rows)
	for n := range rows {
		numbers := matrix[n*row:][:row]
		for i, k := range loud {
			exact[i*rows+n] = numbers[k]
			numbers[k] = 0
		}
		var most float32
		for _, x := range numbers {
			most = max(most, x, -x)
		}
		if most == 0 {
			continue
		}
		steps[n] = most / 127
		var sum float32
		for k, x := range numbers {
			code := math.RoundToEven(float64(x / steps[n]))
			codes[k*rows+n] = byte(int8(code))
			sum += float32(code)
		}
		exact[len(loud)*rows+n] = sum * steps[n]
	}
	return codes, steps, exact
}

// loudest returns the places of the largest numbers, in order: one of exactShare.
func loudest(sizes []float32) []int64 {
	places := make([]int64, len(sizes))
	for i := range places {
		places[i] = int64(i)
	}
	slices.SortStableFunc(places, func(a, b int64) int { return cmp.Compare(sizes[b], sizes[a]) })
	places = places[:max(1, len(places)/exactShare)]
	slices.Sort(places)
	return places
}

// others is 0 at the places given, and 1 at all others.
func others(n int, places []int64) []float32 {
	mask := slices.Repeat([]float32{1}, n)
	for _, i := range places {
		mask[i] = 0
	}
	return mask
}

// columnNorms returns the squares of the lengths of a matrix's columns.
func columnNorms(matrix []float32, row int) []float32 {
	norms := make([]float32, row)
	for i, x := range matrix {
		norms[i%row] += x * x
	}
	return norms
}

// loudComponents are those of a token's vector that some layer writes to with the largest weights.
func (e *encoder) loudComponents() []int64 {
	sizes := make([]float32, e.size)
	for i := range e.config.Layers {
		name := fmt.Sprintf(e.names.layer, i) + e.names.narrow + ".weight"
		matrix := e.numbers(name, e.size, -1)
		if e.err != nil {
			return nil
		}
		row := len(matrix) / len(sizes)
		for n := range sizes {
			var square float32
			for _, x := range matrix[n*row:][:row] {
				square += x * x
			}
			sizes[n] = max(sizes[n], square)
		}
	}
	return loudest(sizes)
}

// filled is a tensor of ones.
func (e *encoder) filled(shape ...string) string {
	return e.node("Expand", []string{e.floats("one", []float32{1}, 1), e.node("Concat", shape, attribute{"axis", int64(0)})})
}
