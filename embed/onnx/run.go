//go:build cgo

package onnx

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	ort "github.com/yalue/onnxruntime_go"
)

// embedRuns runs the graph for each of some runs, several at a time where there are slots for them, and puts their vectors into b. The
// error is the context's; all others belong to a text.
func (e *engine) embedRuns(ctx context.Context, b *batch, runs [][]input) error {
	made := make([][]madeVector, len(runs))
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(len(runs)); i = next.Add(1) - 1 {
			made[i] = e.embedRun(ctx, runs[i])
		}
	}
	var workers sync.WaitGroup
	for range min(cap(e.slots), len(runs)) - 1 {
		workers.Go(work)
	}
	work()
	workers.Wait()
	for i, run := range runs {
		if made[i] == nil {
			return fmt.Errorf("onnx: %w", ctx.Err())
		}
		for j, in := range run {
			if err := made[i][j].err; err != nil {
				b.errs[in.text] = err
			} else {
				b.parts[in.text] = append(b.parts[in.text], part{made[i][j].vector, len(in.ids)})
			}
		}
	}
	return nil
}

// madeVector is a pooled vector, or why there is none.
type madeVector struct {
	vector []float32
	err    error
}

// embedRun runs the graph for some inputs; nil: the context ended. Where a run of several fails, each is tried alone, so that one does not
// take its neighbours along.
func (e *engine) embedRun(ctx context.Context, run []input) []madeVector {
	vectors, err := e.run(ctx, run)
	made := make([]madeVector, len(run))
	switch {
	case err == nil:
		for i := range run {
			made[i].vector = vectors[i]
		}
	case ctx.Err() != nil:
		return nil
	case len(run) == 1:
		made[0].err = fmt.Errorf("onnx: run of %d tokens: %w", len(run[0].ids), err)
	default:
		for i := range run {
			alone := e.embedRun(ctx, run[i:i+1])
			if alone == nil {
				return nil
			}
			made[i] = alone[0]
		}
	}
	return made
}

// errCompany says that one of several packed texts has made all of them unusable: nothing times NaN is NaN.
var errCompany = errors.New("a vector that is not finite")

// run answers an input's vector, pooled and nothing else.
func (e *engine) run(ctx context.Context, inputs []input) ([][]float32, error) {
	var buffer []float32
	select {
	case buffer = <-e.slots:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { e.slots <- buffer }()
	start := time.Now()

	l, dims := e.signature.lay(inputs), e.folder.dimensions
	shape := append(slices.Clone(l.shape), int64(dims))
	if e.signature.pooled {
		dims = e.folder.pooled()
		shape = ort.NewShape(l.shape[0], int64(dims))
	}
	n := int(ort.Shape(shape).FlattenedSize())
	buffer = slices.Grow(buffer[:0], n)[:n]
	graph := e.session
	if len(inputs) == 1 && l.longest <= maxAlone && e.alone.DynamicAdvancedSession != nil {
		graph = e.alone
	}
	if err := e.runGraph(ctx, graph, l, buffer, shape); err != nil {
		return nil, err
	}
	vectors := make([][]float32, len(inputs))
	for i, in := range inputs {
		if e.signature.pooled {
			vectors[i] = slices.Clone(buffer[i*dims:][:dims])
		} else {
			tokens := buffer[l.starts[i]*dims:][:len(in.ids)*dims]
			vectors[i] = e.folder.pooling.pool(tokens, len(in.ids), dims, in.skip)
		}
		if e.signature.packed && len(inputs) > 1 && !finite(vectors[i]) {
			return nil, errCompany
		}
	}
	e.telemetry.ran(ctx, time.Since(start), l.places())
	return vectors, nil
}

func finite(vector []float32) bool {
	return !slices.ContainsFunc(vector, func(x float32) bool { return math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) })
}

// runGraph gives the tensors to ONNX Runtime, which writes its answer to out, and stops the run when ctx ends.
func (e *engine) runGraph(ctx context.Context, s session, l layout, out []float32, shape ort.Shape) (err error) {
	options, err := ort.NewRunOptions()
	if err != nil {
		return err
	}
	var values []ort.Value
	defer func() {
		for _, v := range values {
			err = errors.Join(err, v.Destroy())
		}
		err = errors.Join(err, options.Destroy())
	}()
	add := func(v ort.Value, err error) error {
		if err == nil {
			values = append(values, v)
		}
		return err
	}
	for _, v := range s.inputs {
		shape, data := l.tensor(v.role(), e.folder)
		if err := add(newTensor(shape, data, v.elem)); err != nil {
			return err
		}
	}
	var half []byte
	if e.signature.elem == elemFloat32 {
		err = add(ort.NewTensor(shape, out))
	} else { // the library has no type for 16 bits, and allocates no output of one
		half = make([]byte, 2*len(out))
		err = add(ort.NewCustomDataTensor(shape, half, ort.TensorElementDataType(e.signature.elem)))
	}
	if err != nil {
		return err
	}
	last := len(values) - 1

	terminated := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(terminated)
		_ = options.Terminate() // the run ends by itself where it can't be stopped
	})
	err = s.RunWithOptions(values[:last], values[last:], options)
	if !stop() {
		<-terminated // options must outlive Terminate
	}
	if err != nil {
		return oneLine(err)
	}
	if half != nil {
		decodeFloats(out[:0], half, e.signature.elem)
	}
	return nil
}

// newTensor gives numbers to ONNX Runtime as an element type, int64 or int32.
func newTensor(shape, data []int64, elem int) (ort.Value, error) {
	if elem == elemInt64 {
		return ort.NewTensor(shape, data)
	}
	narrow := make([]int32, len(data))
	for i, n := range data {
		narrow[i] = int32(n) // ids, places and marks, none of which is larger
	}
	return ort.NewTensor(shape, narrow)
}
