package tokenizer

import "fmt"

// wordLevel has a token for each word that it knows.
type wordLevel struct {
	vocabulary *trie
	tokens     int
	unknown    string
	unknownID  int32 // none where the vocabulary lacks it
}

func (m *wordLevel) id(token []rune) int32 { return m.vocabulary.value(token) }

func (m *wordLevel) size() int { return m.tokens }

func (m *wordLevel) encode(s *scratch, word []char) error {
	id, n := m.vocabulary.longest(0, word)
	switch {
	case n == len(word):
	case m.unknownID == none:
		return fmt.Errorf("%w: %q", ErrNoUnknownToken, m.unknown)
	default:
		id = m.unknownID
	}
	s.out.token(id, word)
	return nil
}
