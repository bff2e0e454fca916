// Package peers compares package onnx with hugot, on the same model and texts, in one run:
//
//	cd embed/onnx/testdata/peers && REQUIRE_SERVICES=1 go test -bench .
//
// It is a module of its own, so that nobody who uses tidemark downloads the other.
package peers

import (
	"fmt"
	"slices"

	"github.com/tidemark-go/tidemark/embed/onnx/internal/speed"
)

// Figures are what was reached by each way of embedding: batches of 32 in the order of arrival from two callers, and callers=1, 8 and 64,
// who each embed one text after the other. Vectors are of all texts, in batches.
type Figures struct {
	Ways    map[string]speed.Figures
	Vectors [][]float32
}

// Measure embeds texts all ways, with no more callers than given.
func Measure(texts []string, callers int, embed func(batch []string) ([][]float32, error)) (Figures, error) {
	f := Figures{Ways: map[string]speed.Figures{}}
	batches, alone := slices.Collect(slices.Chunk(texts, 32)), slices.Collect(slices.Chunk(texts, 1))
	for _, batch := range batches {
		made, err := embed(batch)
		if err != nil {
			return f, err
		}
		f.Vectors = append(f.Vectors, made...)
	}
	each := func(batch []string) error {
		_, err := embed(batch)
		return err
	}
	var err error
	if f.Ways["batches"], err = speed.Measure(min(callers, 2), batches, each); err != nil {
		return f, err
	}
	for _, n := range []int{1, 8, 64} {
		if n > callers {
			break
		}
		if f.Ways[fmt.Sprint("callers=", n)], err = speed.Measure(n, alone, each); err != nil {
			return f, err
		}
	}
	return f, nil
}
