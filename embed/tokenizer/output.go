package tokenizer

import "slices"

// output is the encoding of a text while it grows.
type output struct {
	Encoding
	trim  trimming
	first int // the place of the first token of the text, behind special ones
}

// token adds a token that stands for chars, of which there is at least one.
func (o *output) token(id int32, chars []char) {
	start, end := chars[0].start, chars[len(chars)-1].end
	if o.trim.on {
		start, end = o.trim.cut(chars, len(o.IDs) == o.first)
	}
	o.add(id, start, end)
}

// add adds a token that stands for the bytes of the text from start to end.
func (o *output) add(id, start, end int32) {
	o.IDs = append(o.IDs, id)
	o.Offsets = append(o.Offsets, [2]int{int(start), int(end)})
}

// special adds the special tokens of a part of a template, and gives the tokens that have none yet the part's type id.
func (o *output) special(part templatePart) {
	for _, id := range part.special {
		o.add(id, 0, 0)
	}
	for len(o.TypeIDs) < len(o.IDs) {
		o.TypeIDs = append(o.TypeIDs, part.typeID)
	}
}

// cut drops the tokens from the n-th on, of those without type ids.
func (o *output) cut(n int) { o.IDs, o.Offsets = o.IDs[:n], o.Offsets[:n] }

// remove drops the tokens from one to before another, of those without type ids.
func (o *output) remove(from, to int) {
	o.IDs, o.Offsets = slices.Delete(o.IDs, from, to), slices.Delete(o.Offsets, from, to)
}

// unknown adds the token for chars that the model has no token for.
func (o *output) unknown(id int32, chars []char) { o.add(id, chars[0].start, chars[len(chars)-1].end) }

// trimming leaves whitespace at the ends of a token out of its offsets, as RobertaProcessing and ByteLevel do.
type trimming struct {
	on bool
	// prefix: one space before the first token counts as made up, and is left in.
	prefix bool
}

// cut returns the offsets of a token that stands for chars, the first of a text or not.
func (t trimming) cut(chars []char, first bool) (start, end int32) {
	start, end = chars[0].start, chars[len(chars)-1].end
	lead, trail := 0, 0
	for lead < len(chars) && isBlank(chars[lead]) {
		lead++
	}
	for trail < len(chars) && isBlank(chars[len(chars)-1-trail]) {
		trail++
	}
	if t.prefix && lead == 1 && (first || start == 0) {
		lead = 0
	}
	if lead > 0 {
		start = chars[lead-1].end
	}
	if trail > 0 {
		end = max(start, chars[len(chars)-trail].start)
	}
	return start, end
}

// isBlank reports whether c is whitespace, or what a space is on the byte level.
func isBlank(c char) bool { return isSpace(c) || c.r == byteChars[' '] }
