package tokenizer

// pattern finds what a text is split by, or what is replaced in it.
type pattern interface {
	// spans appends where it matches in chars: from the left, each match behind the one before.
	spans(dst []span, chars []char, c *columns) []span
}

// matcher returns how many characters it matches at the beginning of chars, of which there is at least one; 0: none.
type matcher func(chars []char) int

func (m matcher) spans(dst []span, chars []char, _ *columns) []span {
	for i := 0; i < len(chars); {
		n := m(chars[i:])
		if n > 0 {
			dst = append(dst, span{i, i + n})
		}
		i += max(n, 1)
	}
	return dst
}

// The regular expressions that most byte-level tokenizers have are written out as functions, several times as fast as a program.

// words that GPT-2 and its followers split a text into, to the character.
const (
	gpt2Words   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	cl100kWords = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Words  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	clipWords   = `'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+`
	clipMarks   = `<\|startoftext\|>|<\|endoftext\|>|` // before clipWords, where transformers 5 wrote the file
)

var matchers = map[string]matcher{
	gpt2Words:             matchGPT2,
	cl100kWords:           matchCL100K(3),
	qwen2Words:            matchCL100K(1),
	clipWords:             matchCLIP,
	clipMarks + clipWords: matchMarkedCLIP,
}

// newPattern returns the pattern of a regular expression.
func newPattern(expression string) (pattern, error) {
	if m, ok := matchers[expression]; ok {
		return m, nil
	}
	return compile(expression)
}

// The classes that the expressions tell apart: letters, numbers, whitespace, and symbols, which are none of these.
const (
	classes3 = letter | number | space
	letters  = letter
	numbers  = number
	blanks   = space
	symbols  = property(0)
)

func classOf(c char) property { return properties[c.r] & classes3 }

// run returns how many characters chars begin with of a class.
func run(chars []char, class property) int {
	n := 0
	for n < len(chars) && classOf(chars[n]) == class {
		n++
	}
	return n
}

func matchGPT2(chars []char) int {
	if n := contraction(chars, false); n > 0 {
		return n
	}
	at := 0
	if chars[0].r == ' ' && len(chars) > 1 && classOf(chars[1]) != blanks {
		at = 1
	}
	if class := classOf(chars[at]); class != blanks {
		return at + run(chars[at:], class)
	}
	return whitespace(chars)
}

// matchCL100K is the expression of OpenAI's cl100k_base, which Llama 3 has too, with words of up to so many digits.
func matchCL100K(digits int) matcher {
	return func(chars []char) int {
		if n := contraction(chars, true); n > 0 {
			return n
		}
		switch class := classOf(chars[0]); {
		case class == letters:
			return run(chars, letters)
		case class == numbers:
			return run(chars[:min(len(chars), digits)], numbers)
		case !isNewline(chars[0]) && len(chars) > 1 && classOf(chars[1]) == letters:
			return 1 + run(chars[1:], letters)
		}
		at := 0
		if chars[0].r == ' ' {
			at = 1
		}
		if n := run(chars[at:], symbols); n > 0 {
			n += at
			for n < len(chars) && isNewline(chars[n]) {
				n++
			}
			return n
		}
		for n := run(chars, blanks); n > 0; n-- {
			if isNewline(chars[n-1]) {
				return n // up to the last newline of the whitespace
			}
		}
		return whitespace(chars)
	}
}

func matchCLIP(chars []char) int {
	if n := contraction(chars, false); n > 0 {
		return n
	}
	switch class := classOf(chars[0]); class {
	case blanks:
		return 0
	case numbers:
		return 1
	default:
		return run(chars, class)
	}
}

func matchMarkedCLIP(chars []char) int {
	for _, mark := range [...]matcher{startOfText, endOfText} {
		if n := mark(chars); n > 0 {
			return n
		}
	}
	return matchCLIP(chars)
}

var startOfText, endOfText = matchString([]rune("<|startoftext|>")), matchString([]rune("<|endoftext|>"))

// whitespace is \s+(?!\S)|\s+: all of it, but the last where something follows and it is not alone.
func whitespace(chars []char) int {
	n := run(chars, blanks)
	if n < len(chars) && n > 1 {
		n--
	}
	return n
}

// contraction is 's|'t|'re|'ve|'m|'ll|'d, in any case where folded.
func contraction(chars []char, folded bool) int {
	if chars[0].r != '\'' || len(chars) < 2 {
		return 0
	}
	second := fold(chars[1].r, folded)
	switch second {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(chars) > 2 {
		switch third := fold(chars[2].r, folded); {
		case second == 'r' && third == 'e', second == 'v' && third == 'e', second == 'l' && third == 'l':
			return 3
		}
	}
	return 0
}

// fold returns the letter that r is the same as but for the case: only the long s is no ASCII letter and is the same as one.
func fold(r rune, folded bool) rune {
	switch {
	case !folded:
	case r >= 'A' && r <= 'Z':
		r += 'a' - 'A'
	case r == 'ſ':
		r = 's'
	}
	return r
}

func isNewline(c char) bool { return c.r == '\n' || c.r == '\r' }
