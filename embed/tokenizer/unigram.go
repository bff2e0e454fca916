package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// unigram is SentencePiece's unigram model: of all ways to put a word together from tokens, the one with the highest sum of
// scores, by Viterbi's algorithm. A character that no token stands for alone can be unknown, for a score below all others.
type unigram struct {
	vocabulary *trie
	scores     []float64 // by id
	unknownID  int32     // none: there is none
	unknown    float64   // its score
	bytes      *[256]int32
}

// unknownPenalty is how far the score of an unknown character is below the lowest of all tokens.
const unknownPenalty = 10

// step is the best way to a place in a word: its score, and its last token.
type step struct {
	score float64
	id    int32
	from  int32 // where the last token begins; none: no way leads here yet
}

func (m *unigram) id(token []rune) int32 { return m.vocabulary.value(token) }

func (m *unigram) size() int { return len(m.scores) }

func (m *unigram) encode(s *scratch, word []char) error {
	if err := m.walk(s, word); err != nil {
		return err
	}
	s.path = s.path[:0]
	for to := int32(len(word)); to > 0; to = s.steps[to].from {
		s.path = append(s.path, to)
	}
	from := int32(0)
	for i := len(s.path) - 1; i >= 0; i-- {
		to := s.path[i]
		id := s.steps[to].id
		if id == m.unknownID { // unknown characters side by side are one token
			for i > 0 && s.steps[s.path[i-1]].id == id {
				i--
				to = s.path[i]
			}
		}
		if err := m.add(s, id, word[from:to]); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// walk fills the steps of s with the best way to each place of a word.
func (m *unigram) walk(s *scratch, word []char) error {
	s.steps = append(s.steps[:0], step{})
	for range word {
		s.steps = append(s.steps, step{from: none})
	}
	for from := range word {
		till := s.steps[from].score
		alone := false // whether a token stands for the character alone
		e := edge{}
		for i, c := range word[from:] {
			var ok bool
			if e, ok = m.vocabulary.next(e.node, c.r); !ok {
				break
			}
			if e.value != none {
				s.steps[from+i+1].improve(m.scores[e.value]+till, e.value, from)
				alone = alone || i == 0
			}
		}
		if !alone && s.steps[from+1].improve(m.unknown+till, m.unknownID, from) && m.unknownID == none {
			return fmt.Errorf("%w", ErrNoUnknownToken)
		}
	}
	return nil
}

// improve takes a way that is the first one or has a higher score than the best so far, and reports whether it did.
func (st *step) improve(score float64, id int32, from int) bool {
	better := st.from == none || score > st.score
	if better {
		*st = step{score, id, int32(from)}
	}
	return better
}

// add adds the token for chars. What is unknown may be a token once it is put together, or tokens of its bytes.
func (m *unigram) add(s *scratch, id int32, chars []char) error {
	if id != m.unknownID {
		s.out.token(id, chars)
		return nil
	}
	if id, n := m.vocabulary.longest(0, chars); n == len(chars) {
		s.out.token(id, chars)
		return nil
	}
	if m.bytes == nil {
		s.out.unknown(id, chars)
		return nil
	}
	var bytes [utf8.UTFMax]byte
	for _, c := range chars {
		for _, b := range bytes[:utf8.EncodeRune(bytes[:], c.r)] {
			s.out.unknown(m.bytes[b], chars)
		}
	}
	return nil
}
