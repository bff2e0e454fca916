// Package peers compares package onnx with hugot, on the same model and texts, in one run:
//
//	cd embed/onnx/testdata/peers && REQUIRE_SERVICES=1 go test -bench .
//
// It is a module of its own, so that nobody who uses tidemark downloads the other.
package peers

import (
	"fmt"
	"slices"
	"syscall"
)

// Figures are texts a second of processor time, in batches of 32 in the order of arrival and one by one, the first eight only, and what came
// out in batches.
type Figures struct {
	Batches, Alone float64
	Vectors        [][]float32
}

// Measure embeds texts both ways.
func Measure(texts []string, embed func(batch []string) ([][]float32, error)) (Figures, error) {
	var f Figures
	var err error
	if f.Batches, f.Vectors, err = speed(texts, 32, embed); err != nil {
		return f, err
	}
	f.Alone, _, err = speed(texts[:min(len(texts), 8)], 1, embed)
	return f, err
}

// measured is how many seconds of processor time a figure is taken over, at least, after a first round that warms up.
const measured = 0.7

func speed(texts []string, size int, embed func([]string) ([][]float32, error)) (float64, [][]float32, error) {
	var vectors [][]float32
	round := func() error {
		vectors = vectors[:0]
		for batch := range slices.Chunk(texts, size) {
			made, err := embed(batch)
			if err != nil {
				return err
			}
			vectors = append(vectors, made...)
		}
		return nil
	}
	if err := round(); err != nil {
		return 0, nil, err
	}
	began, err := processorTime()
	for rounds := 1; err == nil; rounds++ {
		var now float64
		if err = round(); err == nil {
			now, err = processorTime()
		}
		if err == nil && now-began >= measured {
			return float64(rounds*len(texts)) / (now - began), vectors, nil
		}
	}
	return 0, nil, err
}

// processorTime is what this process has used, in seconds.
func processorTime() (float64, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9, nil
}
