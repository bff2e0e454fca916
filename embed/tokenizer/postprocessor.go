package tokenizer

// template says what the ids of a text are put together from.
type template []templatePart

// templatePart is the tokens of the text, or special tokens.
type templatePart struct {
	sequence bool
	special  []int32
	typeID   int32
}

// count returns how many special tokens the template adds, and how often the text stands in it, at least once.
func (t template) count() (specials, sequences int) {
	for _, p := range t {
		specials += len(p.special)
		if p.sequence {
			sequences++
		}
	}
	return specials, sequences
}

// plain is the template where a file has no post-processor.
var plain = template{{sequence: true}}

// trimming leaves the whitespace that an added token took along out of its offsets, as RobertaProcessing does.
type trimming struct {
	on bool
	// prefix: one space before the first token counts as made up, and is left in.
	prefix bool
}

// add appends an added token that chars stand for; first is the place of the text's first token in dst.
func (t trimming) add(dst *Encoding, id int32, chars []char, first int) {
	start, end := chars[0].start, chars[len(chars)-1].end
	if t.on {
		lead, trail := 0, 0
		for lead < len(chars) && isSpace(chars[lead]) {
			lead++
		}
		for trail < len(chars) && isSpace(chars[len(chars)-1-trail]) {
			trail++
		}
		if t.prefix && lead == 1 && (len(dst.IDs) == first || start == 0) {
			lead = 0
		}
		if lead > 0 {
			start = chars[lead-1].end
		}
		if trail > 0 {
			end = max(start, chars[len(chars)-trail].start)
		}
	}
	dst.add(id, start, end)
}
