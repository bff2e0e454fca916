package tokenizer

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
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
	parts
	cutsLeft bool
	cutsOnly sequence  // of two texts; noSequence: the longer one first
	scratch  sync.Pool // of *scratch
}

// parts are what a file asks for.
type parts struct {
	raw, normalized addedTokens
	ids             map[string]int32 // of added tokens
	normalizer      normalizer       // nil: none
	preTokenizer    preTokenizer     // nil: none, a text is one word
	model           model
	templates       templates
	trim            trimming
}

func newTokenizer(p parts, cutsLeft bool, cutsOnly sequence) *Tokenizer {
	return &Tokenizer{parts: p, cutsLeft: cutsLeft, cutsOnly: cutsOnly, scratch: sync.Pool{New: func() any { return new(scratch) }}}
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

// scratch has the buffers of one call.
type scratch struct {
	out            output
	raw            []char
	parts, matches []match
	text           text
	words          words
	symbols        []symbol // of a word, for byte-pair encoding
	merges         []merge
	steps          []step // through a word, for unigrams
	path           []int32
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

// CutLeft returns a tokenizer like t that cuts a text that is too long on the left: its last tokens stay. Models whose
// tokenizer_config.json says "truncation_side": "left" are used so.
func (t *Tokenizer) CutLeft() *Tokenizer { return newTokenizer(t.parts, true, t.cutsOnly) }

// CutFirst returns a tokenizer like t that cuts, of two texts, the first alone: the original's only_first. Where nothing of it would be
// left, [Tokenizer.AppendEncodePair] answers an error.
func (t *Tokenizer) CutFirst() *Tokenizer { return newTokenizer(t.parts, t.cutsLeft, firstSequence) }

// CutSecond is CutFirst for the second text, which is how a passage is cut beside a question: the original's only_second.
func (t *Tokenizer) CutSecond() *Tokenizer { return newTokenizer(t.parts, t.cutsLeft, secondSequence) }

// AppendEncode appends the tokens of text to dst, at most limit of them where limit is above 0: the special tokens are always
// there, and the text's own are cut on the right, or see [Tokenizer.CutLeft]. With room in dst it allocates nothing. A limit that
// does not hold the special tokens is an error too. After an error dst is as it was.
func (t *Tokenizer) AppendEncode(dst Encoding, text string, limit int) (Encoding, error) {
	return t.append(dst, func(s *scratch) error { return t.encode(text, limit, s) })
}

// AppendEncodePair is AppendEncode for two texts that the model sees together, such as a question and a passage. Their tokens
// have the special tokens and type ids of the file's pairs. Of texts that are too long for the limit, the longer one is cut,
// and both to half of it where that is not enough: the original's longest_first. See also [Tokenizer.CutFirst].
func (t *Tokenizer) AppendEncodePair(dst Encoding, first, second string, limit int) (Encoding, error) {
	return t.append(dst, func(s *scratch) error { return t.encodePair(first, second, limit, s) })
}

// append appends to dst what encode does. After an error dst is as it was.
func (t *Tokenizer) append(dst Encoding, encode func(s *scratch) error) (Encoding, error) {
	s := t.scratch.Get().(*scratch)
	s.out = output{Encoding: dst, trim: t.trim}
	err := encode(s)
	if err == nil {
		dst = s.out.Encoding
	} else {
		err = &encodeError{err}
	}
	s.out = output{} // it is the caller's
	t.scratch.Put(s)
	return dst, err
}

// encode appends the tokens of text to s.out.
func (t *Tokenizer) encode(text string, limit int, s *scratch) error {
	single := t.templates.single
	specials, sequences := single.count(firstSequence)
	room, err := roomFor(specials, limit)
	if err != nil {
		return err
	}
	for _, part := range single {
		if part.sequence != noSequence {
			if err := t.sequence(text, room/sequences, s); err != nil {
				return err
			}
		}
		s.out.special(part)
	}
	return nil
}

// encodePair appends the tokens of two texts to s.out.
func (t *Tokenizer) encodePair(first, second string, limit int, s *scratch) error {
	pair := t.templates.pair
	specials, firsts := pair.count(firstSequence)
	_, seconds := pair.count(secondSequence)
	room, err := roomFor(specials, limit)
	if err != nil {
		return err
	}
	if firsts != 1 || seconds != 1 {
		return fmt.Errorf("%w: a template of pairs that has the first text %d times and the second %d times", ErrUnsupported, firsts, seconds)
	}
	texts := [...]string{firstSequence: first, secondSequence: second}
	keep := perSequence{firstSequence: room, secondSequence: room}
	if limit > 0 {
		var lengths perSequence
		for i, text := range texts {
			from := len(s.out.IDs)
			if err := t.tokens(text, math.MaxInt, s); err != nil {
				return err
			}
			lengths[i] = len(s.out.IDs) - from
			s.out.cut(from)
		}
		if keep, err = t.share(lengths, room); err != nil {
			return err
		}
	}
	for _, part := range pair {
		if part.sequence != noSequence {
			if err := t.sequence(texts[part.sequence], keep[part.sequence], s); err != nil {
				return err
			}
		}
		s.out.special(part)
	}
	return nil
}

// roomFor returns how many tokens of the text a limit leaves beside the special ones.
func roomFor(specials, limit int) (int, error) {
	if limit <= 0 {
		return math.MaxInt, nil
	}
	if specials > limit {
		return 0, fmt.Errorf("tokenizer: the limit of %d tokens does not hold the %d special tokens", limit, specials)
	}
	return limit - specials, nil
}

// perSequence has a number for each of two texts.
type perSequence [secondSequence + 1]int

// share returns how many tokens of two texts of such lengths stay where there is room for so many of both.
func (t *Tokenizer) share(lengths perSequence, room int) (keep perSequence, err error) {
	if t.cutsOnly == noSequence || lengths[firstSequence]+lengths[secondSequence] <= room {
		keep[firstSequence], keep[secondSequence] = longestFirst(lengths[firstSequence], lengths[secondSequence], room)
		return keep, nil
	}
	keep = lengths
	other := firstSequence + secondSequence - t.cutsOnly
	if keep[t.cutsOnly] = room - lengths[other]; keep[t.cutsOnly] <= 0 {
		return keep, fmt.Errorf("tokenizer: beside %d tokens of the text that is not cut, a limit with room for %d leaves nothing of the other",
			lengths[other], room)
	}
	return keep, nil
}

// longestFirst returns how many tokens of two texts stay where there is room for so many of both.
func longestFirst(a, b, room int) (int, int) {
	short, long := min(a, b), max(a, b)
	switch {
	case short+long <= room:
		return a, b
	case short <= room-short: // the longer one alone is cut
		long = room - short
	default:
		short, long = room/2, room-room/2
	}
	if a > b {
		return long, short
	}
	return short, long
}

// sequence appends the tokens of text without special tokens, at most room.
func (t *Tokenizer) sequence(text string, room int, s *scratch) error {
	from := len(s.out.IDs)
	s.out.first = from
	if !t.cutsLeft {
		return t.tokens(text, from+min(room, math.MaxInt-from), s)
	}
	if err := t.tokens(text, math.MaxInt, s); err != nil {
		return err
	}
	excess := len(s.out.IDs) - from - room
	if excess <= 0 {
		return nil
	}
	if t.trim.on { // once more, since the first token that stays has other offsets
		s.out.cut(from)
		s.out.first = from + excess
		if err := t.tokens(text, math.MaxInt, s); err != nil {
			return err
		}
	}
	s.out.remove(from, from+excess)
	return nil
}

// tokens appends the tokens of text until s.out has most of them.
func (t *Tokenizer) tokens(text string, most int, s *scratch) error {
	if len(text) > math.MaxInt32 {
		return fmt.Errorf("%w: %d bytes", ErrTextTooLarge, len(text))
	}
	s.raw = decodeText(s.raw[:0], text)
	s.parts = t.raw.find(s.parts[:0], s.raw)
	for _, part := range s.parts {
		chars := s.raw[part.from:part.to]
		if part.id != none {
			s.out.token(part.id, chars)
		} else if err := t.piece(chars, most, s); err != nil {
			return err
		}
		if len(s.out.IDs) >= most {
			s.out.cut(most)
			return nil
		}
	}
	return nil
}

// piece appends the tokens of a piece of text between added tokens, until s.out has most of them, or a few more.
func (t *Tokenizer) piece(chars []char, most int, s *scratch) error {
	if !s.text.normalize(t.normalizer, chars) {
		return fmt.Errorf("%w: the normalizer makes it %d times as long", ErrTextTooLarge, maxGrowth)
	}
	s.matches = t.normalized.find(s.matches[:0], s.text.chars)
	for _, m := range s.matches {
		if m.from == m.to {
			continue
		}
		if m.id != none {
			s.out.token(m.id, s.text.chars[m.from:m.to])
			continue
		}
		s.words.begin(s.text.chars, m.span)
		if t.preTokenizer != nil {
			t.preTokenizer.split(&s.words)
		}
		if s.words.grown {
			return fmt.Errorf("%w: the pre-tokenizer makes it %d times as long", ErrTextTooLarge, maxGrowth)
		}
		for _, w := range s.words.spans {
			if len(s.out.IDs) >= most {
				return nil
			}
			if err := t.model.encode(s, s.words.chars[w.from:w.to]); err != nil {
				return err
			}
		}
	}
	return nil
}

// ID returns the id of a token, such as "[PAD]": an added token's, or the model's.
func (t *Tokenizer) ID(token string) (id int32, ok bool) {
	if id, ok = t.ids[token]; ok {
		return id, true
	}
	id = t.model.id([]rune(token))
	return id, id != none
}
