package tokenizer

import "fmt"

// model makes tokens of a word, which has a character at least. It adds them to s.out, without type ids.
type model interface {
	encode(s *scratch, word []char) error
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
	inside     uint32 // the node of the trie behind the prefix, where tokens inside a word set out
	continues  bool   // whether any token begins with the prefix
	maxLength  int    // of a word, in characters
}

func newWordPiece(vocabulary *trie, tokens int, unknown, prefix string, maxLength int) *wordPiece {
	m := &wordPiece{
		vocabulary: vocabulary, tokens: tokens, unknown: unknown, unknownID: vocabulary.value([]rune(unknown)),
		maxLength: maxLength,
	}
	var e edge
	e, m.continues = vocabulary.walk(0, []rune(prefix))
	m.inside = e.node
	return m
}

func (m *wordPiece) id(token []rune) int32 { return m.vocabulary.value(token) }

func (m *wordPiece) size() int { return m.tokens }

func (m *wordPiece) encode(s *scratch, word []char) error {
	first := len(s.out.IDs)
	if len(word) <= m.maxLength && m.pieces(&s.out, word) {
		return nil
	}
	s.out.cut(first)
	if m.unknownID == none {
		return fmt.Errorf("%w: %q", ErrNoUnknownToken, m.unknown)
	}
	s.out.unknown(m.unknownID, word)
	return nil
}

// pieces appends the tokens of a word and reports whether there was no rest.
func (m *wordPiece) pieces(dst *output, word []char) bool {
	node := uint32(0)
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
		dst.token(id, word[from:from+n])
		from += n
	}
	return true
}
