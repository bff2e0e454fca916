package tokenizer

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"
)

// ErrInvalid is wrapped by the error of a file that is no tokenizer.json.
var ErrInvalid = errors.New("invalid tokenizer.json")

// ErrUnsupported is wrapped by the error of a tokenizer.json that asks for something that this package has not.
var ErrUnsupported = errors.New("unsupported part of tokenizer.json")

// ErrNoUnknownToken is wrapped by the error of a text with a word that the model cannot spell, where the vocabulary lacks the
// token for unknown words.
var ErrNoUnknownToken = errors.New("tokenizer: the unknown token is not in the vocabulary")

// maxFile bounds the bytes of a tokenizer.json; the largest in use have some 35 MB.
const maxFile = 256 << 20

// Tokenizer turns text into token ids. It is safe for concurrent use.
type Tokenizer struct {
	raw, normalized addedTokens
	normalizer      normalizer   // nil: none
	preTokenizer    preTokenizer // nil: none, a text is one word
	model           model
	single          template
	scratch         sync.Pool // of *scratch
}

// Encoding is the tokens of a text. The three slices have the same length.
type Encoding struct {
	IDs []int32
	// TypeIDs tell the parts of the model's input apart; they are those of the post-processor, mostly 0.
	TypeIDs []int32
	// Offsets are the bytes of the text, from the first to before the second, that each token stands for. Special tokens that
	// the post-processor adds have {0, 0}. Tokens may share bytes, where one character became several.
	Offsets [][2]int
}

func (e *Encoding) add(id, start, end int32) {
	e.IDs = append(e.IDs, id)
	e.Offsets = append(e.Offsets, [2]int{int(start), int(end)})
}

// cut drops the tokens from the n-th on, of those without type ids.
func (e *Encoding) cut(n int) { e.IDs, e.Offsets = e.IDs[:n], e.Offsets[:n] }

// scratch has the buffers of one call.
type scratch struct {
	out            Encoding
	raw            []char
	parts, matches []match
	text           text
	words          words
}

// Load reads a Hugging Face tokenizer.json of at most 256 MiB. Any part of it that is not implemented is an error naming the
// part, which wraps [ErrUnsupported]; a file that is none wraps [ErrInvalid].
func Load(path string) (*Tokenizer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", path, err)
	}
	return t, nil
}

// Encode returns the tokens of text, all of them, with the special tokens. Its one error is [ErrNoUnknownToken], but for a
// text above 2 GiB.
func (t *Tokenizer) Encode(text string) (Encoding, error) {
	return t.AppendEncode(Encoding{}, text, 0)
}

// AppendEncode appends the tokens of text to dst, at most limit of them where limit is above 0: the special tokens are always
// there, and the text's own are cut on the right. With room in dst it allocates nothing. A limit that does not hold the
// special tokens is an error. After an error dst is as it was.
func (t *Tokenizer) AppendEncode(dst Encoding, text string, limit int) (Encoding, error) {
	if len(text) > math.MaxInt32 {
		return dst, fmt.Errorf("tokenizer: the text has %d bytes, more than 2 GiB", len(text))
	}
	room := math.MaxInt
	if limit > 0 {
		if room = limit - t.single.specials(); room < 0 {
			return dst, fmt.Errorf("tokenizer: the limit of %d tokens does not hold the %d special tokens", limit, limit-room)
		}
	}
	s := t.scratch.Get().(*scratch)
	s.out = dst
	err := t.appendEncode(text, room, s)
	if err == nil {
		dst = s.out
	}
	s.out = Encoding{} // it is the caller's
	t.scratch.Put(s)
	return dst, err
}

func (t *Tokenizer) appendEncode(text string, room int, s *scratch) error {
	out := &s.out
	for _, part := range t.single {
		if part.sequence {
			if err := t.sequence(out, text, room, s); err != nil {
				return err
			}
		}
		for _, id := range part.special {
			out.add(id, 0, 0)
		}
		for len(out.TypeIDs) < len(out.IDs) {
			out.TypeIDs = append(out.TypeIDs, part.typeID)
		}
	}
	return nil
}

// sequence appends the tokens of text without special tokens, at most room.
func (t *Tokenizer) sequence(dst *Encoding, text string, room int, s *scratch) error {
	room += min(len(dst.IDs), math.MaxInt-room) // now what dst may hold
	s.raw = decodeText(s.raw[:0], text)
	s.parts = t.raw.find(s.parts[:0], s.raw)
	for _, part := range s.parts {
		chars := s.raw[part.from:part.to]
		if part.id != none {
			dst.add(part.id, chars[0].start, chars[len(chars)-1].end)
		} else if err := t.piece(dst, chars, room, s); err != nil {
			return err
		}
		if len(dst.IDs) >= room {
			dst.cut(room)
			return nil
		}
	}
	return nil
}

// piece appends the tokens of a piece of text between added tokens, until dst has room or a few more.
func (t *Tokenizer) piece(dst *Encoding, chars []char, room int, s *scratch) error {
	s.text.chars = append(s.text.chars[:0], chars...)
	if t.normalizer != nil {
		t.normalizer.normalize(&s.text)
	}
	s.matches = t.normalized.find(s.matches[:0], s.text.chars)
	s.words.chars = s.text.chars
	for _, m := range s.matches {
		if m.from == m.to {
			continue
		}
		if m.id != none {
			dst.add(m.id, s.text.chars[m.from].start, s.text.chars[m.to-1].end)
			continue
		}
		s.words.spans = append(s.words.spans[:0], m.span)
		if t.preTokenizer != nil {
			t.preTokenizer.split(&s.words)
		}
		for _, w := range s.words.spans {
			if len(dst.IDs) >= room {
				return nil
			}
			if err := t.model.encode(dst, s.text.chars[w.from:w.to]); err != nil {
				return err
			}
		}
	}
	return nil
}

// ID returns the id of a token, such as "[PAD]": an added token's, or the model's.
func (t *Tokenizer) ID(token string) (id int32, ok bool) {
	for _, a := range slices.Concat(t.raw.tokens, t.normalized.tokens) {
		if a.content == token {
			return a.id, true
		}
	}
	id = t.model.id([]rune(token))
	return id, id != none
}
