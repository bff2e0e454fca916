package tokenizer

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
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
		r := replace{pattern: l.pattern(o), content: []rune(o.text("content"))}
		if p, ok := r.pattern.(*program); ok && p.empty {
			l.unsupported(place, "a regular expression that may match nothing")
		}
		return r
	case "Precompiled":
		return l.precompiled(o)
	case "ByteLevel":
		return normalizerFunc(byteNormalizer)
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
		return preTokenizerFunc(bertWords)
	case "Sequence":
		return preTokenizers(elements(o, "pretokenizers", depth, l.preTokenizer))
	case "UnicodeScripts":
		return preTokenizerFunc(byScript)
	case "Whitespace":
		return preTokenizerFunc(wordsAndSymbols)
	case "WhitespaceSplit":
		return delimiter{pattern: matcher(matchSpace)}
	case "Punctuation":
		d := delimiter{pattern: matcher(matchPunctuation), behavior: isolated}
		if _, ok := o.fields["behavior"]; ok {
			d.behavior = l.behavior(o)
		}
		return d
	case "Digits":
		d := delimiter{pattern: matcher(matchNumeric), behavior: contiguous}
		if o.flag("individual_digits") {
			d.behavior = isolated
		}
		return d
	case "FixedLength":
		return fixedLength(l.length(o))
	case "CharDelimiterSplit":
		return delimiter{pattern: matchString([]rune{l.character(o, "delimiter")})}
	case "Split":
		return delimiter{pattern: l.pattern(o), behavior: l.behavior(o), inverted: o.flag("invert")}
	case "ByteLevel":
		return l.byteLevel(o)
	case "Metaspace":
		return l.metaspace(o)
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

func (l *loader) precompiled(o *object) normalizer {
	place := o.at("precompiled_charsmap")
	p, err := newPrecompiled(decode[[]byte](l, place, o.value("precompiled_charsmap"), "base64"))
	if err != nil {
		l.invalid(place, "%v", err)
	}
	return p
}

func (l *loader) byteLevel(o *object) preTokenizer {
	b := byteLevel{prefix: o.flag("add_prefix_space")}
	o.ignore("trim_offsets") // a matter of the post-processor
	if v := o.value("use_regex"); v == nil || decode[bool](l, o.at("use_regex"), v, "a boolean") {
		b.pattern = delimiter{pattern: matcher(matchGPT2), behavior: isolated}
	}
	return b
}

func (l *loader) metaspace(o *object) preTokenizer {
	m := metaspace{replacement: l.character(o, "replacement")}
	o.ignore("str_rep") // the replacement again, in old files
	if v := o.value("prepend_scheme"); v != nil {
		name := l.text(o.at("prepend_scheme"), v)
		prepend, ok := schemes[name]
		if !ok {
			l.unsupported(o.at("prepend_scheme"), "%.100q", name)
		}
		m.prepend = prepend
	}
	if v := o.value("add_prefix_space"); v != nil && !decode[bool](l, o.at("add_prefix_space"), v, "a boolean") {
		m.prepend = never // in old files, which have no scheme
	}
	if v := o.value("split"); v == nil || decode[bool](l, o.at("split"), v, "a boolean") {
		m.splits = delimiter{pattern: matchString([]rune{m.replacement}), behavior: mergedWithNext}
	}
	return m
}

// length reads how many characters a word has, 5 where it is missing.
func (l *loader) length(o *object) int {
	n := uint64(5)
	if v := o.value("length"); v != nil {
		n = decode[uint64](l, o.at("length"), v, "a number from 0 on")
	}
	if n == 0 {
		l.invalid(o.at("length"), "it is 0")
	}
	return int(min(max(n, 1), math.MaxInt32))
}

// character reads a string of one character.
func (l *loader) character(o *object, key string) rune {
	runes := []rune(o.text(key))
	if len(runes) != 1 {
		l.invalid(o.at(key), "it is not one character")
		return 0
	}
	return runes[0]
}

// pattern reads the pattern of Replace and Split: {"String": "..."} or {"Regex": "..."}.
func (l *loader) pattern(o *object) pattern {
	place := o.at("pattern")
	p := l.object(place, o.value("pattern"))
	defer p.end()
	if v := p.value("Regex"); v != nil {
		pattern, err := newPattern(l.text(p.at("Regex"), v))
		if err != nil {
			l.unsupported(place, "the regular expression %.300s: %v", v, err)
		}
		return pattern
	}
	s := p.text("String")
	if s == "" {
		l.unsupported(place, "an empty pattern")
	}
	return matchString([]rune(s))
}

func (l *loader) behavior(o *object) behavior {
	name := o.text("behavior")
	b, ok := behaviors[name]
	if !ok {
		l.unsupported(o.at("behavior"), "%.100q", name)
	}
	return b
}

// postProcessor reads what puts special tokens around texts. In a sequence there may be one that does, and before it others that
// only trim offsets.
func (l *loader) postProcessor(t *parts, place string, raw json.RawMessage, depth int) {
	o := l.object(place, raw)
	defer o.end()
	switch kind := o.kind(); kind {
	case "BertProcessing":
		t.templates = l.around(o, 1)
	case "RobertaProcessing":
		t.trim = l.trimming(o)
		t.templates = l.around(o, 2)
	case "ByteLevel":
		t.trim = l.trimming(o)
		o.ignore("use_regex")
		if t.templates.adds() {
			l.unsupported(place, "behind special tokens")
		}
	case "TemplateProcessing":
		t.templates = l.templateProcessing(o)
	case "Sequence":
		elements(o, "processors", depth, func(place string, raw json.RawMessage, depth int) any {
			if t.templates.adds() {
				l.unsupported(place, "behind special tokens")
			}
			l.postProcessor(t, place, raw, depth)
			return nil
		})
	default:
		o.unknown(kind)
	}
}

func (l *loader) trimming(o *object) trimming {
	return trimming{on: o.flag("trim_offsets"), prefix: o.flag("add_prefix_space")}
}

// around reads templates with one special token before each text and one behind it. Before the second text BERT has none, and its
// tokens have the type id 1; RoBERTa has the one behind once more instead, and no type ids.
func (l *loader) around(o *object, separators int) templates {
	cls, sep := l.namedID(o.at("cls"), o.value("cls")), l.namedID(o.at("sep"), o.value("sep"))
	single := template{{special: []int32{cls}}, {sequence: firstSequence}, {special: []int32{sep}}}
	typeID := int32(1)
	if separators > 1 {
		typeID = 0
	}
	return templates{single: single, pair: append(single[:len(single):len(single)],
		templatePart{special: []int32{sep, sep}[:separators-1]},
		templatePart{sequence: secondSequence, typeID: typeID}, templatePart{special: []int32{sep}, typeID: typeID})}
}

func (l *loader) templateProcessing(o *object) templates {
	specials := l.specials(o)
	return templates{
		single: l.template(o.at("single"), o.value("single"), specials, "A"),
		pair:   l.template(o.at("pair"), o.value("pair"), specials, "A", "B"),
	}
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
			id := s.text("id")
			part.sequence, part.typeID = sequence(1+slices.Index(sequences, id)), s.id("type_id")
			if part.sequence == noSequence {
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
	if !slices.ContainsFunc(t, func(p templatePart) bool { return p.sequence != noSequence }) {
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
func (l *loader) addedTokens(t *parts, raws []json.RawMessage) {
	next := int32(t.model.size())
	byID := map[int32]addedToken{}
	t.ids = map[string]int32{}
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
		id, known := t.ids[a.content]
		if !known {
			if id = t.model.id([]rune(a.content)); id == none {
				id = next
				next++
			}
		}
		a.id = id
		t.ids[a.content] = id
		if _, again := byID[id]; !again {
			order = append(order, id)
		}
		byID[id] = a
	}
	for _, id := range order {
		l.addToken(t, byID[id])
	}
}

func (l *loader) addToken(t *parts, a addedToken) {
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
