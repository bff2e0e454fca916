package tokenizer

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
	trie   *trie // the values are places in tokens
	tokens []addedToken
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
	done := 0 // up to where chars are in dst
	for i := 0; i < len(chars); {
		at, n := a.trie.longest(0, chars[i:])
		if n == 0 {
			i++
			continue
		}
		from, to := i, i+n
		i = to
		t := &a.tokens[at]
		if t.word && (from > 0 && isWord(chars[from-1]) || to < len(chars) && isWord(chars[to])) {
			continue
		}
		for t.left && from > done && isSpace(chars[from-1]) {
			from--
		}
		if t.left {
			from = max(from, done)
		}
		for t.right && to < len(chars) && isSpace(chars[to]) {
			to++
		}
		if from >= to { // all of it is whitespace that the token before took
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

func isWord(c char) bool { return properties[c.r]&word != 0 }

func isSpace(c char) bool { return properties[c.r]&space != 0 }
