// Package embed turns text and pictures into vectors.
//
// [Embedder] is the one interface; what wraps an embedder is an embedder again. Package onnx has the embedders that run
// models in this process, package tokenizer the tokenizers that they use.
package embed
