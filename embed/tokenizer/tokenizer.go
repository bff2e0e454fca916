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
var ErrInvalid = errors.New("tokenizer: invalid")

// ErrUnsupported is wrapped by the error of a tokenizer.json that asks for something that this package has not.
var ErrUnsupported = errors.New("tokenizer: unsupported")

// ErrNoUnknownToken is wrapped by the error of a text with a word that the model cannot spell, where the vocabulary lacks the
// token for unknown words.
var ErrNoUnknownToken = errors.New("tokenizer: the unknown token is not in the vocabulary")

// ErrTextTooLarge is wrapped by the error of a text of 2 GiB or more, and of one that the normalizers of a strange file would
// make more than 64 times as long.
var ErrTextTooLarge = errors.New("tokenizer: the text is too large")

// encodeError is the error of a text, which fails in the same way when it is tried again.
type encodeError struct{ err error }

func (e *encodeError) Error() string   { return e.err.Error() }
func (e *encodeError) Unwrap() error   { return e.err }
func (e *encodeError) Permanent() bool { return true }

// maxFile bounds the bytes of a tokenizer.json; the largest in use have some 35 MB.
const maxFile = 256 << 20

// Tokenizer turns text into token ids. It is safe for concurrent use.
type Tokenizer struct {
	raw, normalized addedTokens
	normalizer      normalizer   // nil: none
	preTokenizer    preTokenizer // nil: none, a text is one word
	model           model
	single          template
	trim            trimming
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
	first          int // how many tokens stand before those of the text
}

// Load reads a Hugging Face tokenizer.json of at most 256 MiB. Any part of it that the package doc does not list is an error naming the
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
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Encode returns the tokens of text, all of them, with the special tokens. Its errors are [ErrNoUnknownToken] and
// [ErrTextTooLarge], neither of which a usual file and text have. They have a method Permanent() bool that answers true.
func (t *Tokenizer) Encode(text string) (Encoding, error) {
	n := len(text)/4 + 8 // English has about four bytes a token
	return t.AppendEncode(Encoding{make([]int32, 0, n), make([]int32, 0, n), make([][2]int, 0, n)}, text, 0)
}

// AppendEncode appends the tokens of text to dst, at most limit of them where limit is above 0: the special tokens are always
// there, and the text's own are cut on the right. With room in dst it allocates nothing. A limit that does not hold the
// special tokens is an error too. After an error dst is as it was.
func (t *Tokenizer) AppendEncode(dst Encoding, text string, limit int) (Encoding, error) {
	s := t.scratch.Get().(*scratch)
	s.out = dst
	err := t.encode(text, limit, s)
	if err == nil {
		dst = s.out
	} else {
		err = &encodeError{err}
	}
	s.out = Encoding{} // it is the caller's
	t.scratch.Put(s)
	return dst, err
}

// encode appends the tokens of text to s.out.
func (t *Tokenizer) encode(text string, limit int, s *scratch) error {
	if len(text) > math.MaxInt32 {
		return fmt.Errorf("%w: %d bytes", ErrTextTooLarge, len(text))
	}
	room := math.MaxInt
	if limit > 0 {
		specials, sequences := t.single.count()
		if specials > limit {
			return fmt.Errorf("tokenizer: the limit of %d tokens does not hold the %d special tokens", limit, specials)
		}
		room = (limit - specials) / sequences
	}
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
	s.first = len(dst.IDs)
	room += min(s.first, math.MaxInt-room) // now what dst may hold
	s.raw = decodeText(s.raw[:0], text)
	s.parts = t.raw.find(s.parts[:0], s.raw)
	for _, part := range s.parts {
		chars := s.raw[part.from:part.to]
		if part.id != none {
			t.trim.add(dst, part.id, chars, s.first)
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
	if !s.text.normalize(t.normalizer, chars) {
		return fmt.Errorf("%w: the normalizer makes it %d times as long", ErrTextTooLarge, maxGrowth)
	}
	s.matches = t.normalized.find(s.matches[:0], s.text.chars)
	s.words.chars = s.text.chars
	for _, m := range s.matches {
		if m.from == m.to {
			continue
		}
		if m.id != none {
			t.trim.add(dst, m.id, s.text.chars[m.from:m.to], s.first)
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
