// Package tokenizer turns text into the token ids of a model, from the model's own Hugging Face tokenizer.json, in pure Go.
//
//	t, err := tokenizer.Load("all-MiniLM-L6-v2/tokenizer.json")
//	enc, err := t.Encode("a café in Zürich") // enc.IDs: [CLS], four words or so, [SEP]
//
// # The same ids as the original
//
// The ids are those of Hugging Face's tokenizers library for the same file and text: an embedding model answers other vectors
// for other ids, without any error. So everything is as there, the odd parts too: the Unicode tables are the library's own
// (of several Unicode versions, none of them Go's; see tables.txt), words longer than max_input_chars_per_word are unknown,
// an added token gets the id that the library gives it, whatever id stands beside it in the file.
//
// What a file asks for and this package has not is an error of [Load] that names the part, [ErrUnsupported]. It has
//
//   - normalizers: BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, Sequence,
//     Strip, StripAccents;
//   - pre-tokenizers: BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, Punctuation, Sequence,
//     Split, UnicodeScripts, Whitespace, WhitespaceSplit;
//   - models: WordPiece (BERT and its family), BPE (RoBERTa, GPT-2, Llama, Qwen, CLIP), Unigram (XLM-R, T5, multilingual E5),
//     WordLevel;
//   - post-processors: BertProcessing, ByteLevel, RobertaProcessing, Sequence, TemplateProcessing;
//   - added tokens with all their flags.
//
// Regular expressions of Replace and Split are read as the original's library, Oniguruma, reads them, and matched in linear time. They
// have groups, atomic ones too, greedy, lazy and possessive repetitions, classes with their intersections, general categories,
// scripts, looking ahead, and behind for single characters, and (?i) by Unicode's full case folding, in which ß is ss: all that the
// tokenizers of GPT-4o, Llama 3, Qwen, DeepSeek, Kimi and Mistral ask for. Back references are an error, as is what else there is.
//
// Where a BPE model has no token for a character and none for unknown ones, the character vanishes, and the offsets behind it are right
// here and not in the original. Offsets are in bytes; the original's are in characters for Python.
//
// Decoders are checked by name and not used: nothing here turns ids into text. Padding and truncation of the file are
// ignored, since a file often brings those of one export (all-MiniLM-L6-v2 pads to 128 and cuts at 128, where the model takes
// 256): the caller's limits count, see [Tokenizer.AppendEncode], [Tokenizer.CutLeft]
// and, for pairs of texts, [Tokenizer.CutFirst] and [Tokenizer.CutSecond].
//
// # How a text goes through
//
// Bytes that are not UTF-8 become U+FFFD, one for each maximal part of a broken sequence, as Python's
// bytes.decode(errors="replace") and Rust's from_utf8_lossy do. Added tokens that are not normalized are cut out of the text;
// what lies between is normalized, searched for the other added tokens, split into words by the pre-tokenizer and given to
// the model; the post-processor puts the special tokens around. [Tokenizer.AppendEncodePair] does so with two texts. Every
// character keeps the range of bytes of the text that it came from, so that the offsets of a token point into the text as it was
// given.
//
// The time is linear in the text, and what Encode allocates are its results; a text takes up to 50 times its bytes of memory
// while it is encoded. A [Tokenizer] never changes and is safe for concurrent use; there are no locks.
package tokenizer
