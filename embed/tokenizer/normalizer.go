package tokenizer

import "slices"

// normalizer changes a text before it is split into words.
type normalizer interface{ normalize(t *text) }

// normalizers run one after the other.
type normalizers []normalizer

func (ns normalizers) normalize(t *text) {
	for _, n := range ns {
		n.normalize(t)
	}
}

// normalizerFunc is a normalizer without options.
type normalizerFunc func(t *text)

func (f normalizerFunc) normalize(t *text) { f(t) }

func nfd(t *text)  { t.normalForm(false, false) }
func nfkd(t *text) { t.normalForm(true, false) }
func nfc(t *text)  { t.normalForm(false, true) }
func nfkc(t *text) { t.normalForm(true, true) }

// bertClean removes NUL, U+FFFD and control characters, and makes every whitespace a space.
func bertClean(t *text) {
	out := t.chars[:0]
	for _, c := range t.chars {
		switch p := properties[c.r]; {
		case c.r == 0 || c.r == 0xfffd || p&control != 0:
			continue
		case p&space != 0:
			c.r = ' '
		}
		out = append(out, c)
	}
	t.chars = out
}

// bertSpaceIdeographs puts a space before and behind every Chinese character.
func bertSpaceIdeographs(t *text) {
	if !slices.ContainsFunc(t.chars, func(c char) bool { return ideograph(c.r) }) {
		return
	}
	t.spare = t.spare[:0]
	for _, c := range t.chars {
		if ideograph(c.r) {
			blank := char{' ', c.start, c.end}
			t.spare = append(t.spare, blank, c, blank)
		} else {
			t.spare = append(t.spare, c)
		}
	}
	t.swap()
}

// bertStripAccents decomposes the text and removes what has no width of its own.
func bertStripAccents(t *text) {
	nfd(t)
	t.filter(func(r rune) bool { return properties[r]&nonspacing == 0 })
}

// stripAccents removes all combining marks, and does not decompose.
func stripAccents(t *text) {
	t.filter(func(r rune) bool { return properties[r]&mark == 0 })
}

// lowercase makes lower case of every character by itself: a Greek sigma at the end of a word is like any other.
func lowercase(t *text) {
	t.spare = t.spare[:0]
	for _, c := range t.chars {
		switch {
		case c.r >= 'A' && c.r <= 'Z':
			c.r += 'a' - 'A'
			t.spare = append(t.spare, c)
		case c.r < 0x80 || properties[c.r]&lowers == 0:
			t.spare = append(t.spare, c)
		default:
			for _, r := range lowerOf[c.r] {
				t.spare = append(t.spare, char{r, c.start, c.end})
			}
		}
	}
	t.swap()
}

// nmt is the cleaning of Google's NMT models, as SentencePiece has it.
func nmt(t *text) {
	t.filter(func(r rune) bool {
		return r == 0 || r > 0x8 && r < 0xe && r != 0xb || r > 0x1f && r != 0x7f && r != 0x8f && r != 0x9f
	})
	for i, c := range t.chars {
		switch c.r {
		case 0x9, 0xa, 0xc, 0xd, 0x1680, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f, 0x2028, 0x2029, 0x2581, 0xfeff, 0xfffd:
			t.chars[i].r = ' '
		}
	}
}

// strip removes whitespace at the ends.
type strip struct{ left, right bool }

func (s strip) normalize(t *text) {
	for s.right && len(t.chars) > 0 && properties[t.chars[len(t.chars)-1].r]&space != 0 {
		t.chars = t.chars[:len(t.chars)-1]
	}
	first := 0
	for s.left && first < len(t.chars) && properties[t.chars[first].r]&space != 0 {
		first++
	}
	t.chars = append(t.chars[:0], t.chars[first:]...)
}

// prepend puts characters before a text that is not empty.
type prepend []rune

func (p prepend) normalize(t *text) {
	if len(t.chars) == 0 {
		return
	}
	t.spare = t.spare[:0]
	for _, r := range p {
		t.spare = append(t.spare, char{r, t.chars[0].start, t.chars[0].end})
	}
	t.spare = append(t.spare, t.chars...)
	t.swap()
}

// replace puts content in the place of everything that matches.
type replace struct {
	pattern pattern
	content []rune
}

func (p replace) normalize(t *text) {
	t.spare = t.spare[:0]
	c := &t.columns
	c.spans = p.pattern.spans(c.spans[:0], t.chars, c)
	from := 0
	for _, m := range c.spans {
		if len(t.spare) > t.limit {
			t.swap()
			return
		}
		t.spare = append(t.spare, t.chars[from:m.from]...)
		from = m.to
		for _, r := range p.content {
			t.spare = append(t.spare, char{r, t.chars[from-1].start, t.chars[from-1].end})
		}
	}
	t.spare = append(t.spare, t.chars[from:]...)
	t.swap()
}

func hasPrefix(chars []char, prefix []rune) bool {
	if len(chars) < len(prefix) {
		return false
	}
	for i, r := range prefix {
		if chars[i].r != r {
			return false
		}
	}
	return true
}
