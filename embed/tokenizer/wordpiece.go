package tokenizer

import "fmt"

// model makes tokens of a word. It appends them to dst, without type ids.
type model interface {
	encode(dst *Encoding, word []char) error
	// id returns the id of a token, or none.
	id(token []rune) int32
	// size is the number of tokens.
	size() int
}

// wordPiece takes the longest token that a word begins with, then the longest that the rest begins with behind the prefix of
// continuations, and so on. A word that leaves a rest is unknown as a whole.
type wordPiece struct {
	vocabulary *trie
	tokens     int
	unknown    string
	unknownID  int32  // none where the vocabulary lacks it
	inside     uint64 // the node of the trie behind the prefix, where tokens inside a word set out
	continues  bool   // whether any token begins with the prefix
	maxLength  int    // of a word, in characters
}

func newWordPiece(vocabulary *trie, tokens int, unknown, prefix string, maxLength int) *wordPiece {
	m := &wordPiece{
		vocabulary: vocabulary, tokens: tokens, unknown: unknown, unknownID: vocabulary.value([]rune(unknown)),
		continues: true, maxLength: maxLength,
	}
	if prefix != "" {
		var e edge
		e, m.continues = vocabulary.walk([]rune(prefix))
		m.inside = e.node
	}
	return m
}

func (m *wordPiece) id(token []rune) int32 { return m.vocabulary.value(token) }

func (m *wordPiece) size() int { return m.tokens }

func (m *wordPiece) encode(dst *Encoding, word []char) error {
	first := len(dst.IDs)
	if len(word) <= m.maxLength && m.pieces(dst, word) {
		return nil
	}
	dst.cut(first)
	if m.unknownID == none {
		return fmt.Errorf("%w: %q", ErrNoUnknownToken, m.unknown)
	}
	dst.add(m.unknownID, word[0].start, word[len(word)-1].end)
	return nil
}

// pieces appends the tokens of a word and reports whether there was no rest.
func (m *wordPiece) pieces(dst *Encoding, word []char) bool {
	node := uint64(0)
	for from := 0; from < len(word); {
		if from > 0 {
			if !m.continues {
				return false
			}
			node = m.inside
		}
		id, n := m.vocabulary.longest(node, word[from:])
		if n == 0 {
			return false
		}
		dst.add(id, word[from].start, word[from+n-1].end)
		from += n
	}
	return true
}
