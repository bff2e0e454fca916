package tokenizer

// template says what the ids of a text are put together from.
type template []templatePart

// templatePart is the tokens of the text, or special tokens.
type templatePart struct {
	sequence bool
	special  []int32
	typeID   int32
}

// specials is the number of special tokens that the template adds.
func (t template) specials() (n int) {
	for _, p := range t {
		n += len(p.special)
	}
	return n
}

// plain is the template where a file has no post-processor.
var plain = template{{sequence: true}}
