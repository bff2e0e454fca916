package tokenizer

// span is a range of the characters of a normalized text.
type span struct{ from, to int }

// words are the spans of a text that stand for words.
type words struct {
	chars   []char
	spans   []span
	spare   []span
	pieces  []piece
	columns columns
	buffers [2][]char // of chars that a pre-tokenizer has changed
	turn    int       // which of them is free
	limit   int       // of chars
	grown   bool      // there would have been more than limit
}

// begin makes a span of chars the one word. They are not changed.
func (w *words) begin(chars []char, s span) {
	w.chars, w.spans = chars, append(w.spans[:0], s)
	w.limit, w.grown = maxGrowth*(s.to-s.from)+1<<16, false
}

// rewrite replaces the characters of every span by what change appends for them. No word is left when these are too many.
func (w *words) rewrite(change func(dst, chars []char) []char) {
	dst := w.buffers[w.turn][:0]
	w.spare = w.spare[:0]
	for _, s := range w.spans {
		from := len(dst)
		dst = change(dst, w.chars[s.from:s.to])
		w.spare = append(w.spare, span{from, len(dst)})
		if len(dst) > w.limit {
			w.grown, w.spare = true, w.spare[:0]
			break
		}
	}
	w.buffers[w.turn] = dst
	w.turn ^= 1
	w.chars, w.spans, w.spare = dst, w.spare, w.spans
}

// piece is a part of a span, which a pattern matches or not.
type piece struct {
	span
	match bool
}

// each replaces every span by those that split appends for it.
func (w *words) each(split func(dst []span, s span) []span) {
	w.spare = w.spare[:0]
	for _, s := range w.spans {
		w.spare = split(w.spare, s)
	}
	w.spans, w.spare = w.spare, w.spans
}

// preTokenizer splits the spans of words further.
type preTokenizer interface{ split(w *words) }

// preTokenizers run one after the other.
type preTokenizers []preTokenizer

func (ps preTokenizers) split(w *words) {
	for _, p := range ps {
		p.split(w)
	}
}

// preTokenizerFunc is a pre-tokenizer without options.
type preTokenizerFunc func(w *words)

func (f preTokenizerFunc) split(w *words) { f(w) }

// bertWords splits at whitespace, and makes every punctuation character a word.
func bertWords(w *words) {
	w.each(func(dst []span, s span) []span {
		from := s.from
		for i := s.from; i < s.to; i++ {
			p := properties[w.chars[i].r]
			if p&(space|punctuation) == 0 {
				continue
			}
			if from < i {
				dst = append(dst, span{from, i})
			}
			from = i + 1
			if p&space == 0 {
				dst = append(dst, span{i, from})
			}
		}
		if from < s.to {
			dst = append(dst, span{from, s.to})
		}
		return dst
	})
}

// byScript begins a word wherever the script changes. Kana are Han, and spaces and what is unassigned have the script around; before
// the first character with a script they are dropped.
func byScript(w *words) {
	w.each(func(dst []span, s span) []span {
		last := noScript
		for i := s.from; i < s.to; i++ {
			script := scriptOf(w.chars[i].r)
			if script == noScript {
				continue
			}
			if script != last {
				dst = append(dst, span{i, s.to})
				if last != noScript {
					dst[len(dst)-2].to = i
				}
			}
			last = script
		}
		return dst
	})
}

// wordsAndSymbols makes words of what the regular expression \w+|[^\w\s]+ matches.
func wordsAndSymbols(w *words) {
	w.each(func(dst []span, s span) []span {
		for i := s.from; i < s.to; {
			from, p := i, properties[w.chars[i].r]&(word|space)
			for i < s.to && properties[w.chars[i].r]&(word|space) == p {
				i++
			}
			if p != space {
				dst = append(dst, span{from, i})
			}
		}
		return dst
	})
}

// fixedLength makes words of so many characters; the last may have fewer.
type fixedLength int

func (n fixedLength) split(w *words) {
	w.each(func(dst []span, s span) []span {
		for from := s.from; from < s.to; from += int(n) {
			dst = append(dst, span{from, min(from+int(n), s.to)})
		}
		return dst
	})
}

// behavior is what becomes of the delimiters where a text is split.
type behavior int

const (
	removed behavior = iota
	isolated
	contiguous
	mergedWithPrevious
	mergedWithNext
)

var behaviors = map[string]behavior{
	"Removed": removed, "Isolated": isolated, "Contiguous": contiguous,
	"MergedWithPrevious": mergedWithPrevious, "MergedWithNext": mergedWithNext,
}

// delimiter splits where a pattern matches. Inverted, the text between the matches delimits.
type delimiter struct {
	pattern  pattern
	behavior behavior
	inverted bool
}

func (d delimiter) split(w *words) {
	w.each(func(dst []span, s span) []span {
		d.cut(w, s)
		return d.keep(dst, w.pieces)
	})
}

// cut fills the pieces of w with those of s: each match, and what is between.
func (d delimiter) cut(w *words, s span) {
	w.pieces = w.pieces[:0]
	from := s.from
	c := &w.columns
	c.spans = d.pattern.spans(c.spans[:0], w.chars[s.from:s.to], c)
	for _, m := range c.spans {
		m.from, m.to = m.from+s.from, m.to+s.from
		if from < m.from {
			w.pieces = append(w.pieces, piece{span{from, m.from}, d.inverted})
		}
		w.pieces = append(w.pieces, piece{m, !d.inverted})
		from = m.to
	}
	if from < s.to {
		w.pieces = append(w.pieces, piece{span{from, s.to}, d.inverted})
	}
}

// keep appends the spans that the behavior makes of pieces, but for empty ones.
func (d delimiter) keep(dst []span, pieces []piece) []span {
	first := len(dst)
	for i, p := range pieces {
		previous := i > 0 && pieces[i-1].match
		joins := false // the span of the piece before
		switch d.behavior {
		case removed:
			if p.match {
				continue
			}
		case contiguous:
			joins = p.match == previous
		case mergedWithPrevious:
			joins = p.match && !previous
		case mergedWithNext:
			joins = !p.match && previous
		}
		if joins && len(dst) > first {
			dst[len(dst)-1].to = p.to
		} else {
			dst = append(dst, p.span)
		}
	}
	kept := dst[:first]
	for _, s := range dst[first:] {
		if s.from < s.to {
			kept = append(kept, s)
		}
	}
	return kept
}

func matchSpace(chars []char) int { return one(properties[chars[0].r]&space != 0) }

func matchPunctuation(chars []char) int { return one(properties[chars[0].r]&punctuation != 0) }

func matchNumeric(chars []char) int { return one(properties[chars[0].r]&numeric != 0) }

func matchString(s []rune) matcher {
	return func(chars []char) int {
		if hasPrefix(chars, s) {
			return len(s)
		}
		return 0
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
