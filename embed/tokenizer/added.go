package tokenizer

import "unicode/utf8"

// addedToken is a token that is found in the text before the model sees it.
type addedToken struct {
	id      int32
	content string
	// word: only where no character of a word stands before or behind it.
	word bool
	// left, right: the whitespace before, behind, belongs to the token.
	left, right bool
	// normalized: it is searched, normalized itself, in the normalized text, and not in the text as it was given.
	normalized bool
}

// addedTokens finds tokens in a text, as the original's AddedVocabulary does: at each place, from left to right, the longest.
type addedTokens struct {
	trie   *trie // the values are places in tokens; nil: there are none
	tokens []addedToken
	// first says which ASCII characters any token begins with; others are looked for in the trie.
	first [utf8.RuneSelf]bool
}

// add adds a token that is searched for by pattern, which is not empty. It reports false where another one is.
func (a *addedTokens) add(t addedToken, pattern []rune) bool {
	if a.trie == nil {
		a.trie = newTrie()
	}
	if a.trie.value(pattern) != none {
		return false
	}
	a.trie.insert(pattern, int32(len(a.tokens)))
	a.tokens = append(a.tokens, t)
	if pattern[0] < utf8.RuneSelf {
		a.first[pattern[0]] = true
	}
	return true
}

// match is a part of a text, from one character to another, that is a token, or is none and has the id none.
type match struct {
	span
	id int32
}

// find appends the parts of chars. A token that is no word of its own though it should be hides those that overlap with it.
func (a *addedTokens) find(dst []match, chars []char) []match {
	if a.trie == nil {
		return append(dst, match{span{0, len(chars)}, none})
	}
	done := 0  // up to where chars are in dst
	blank := 0 // up to where whitespace was walked over: not again for a token inside of it, or the time would be quadratic
	for i := 0; i < len(chars); {
		if r := chars[i].r; r < utf8.RuneSelf && !a.first[r] {
			i++
			continue
		}
		at, n := a.trie.longest(0, chars[i:])
		if n == 0 {
			i++
			continue
		}
		t := &a.tokens[at]
		from, to := t.extent(chars, i, i+n, done, blank)
		i += n
		if t.right {
			blank = max(blank, to)
		}
		if from >= to {
			continue
		}
		if done < from {
			dst = append(dst, match{span{done, from}, none})
		}
		dst = append(dst, match{span{from, to}, t.id})
		done = to
	}
	if done < len(chars) {
		dst = append(dst, match{span{done, len(chars)}, none})
	}
	return dst
}

// extent returns what a token that stands in chars at from to to covers, with its whitespace behind what is done; up to blank there is
// nothing but whitespace. It is empty where the token is no word of its own though it should be, and where the token before took all of
// it as whitespace.
func (t *addedToken) extent(chars []char, from, to, done, blank int) (first, last int) {
	if t.word && (from > 0 && isWord(chars[from-1]) || to < len(chars) && isWord(chars[to])) {
		return from, from
	}
	if t.left {
		for from > done && isSpace(chars[from-1]) {
			from--
		}
		from = max(from, done)
	}
	if t.right {
		to = max(to, blank)
	}
	for t.right && to < len(chars) && isSpace(chars[to]) {
		to++
	}
	return from, to
}

func isWord(c char) bool { return properties[c.r]&word != 0 }

func isSpace(c char) bool { return properties[c.r]&space != 0 }
