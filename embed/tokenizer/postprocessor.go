package tokenizer

// template says what the ids of a text, or of two, are put together from.
type template []templatePart

// templatePart is the tokens of a text, or special tokens.
type templatePart struct {
	sequence sequence
	special  []int32
	typeID   int32
}

// sequence is which text a part of a template stands for.
type sequence int

const (
	noSequence sequence = iota
	firstSequence
	secondSequence
)

// count returns how many special tokens the template adds, and how often it has a text.
func (t template) count(s sequence) (specials, sequences int) {
	for _, p := range t {
		specials += len(p.special)
		if p.sequence == s {
			sequences++
		}
	}
	return specials, sequences
}

// templates are what a file's post-processor makes of one text and of two.
type templates struct{ single, pair template }

// adds reports whether there are special tokens.
func (t templates) adds() bool {
	specials, _ := t.single.count(firstSequence)
	pairs, _ := t.pair.count(firstSequence)
	return specials+pairs > 0
}

// plain are the templates where a file has no post-processor that adds tokens.
var plain = templates{
	single: template{{sequence: firstSequence}},
	pair:   template{{sequence: firstSequence}, {sequence: secondSequence, typeID: 1}},
}
