package onnx

import (
	"fmt"
	"math"
)

// Precision is how exact the numbers are that a graph computes with.
type Precision int

const (
	// FP32 computes with 32-bit floating point numbers: the vectors of the original.
	FP32 Precision = iota
	// Int8 holds the matrices of a graph that is built from model.safetensors in 8 bits a number, a scale for each 32, and multiplies
	// integers: the vectors point almost where those of FP32 do (the package doc has figures), and have another fingerprint.
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

// quantizationBlock is how many numbers of a row share a scale.
const quantizationBlock = 32

// quantizedLinear is linear with matrices of 8 bits, by ONNX Runtime's operator MatMulNBits. Level 4 rounds what is multiplied with them
// to 8 bits too.
func (e *encoder) quantizedLinear(x string, in, out int64, scale float32, names []string) string {
	var codes []byte
	var steps, biases []float32
	for i, name := range names {
		matrix, bias := e.numbers(name+".weight", out, in), e.numbers(name+".bias", out)
		if e.err != nil {
			return ""
		}
		c, s := quantize(matrix, int(in))
		if i == 0 {
			multiply(s, scale)
			multiply(bias, scale)
		}
		codes, steps, biases = append(codes, c...), append(steps, s...), append(biases, bias...)
	}
	rows, blocks := out*int64(len(names)), (in+quantizationBlock-1)/quantizationBlock
	inputs := []string{
		x, e.initializer("codes", elemUint8, codes, rows, blocks, quantizationBlock), e.floats("steps", steps, rows*blocks), "", "",
		e.floats("biases", biases, rows),
	}
	return e.nodes("MatMulNBits", microsoft, 1, inputs, attribute{"K", in}, attribute{"N", rows}, attribute{"bits", int64(8)},
		attribute{"block_size", int64(quantizationBlock)}, attribute{"accuracy_level", int64(4)})[0]
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
	numbers, err := e.weights.floats(t)
	if err != nil {
		e.err = fmt.Errorf("%w: %w", ErrModel, err)
	}
	return numbers
}

// quantize rounds rows of so many numbers, a block at a time: a number is its code less 128, times the block's step. The last block of a
// row is filled up with zeros.
func quantize(matrix []float32, row int) (codes []byte, steps []float32) {
	for ; len(matrix) > 0; matrix = matrix[row:] {
		for from := 0; from < row; from += quantizationBlock {
			block := matrix[from:min(from+quantizationBlock, row)]
			var most float32
			for _, x := range block {
				most = max(most, x, -x)
			}
			step := most / 127
			steps = append(steps, step)
			for i := range quantizationBlock {
				code := byte(128)
				if i < len(block) && step > 0 {
					code = byte(128 + int(math.RoundToEven(float64(block[i]/step))))
				}
				codes = append(codes, code)
			}
		}
	}
	return codes, steps
}
