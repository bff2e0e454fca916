package tokenizer

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

func (l *loader) model(place string, raw json.RawMessage) model {
	if raw == nil {
		l.invalid(place, "it is missing")
		return nil
	}
	o := l.object(place, raw)
	defer o.end()
	signs := [][2]string{{"merges", "BPE"}, {"continuing_subword_prefix", "WordPiece"}, {"unk_id", "Unigram"}, {"unk_token", "WordLevel"}}
	switch kind := o.kind(signs...); kind {
	case "WordPiece":
		return l.wordPiece(o)
	case "BPE":
		return l.bpe(o)
	case "Unigram":
		return l.unigram(o)
	case "WordLevel":
		vocabulary, size := l.vocabulary(o.at("vocab"), o.value("vocab"))
		unknown := o.text("unk_token")
		return &wordLevel{vocabulary, size, unknown, vocabulary.value([]rune(unknown))}
	default:
		o.unknown(kind)
		return nil
	}
}

func (l *loader) wordPiece(o *object) model {
	vocabulary, size := l.vocabulary(o.at("vocab"), o.value("vocab"))
	maxLength := decode[uint64](l, o.at("max_input_chars_per_word"), o.value("max_input_chars_per_word"), "a number from 0 on")
	return newWordPiece(vocabulary, size, o.text("unk_token"), o.text("continuing_subword_prefix"), int(min(maxLength, math.MaxInt32)))
}

// vocabulary reads an object of tokens and their ids.
func (l *loader) vocabulary(place string, raw json.RawMessage) (t *trie, size int) {
	t = newTrie()
	if raw == nil {
		l.invalid(place, "it is missing")
		return t, 0
	}
	l.members(place, raw, func(token string, dec *json.Decoder) error {
		value, err := dec.Token()
		if err != nil {
			return err
		}
		number, _ := value.(json.Number)
		id, err := strconv.ParseUint(string(number), 10, 31)
		if err != nil {
			return fmt.Errorf("the id of token %.100q is not a number from 0 to 2147483647", token)
		}
		runes := []rune(token)
		if t.value(runes) != none {
			return fmt.Errorf("token %.100q stands there twice", token)
		}
		if len(runes) > 0 { // an empty token is in some vocabularies, and is never found
			t.insert(runes, int32(id))
		}
		size++
		return nil
	})
	return t, size
}

func (l *loader) bpe(o *object) model {
	m := &bpe{unknownID: none}
	if v := o.value("dropout"); v != nil && decode[float64](l, o.at("dropout"), v, "a number") != 0 {
		l.unsupported(o.at("dropout"), "other than 0: a text would have other tokens each time")
	}
	m.vocabulary, m.tokens = l.vocabulary(o.at("vocab"), o.value("vocab"))
	m.unknown = o.optionalText("unk_token")
	if m.unknown != "" {
		m.unknownID = m.vocabulary.value([]rune(m.unknown))
	}
	m.fused, m.whole = o.optionalFlag("fuse_unk"), o.optionalFlag("ignore_merges")
	prefix := o.optionalText("continuing_subword_prefix")
	m.suffix = []rune(o.optionalText("end_of_word_suffix"))
	var inside edge
	inside, m.continues = m.vocabulary.walk(0, []rune(prefix))
	m.inside = inside.node
	if o.optionalFlag("byte_fallback") {
		m.bytes = l.byteTokens(o, m.vocabulary)
		if m.bytes != nil && (prefix != "" || len(m.suffix) > 0) {
			l.unsupported(o.at("byte_fallback"), "with a prefix or suffix of words")
		}
	}
	m.merges = l.merges(o, m.vocabulary, len(prefix))
	return m
}

// merges reads what was learned: pairs of tokens, the first to be joined first. A token inside a word has a prefix of so many
// bytes, which is not in the middle of what a pair becomes.
func (l *loader) merges(o *object, vocabulary *trie, prefix int) pairs {
	place := o.at("merges")
	raws := l.list(place, o.value("merges"))
	learned := newPairs(len(raws))
	for rank, raw := range raws {
		if len(l.errs) > 0 {
			break
		}
		at := fmt.Sprintf("%s[%d]", place, rank)
		left, right, ok := l.pair(at, raw)
		if !ok || len(right) < prefix {
			l.invalid(at, "it is not two tokens")
			break
		}
		ids := [3]int32{}
		for i, token := range []string{left, right, left + right[prefix:]} {
			if ids[i] = vocabulary.value([]rune(token)); ids[i] == none {
				l.invalid(at, "token %.100q is not in the vocabulary", token)
			}
		}
		learned.set(ids[0], ids[1], int32(rank), ids[2])
	}
	return learned
}

// pair reads two tokens: "a b" in old files, ["a", "b"] in others.
func (l *loader) pair(place string, raw json.RawMessage) (left, right string, ok bool) {
	if raw[0] == '"' {
		left, right, ok = strings.Cut(l.text(place, raw), " ")
		return left, right, ok && !strings.Contains(right, " ")
	}
	both := decode[[]string](l, place, raw, "two tokens")
	if len(both) != 2 {
		return "", "", false
	}
	return both[0], both[1], true
}

// byteTokens reads the tokens <0x00> to <0xFF> of bytes out of a vocabulary. Without any of them there is nothing to fall back to.
func (l *loader) byteTokens(o *object, vocabulary *trie) *[256]int32 {
	var ids [256]int32
	found := 0
	for b := range ids {
		if ids[b] = vocabulary.value([]rune(fmt.Sprintf("<0x%02X>", b))); ids[b] != none {
			found++
		}
	}
	switch found {
	case 0:
		return nil
	case len(ids):
		return &ids
	default:
		l.unsupported(o.at("byte_fallback"), "with tokens of %d bytes of 256", found)
		return nil
	}
}

func (l *loader) unigram(o *object) model {
	m := &unigram{vocabulary: newTrie(), unknownID: none}
	place := o.at("vocab")
	lowest := math.Inf(1)
	for i, raw := range l.list(place, o.value("vocab")) {
		at := fmt.Sprintf("%s[%d]", place, i)
		pair := l.list(at, raw)
		if len(pair) != 2 {
			l.invalid(at, "it is not a token and its score")
			break
		}
		if token := []rune(l.text(at+"[0]", pair[0])); len(token) > 0 {
			m.vocabulary.insert(token, int32(i)) // of two that are equal, the last counts
		}
		decode[float64](l, at+"[1]", pair[1], "a number") // alone to see that it is one
		score := parseScore(string(pair[1]))
		m.scores, lowest = append(m.scores, score), min(lowest, score)
	}
	m.unknown = lowest - unknownPenalty
	if v := o.value("unk_id"); v != nil {
		m.unknownID = l.id(o.at("unk_id"), v)
		if int(m.unknownID) >= len(m.scores) {
			l.invalid(o.at("unk_id"), "%d is not in the vocabulary", m.unknownID)
		}
	}
	if o.optionalFlag("byte_fallback") {
		m.bytes = l.byteTokens(o, m.vocabulary)
	}
	return m
}
