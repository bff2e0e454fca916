// Package embed turns text and pictures into vectors.
//
// [Embedder] is the one interface: inputs in, one vector each out, in order. What wraps an embedder is an embedder again.
// [Model] says which vectors an embedder makes; two vectors may be compared only when their models' fingerprints are equal.
//
// An Embed call has three outcomes. Every input was embedded: the error is nil. Some were: the error is a [BatchError], or any
// other with a method ItemErrors() []error, and says which were not and why, so that one bad input costs its neighbours
// nothing. None was: any other error. Whoever writes an Embedder collects one error an input and ends with
// [NewBatchError]; whoever calls one asks by errors.As for the methods and never for a type:
//
//	vectors, err := e.Embed(ctx, texts)
//	var items interface{ ItemErrors() []error }
//	switch {
//	case err == nil: // vectors[i] belongs to texts[i]
//	case errors.As(err, &items) && len(items.ItemErrors()) == len(texts): // texts[i] failed where ItemErrors()[i] is not nil
//	default: // all failed
//	}
//
// Package onnx has the embedders that run models in this process, package tokenizer the tokenizers that they use, and
// package embedtest deterministic embedders with faults on demand, for tests of an application.
package embed
