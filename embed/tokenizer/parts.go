package tokenizer

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// elements reads a list of parts, each by read.
func elements[T any](o *object, key string, depth int, read func(place string, raw json.RawMessage, depth int) T) []T {
	place := o.at(key)
	if depth >= maxDepth {
		o.unsupported(place, "sequences nested more than %d deep", maxDepth)
		return nil
	}
	var parts []T
	for i, raw := range o.list(place, o.value(key)) {
		parts = append(parts, read(fmt.Sprintf("%s[%d]", place, i), raw, depth+1))
	}
	return parts
}

func (l *loader) normalizer(place string, raw json.RawMessage, depth int) normalizer {
	o := l.object(place, raw)
	defer o.end()
	switch kind := o.kind(); kind {
	case "BertNormalizer":
		return l.bertNormalizer(o)
	case "Sequence":
		return normalizers(elements(o, "normalizers", depth, l.normalizer))
	case "NFC":
		return normalizerFunc(nfc)
	case "NFD":
		return normalizerFunc(nfd)
	case "NFKC":
		return normalizerFunc(nfkc)
	case "NFKD":
		return normalizerFunc(nfkd)
	case "Nmt":
		return normalizerFunc(nmt)
	case "Lowercase":
		return normalizerFunc(lowercase)
	case "StripAccents":
		return normalizerFunc(stripAccents)
	case "Strip":
		return strip{left: o.flag("strip_left"), right: o.flag("strip_right")}
	case "Prepend":
		return prepend(o.text("prepend"))
	case "Replace":
		return replace{pattern: l.pattern(o), content: []rune(o.text("content"))}
	default:
		o.unknown(kind)
		return nil
	}
}

func (l *loader) bertNormalizer(o *object) normalizer {
	var ns normalizers
	if o.flag("clean_text") {
		ns = append(ns, normalizerFunc(bertClean))
	}
	if o.flag("handle_chinese_chars") {
		ns = append(ns, normalizerFunc(bertSpaceIdeographs))
	}
	lower := o.flag("lowercase")
	accents := lower // where strip_accents is null
	if v := o.value("strip_accents"); v != nil {
		accents = decode[bool](l, o.at("strip_accents"), v, "a boolean")
	}
	if accents {
		ns = append(ns, normalizerFunc(bertStripAccents))
	}
	if lower {
		ns = append(ns, normalizerFunc(lowercase))
	}
	return ns
}

func (l *loader) preTokenizer(place string, raw json.RawMessage, depth int) preTokenizer {
	o := l.object(place, raw)
	defer o.end()
	switch kind := o.kind(); kind {
	case "BertPreTokenizer":
		l.splitsSpace = true
		return preTokenizerFunc(bertWords)
	case "Sequence":
		return preTokenizers(elements(o, "pretokenizers", depth, l.preTokenizer))
	case "Whitespace":
		l.splitsSpace = true
		return preTokenizerFunc(wordsAndSymbols)
	case "WhitespaceSplit":
		l.splitsSpace = true
		return delimiter{match: matchSpace}
	case "Punctuation":
		d := delimiter{match: matchPunctuation, behavior: isolated}
		if _, ok := o.fields["behavior"]; ok {
			d.behavior = l.behavior(o)
		}
		return d
	case "Digits":
		d := delimiter{match: matchNumeric, behavior: contiguous}
		if o.flag("individual_digits") {
			d.behavior = isolated
		}
		return d
	case "CharDelimiterSplit":
		s := o.text("delimiter")
		if utf8.RuneCountInString(s) != 1 {
			l.invalid(o.at("delimiter"), "it is not one character")
		}
		return delimiter{match: matchString([]rune(s))}
	case "Split":
		return delimiter{match: matchString(l.pattern(o)), behavior: l.behavior(o), inverted: o.flag("invert")}
	default:
		o.unknown(kind)
		return nil
	}
}

// unknown complains of the type of a part. The other fields are none of our business then.
func (o *object) unknown(kind string) {
	clear(o.fields)
	if kind != "" {
		o.unsupported(o.place, "type %.100q", kind)
	}
}

// pattern reads the pattern of Replace and Split, {"String": "..."}.
func (l *loader) pattern(o *object) []rune {
	place := o.at("pattern")
	p := l.object(place, o.value("pattern"))
	if _, ok := p.fields["Regex"]; ok {
		p.unsupported(place, "regular expressions")
		return nil
	}
	s := p.text("String")
	p.end()
	if s == "" {
		l.unsupported(place, "an empty pattern")
	}
	return []rune(s)
}

func (l *loader) behavior(o *object) behavior {
	name := o.text("behavior")
	b, ok := behaviors[name]
	if !ok {
		l.unsupported(o.at("behavior"), "%.100q", name)
	}
	return b
}

func (l *loader) model(place string, raw json.RawMessage) model {
	if raw == nil {
		l.invalid(place, "it is missing")
		return nil
	}
	o := l.object(place, raw)
	defer o.end()
	switch kind := o.kind(); kind {
	case "WordPiece":
		vocabulary, size := l.vocabulary(o.at("vocab"), o.value("vocab"))
		maxLength := decode[uint64](l, o.at("max_input_chars_per_word"), o.value("max_input_chars_per_word"), "a number from 0 on")
		return newWordPiece(vocabulary, size, o.text("unk_token"), o.text("continuing_subword_prefix"), int(min(maxLength, math.MaxInt32)))
	default:
		o.unknown(kind)
		return nil
	}
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

func (l *loader) postProcessor(t *Tokenizer, place string, raw json.RawMessage) template {
	o := l.object(place, raw)
	defer o.end()
	switch kind := o.kind(); kind {
	case "BertProcessing":
		return l.around(o)
	case "RobertaProcessing":
		t.trim = trimming{on: o.flag("trim_offsets"), prefix: o.flag("add_prefix_space")}
		if t.trim.on && !l.splitsSpace { // the model's tokens could have whitespace at their ends
			l.unsupported(o.at("trim_offsets"), "with a pre-tokenizer that leaves whitespace in words")
		}
		return l.around(o)
	case "TemplateProcessing":
		specials := l.specials(o)
		l.template(o.at("pair"), o.value("pair"), specials, "A", "B")
		return l.template(o.at("single"), o.value("single"), specials, "A")
	default:
		o.unknown(kind)
		return nil
	}
}

// around reads a template with one special token before the text and one behind it.
func (l *loader) around(o *object) template {
	cls, sep := l.namedID(o.at("cls"), o.value("cls")), l.namedID(o.at("sep"), o.value("sep"))
	return template{{special: []int32{cls}}, {sequence: true}, {special: []int32{sep}}}
}

// namedID reads ["[SEP]", 102].
func (l *loader) namedID(place string, raw json.RawMessage) int32 {
	pair := l.list(place, raw)
	if len(pair) != 2 {
		l.invalid(place, "it is not a token and its id")
		return 0
	}
	l.text(place+"[0]", pair[0])
	return l.id(place+"[1]", pair[1])
}

// specials reads the special tokens of a template: their ids by their names.
func (l *loader) specials(o *object) map[string][]int32 {
	place := o.at("special_tokens")
	raw := o.value("special_tokens")
	if raw == nil {
		l.invalid(place, "it is missing")
		return nil
	}
	ids := map[string][]int32{}
	for name, raw := range l.object(place, raw).fields {
		s := l.object(place+"."+name, raw)
		s.text("id")
		ids[name] = nil
		for i, raw := range l.list(s.at("ids"), s.value("ids")) {
			ids[name] = append(ids[name], l.id(fmt.Sprintf("%s[%d]", s.at("ids"), i), raw))
		}
		if tokens := l.list(s.at("tokens"), s.value("tokens")); len(tokens) != len(ids[name]) {
			l.invalid(s.place, "it has %d ids and %d tokens", len(ids[name]), len(tokens))
		}
		s.end()
	}
	return ids
}

// template reads a template over the given sequences.
func (l *loader) template(place string, raw json.RawMessage, specials map[string][]int32, sequences ...string) template {
	var t template
	for i, raw := range l.list(place, raw) {
		at := fmt.Sprintf("%s[%d]", place, i)
		o := l.object(at, raw)
		part := templatePart{}
		if v := o.value("Sequence"); v != nil {
			s := l.object(o.at("Sequence"), v)
			part.sequence, part.typeID = true, s.id("type_id")
			if id := s.text("id"); !slices.Contains(sequences, id) {
				l.invalid(s.at("id"), "%.100q is none of the sequences %s", id, strings.Join(sequences, ", "))
			}
			s.end()
		} else {
			s := l.object(o.at("SpecialToken"), o.value("SpecialToken"))
			name := s.text("id")
			part.special, part.typeID = specials[name], s.id("type_id")
			if _, ok := specials[name]; !ok {
				l.invalid(s.at("id"), "%.100q is not in special_tokens", name)
			}
			s.end()
		}
		o.end()
		t = append(t, part)
	}
	if !slices.ContainsFunc(t, func(p templatePart) bool { return p.sequence }) {
		l.unsupported(place, "a template without the text")
	}
	return t
}

// decoders are the types of decoders of the original. They turn ids into text and have no part in ids.
var decoders = []string{
	"BPEDecoder", "ByteFallback", "ByteLevel", "CTC", "Fuse", "Metaspace", "Replace", "Sequence", "Strip", "WordPiece",
}

func (l *loader) decoder(place string, raw json.RawMessage) {
	o := l.object(place, raw)
	if kind := o.kind(); !slices.Contains(decoders, kind) {
		o.unknown(kind)
	}
}

// addedTokens reads the added tokens. Their ids are not those of the file: a token that the model has keeps the model's, any
// other gets the next one from the size of the model's vocabulary on, as in the original, which warns at most.
func (l *loader) addedTokens(t *Tokenizer, raws []json.RawMessage) {
	next := int32(t.model.size())
	byID := map[int32]addedToken{}
	byContent := map[string]int32{}
	var order []int32
	for i, raw := range raws {
		o := l.object(fmt.Sprintf("added_tokens[%d]", i), raw)
		o.id("id")
		o.flag("special")
		a := addedToken{
			content: o.text("content"), word: o.flag("single_word"), left: o.flag("lstrip"), right: o.flag("rstrip"),
			normalized: o.flag("normalized"),
		}
		o.end()
		if a.content == "" {
			continue
		}
		id, known := byContent[a.content]
		if !known {
			if id = t.model.id([]rune(a.content)); id == none {
				id = next
				next++
			}
		}
		a.id = id
		byContent[a.content] = id
		if _, again := byID[id]; !again {
			order = append(order, id)
		}
		byID[id] = a
	}
	for _, id := range order {
		l.addToken(t, byID[id])
	}
}

func (l *loader) addToken(t *Tokenizer, a addedToken) {
	pattern := []rune(a.content)
	in := &t.raw
	if a.normalized {
		in = &t.normalized
		if t.normalizer != nil {
			var s text
			if !s.normalize(t.normalizer, decodeText(nil, a.content)) {
				l.unsupported("normalizer", "it makes token %.100q %d times as long", a.content, maxGrowth)
			}
			pattern = pattern[:0]
			for _, c := range s.chars {
				pattern = append(pattern, c.r)
			}
		}
	}
	switch {
	case len(pattern) == 0: // in the original it splits everywhere, or goes on for ever
		l.unsupported("added_tokens", "token %.100q is empty once it is normalized", a.content)
	case !in.add(a, pattern): // the original takes one of them by chance
		l.unsupported("added_tokens", "token %.100q is the same as another once both are normalized", a.content)
	}
}
