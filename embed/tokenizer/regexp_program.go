package tokenizer

// program is a regular expression, as nodes that each match a rest of the expression at a place of a text: where what they match ends is
// a number for each place, which only depends on the numbers of other nodes there and one place further. So a text is walked once, from
// its end to its beginning, and the time is the nodes times the characters, whatever the expression and the text. The order of
// choices is that of a matcher that goes back and forth, such as the original's.
type program struct {
	nodes []node // each behind those that it depends on at the same place
	start int32
	kept  []int32 // the nodes behind atomic ones
	masks masks
	empty bool // it may match nothing
}

// operation is what a node does.
type operation uint8

const (
	matched  operation = iota // it is the end
	consume                   // a character in a set, then next
	choose                    // next, else other
	assert                    // next, where the place is right
	follows                   // next, where other matches from here on
	notAhead                  // next, where other does not match from here on
	precedes                  // next, where characters in the sets stand before here
	atomic                    // other, the best way alone, then next from where it ends
)

// node is one of a program's.
type node struct {
	op          operation
	place       place
	negated     bool // of precedes
	next, other int32
	set         uint64     // the bit of the set in the masks; of assert: of the characters of words
	before      [][]uint64 // of precedes: the sets, in the order of the text, one list of which has to fit
	empty       bool       // of atomic: other may match nothing
	kept        int        // of atomic: where next stands among those that are kept
}

// place is what assert asks for.
type place uint8

const (
	lineBegins place = iota
	lineEnds
	textBegins
	textEnds
	lastLineEnds
	wordEdge
	noWordEdge
)

// columns has the buffers of a program: where the match of each node ends, at a place and the next one; none where it matches nothing.
type columns struct {
	here, next []int32
	starts     []int32   // where the match of the whole program ends, by the place where it begins
	kept       [][]int32 // the ends of nodes behind atomic ones, by place
	spans      []span
}

// spans appends where the program matches in chars: from the left, each match behind the one before, and none that is empty right there.
func (p *program) spans(dst []span, chars []char, c *columns) []span {
	p.fill(chars, c)
	last := none // where the last match ends
	for i := 0; i <= len(chars); {
		to := int(c.starts[i])
		if to == none || to == i && i == last {
			i++
			continue
		}
		dst = append(dst, span{i, to})
		i, last = to, to
	}
	return dst
}

// fill fills the starts of c.
func (p *program) fill(chars []char, c *columns) {
	c.here, c.next = resized(c.here, len(p.nodes)), resized(c.next, len(p.nodes))
	c.starts = resized(c.starts, len(chars)+1)
	for i := range p.kept {
		if i == len(c.kept) {
			c.kept = append(c.kept, nil)
		}
		c.kept[i] = resized(c.kept[i], len(chars)+1)
	}
	for at := len(chars); at >= 0; at-- {
		mask := uint64(0) // of the character here; there is none at the end
		if at < len(chars) {
			mask = p.masks.of(chars[at].r)
		}
		p.column(chars, at, mask, c)
		c.starts[at] = c.here[p.start]
		for i, n := range p.kept {
			c.kept[i][at] = c.here[n]
		}
		c.here, c.next = c.next, c.here
	}
}

// column fills here from next.
func (p *program) column(chars []char, at int, mask uint64, c *columns) {
	here, next := c.here[:len(p.nodes)], c.next[:len(p.nodes)]
	for i := range p.nodes {
		n := &p.nodes[i]
		end := int32(none)
		switch n.op {
		case matched:
			end = int32(at)
		case consume:
			if mask&n.set != 0 {
				end = next[n.next]
			}
		case choose:
			if end = here[n.next]; end == none {
				end = here[n.other]
			}
		case assert:
			if p.is(n, chars, at) {
				end = here[n.next]
			}
		case follows, notAhead:
			if here[n.other] != none == (n.op == follows) {
				end = here[n.next]
			}
		case precedes:
			if p.precedes(n.before, chars[:at]) != n.negated {
				end = here[n.next]
			}
		case atomic:
			if to := here[n.other]; to == int32(at) {
				end = here[n.next]
			} else if to != none {
				end = c.kept[n.kept][to]
			}
		}
		here[i] = end
	}
}

// precedes reports whether chars end with characters of one of the lists of sets.
func (p *program) precedes(lists [][]uint64, chars []char) bool {
	for _, sets := range lists {
		fits := len(sets) <= len(chars)
		for i := 0; fits && i < len(sets); i++ {
			fits = p.masks.of(chars[len(chars)-len(sets)+i].r)&sets[i] != 0
		}
		if fits {
			return true
		}
	}
	return false
}

// is reports whether a place is the one that n asks for.
func (p *program) is(n *node, chars []char, at int) bool {
	last := at == len(chars)
	newline := !last && chars[at].r == '\n'
	switch n.place {
	case lineBegins:
		return at == 0 || !last && chars[at-1].r == '\n'
	case lineEnds:
		return last || newline
	case textBegins:
		return at == 0
	case textEnds:
		return last
	case lastLineEnds:
		return last || newline && at == len(chars)-1
	default:
		before := at > 0 && p.masks.of(chars[at-1].r)&n.set != 0
		behind := !last && p.masks.of(chars[at].r)&n.set != 0
		return (before != behind) == (n.place == wordEdge)
	}
}

func resized(s []int32, n int) []int32 {
	if cap(s) < n {
		return make([]int32, n)
	}
	return s[:n]
}
