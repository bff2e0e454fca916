package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// flags are options of a group: (?i), and that it looks behind.
type flags struct{ fold, behind bool }

// parser reads a regular expression.
type parser struct {
	rest     []rune
	charsets []charset
	cased    []charset // the same for characters that are cased, and ASCII
	folds    bool      // some of these are others
	bounds   []rune
	sets     map[string]int // of charsets, by how they are written
	deepest  int            // how deep the classes in the last class are
}

func (p *parser) at(s string) bool {
	return strings.HasPrefix(string(p.rest[:min(len(p.rest), len(s))]), s)
}

// skip goes behind s where it stands here.
func (p *parser) skip(s string) bool {
	if !p.at(s) {
		return false
	}
	p.rest = p.rest[utf8.RuneCountInString(s):]
	return true
}

func (p *parser) next() rune {
	r := p.rest[0]
	p.rest = p.rest[1:]
	return r
}

// alternatives reads up to the end or a closing parenthesis.
func (p *parser) alternatives(f flags, depth int) (expression, error) {
	if depth > maxGroups {
		return nil, errors.New("groups nested too deep")
	}
	all := choice{sequenceOf{}}
	for len(p.rest) > 0 && p.rest[0] != ')' {
		if p.skip("|") {
			all = append(all, sequenceOf{})
			continue
		}
		part, err := p.part(f, depth)
		if err != nil {
			return nil, err
		}
		last := len(all) - 1
		all[last] = all[last].(sequenceOf).join(part)
	}
	if len(all) == 1 {
		return all[0], nil
	}
	for i, one := range all {
		var err error
		if all[i], err = p.unfold(one, f); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// part reads something and how often it is repeated.
func (p *parser) part(f flags, depth int) (expression, error) {
	e, err := p.atom(f, depth)
	for err == nil && len(p.rest) > 0 {
		var repeats bool
		if e, repeats, err = p.repeated(e, f); !repeats {
			break
		}
	}
	return e, err
}

// repeated reads what says how often a part is repeated.
func (p *parser) repeated(e expression, f flags) (_ expression, repeats bool, err error) {
	r := repetition{}
	interval := false
	switch {
	case p.skip("*"):
		r.most = -1
	case p.skip("+"):
		r.least, r.most = 1, -1
	case p.skip("?"):
		r.most = 1
	default:
		if r.least, r.most, interval = p.interval(); !interval {
			return e, false, nil
		}
	}
	if e.empty() {
		return nil, true, errors.New("a repetition of what may match nothing")
	}
	if r.part, err = p.unfold(e, f); err != nil {
		return nil, true, err
	}
	if r.most >= 0 && (r.least > r.most || r.most > maxNodes) || r.least > maxNodes {
		return nil, true, fmt.Errorf("a repetition from %d to %d times", r.least, r.most)
	}
	switch {
	case p.at("?") && interval && r.least == r.most:
		return nil, true, errors.New("a lazy repetition of a fixed number")
	case p.skip("?"):
		r.lazy = true
	case !interval && p.skip("+"):
		return group{r}, true, nil
	}
	return r, true, nil
}

// interval reads {n}, {n,}, {,m} or {n,m}. Other braces are characters.
func (p *parser) interval() (least, most int, ok bool) {
	end := slices.Index(p.rest, '}')
	if p.rest[0] != '{' || end < 0 {
		return 0, 0, false
	}
	low, high, both := strings.Cut(string(p.rest[1:end]), ",")
	if !both {
		high = low
	}
	number := func(s string, empty int) int {
		if s == "" {
			return empty
		}
		n, err := strconv.ParseUint(s, 10, 31)
		ok = ok && err == nil
		return int(n)
	}
	ok = low+high != ""
	least, most = number(low, 0), number(high, -1)
	if ok {
		p.rest = p.rest[end+1:]
	}
	return least, most, ok
}

// places are the escapes and signs of places.
var places = map[string]place{
	"^": lineBegins, "$": lineEnds, `\A`: textBegins, `\z`: textEnds, `\Z`: lastLineEnds, `\b`: wordEdge, `\B`: noWordEdge,
}

func (p *parser) atom(f flags, depth int) (expression, error) {
	for sign, place := range places {
		if p.skip(sign) {
			return p.place(place)
		}
	}
	before := p.rest
	var set charset
	var err error
	switch {
	case p.skip("("):
		return p.group(f, depth)
	case p.skip("["):
		return p.wholeClass(f)
	case p.skip("."):
		set = between('\n', '\n').negated()
	case p.at(`\`):
		var r rune
		var is bool
		if r, is, err = p.character(); err == nil && is {
			return p.letter(r, f)
		} else if err == nil {
			set, err = p.escape(false)
		}
	case slices.Contains([]rune("*+?"), p.rest[0]):
		err = errors.New("a repetition of nothing")
	default:
		return p.letter(p.next(), f)
	}
	if err != nil {
		return nil, err
	}
	return p.set(string(before[:len(before)-len(p.rest)]), set)
}

// letter is a character that stands for itself.
func (p *parser) letter(r rune, f flags) (expression, error) {
	if f.fold {
		return literal{r}, nil
	}
	set, err := p.characters(r, -1)
	if err != nil {
		return nil, err
	}
	return p.set("letter "+string(r), set)
}

func (p *parser) place(place place) (expression, error) {
	if place != wordEdge && place != noWordEdge {
		return at{place: place}, nil
	}
	words, err := p.set("", kindSet("word"))
	if err != nil {
		return nil, err
	}
	return at{place, uint64(words)}, nil
}

// set gives a charset a bit, the same for all that are written alike.
func (p *parser) set(written string, s charset) (oneOf, error) {
	return p.casedSet(written, s, s)
}

// casedSet is set for one that has other characters among those that are cased.
func (p *parser) casedSet(written string, s, cased charset) (oneOf, error) {
	i, ok := p.sets[written]
	if !ok {
		if i = len(p.charsets); i == maxSets {
			return 0, fmt.Errorf("more than %d different characters and classes", maxSets)
		}
		p.sets[written] = i
		p.charsets, p.cased = append(p.charsets, s), append(p.cased, cased)
	}
	return oneOf(1 << i), nil
}

// group reads behind an opening parenthesis.
func (p *parser) group(f flags, depth int) (expression, error) {
	plain, behind := false, f.behind
	wrap := func(e expression) expression { return e }
	looks := func(behind, negated bool) func(e expression) expression {
		return func(e expression) expression { return around{e, behind, negated} }
	}
	switch {
	case p.skip("?:"):
		plain = true
	case p.skip("?>"):
		wrap = func(e expression) expression { return group{e} }
	case p.skip("?="):
		wrap = looks(false, false)
	case p.skip("?!"):
		wrap = looks(false, true)
	case p.skip("?<="):
		wrap, behind = looks(true, false), true
	case p.skip("?<!"):
		wrap, behind = looks(true, true), true
	case p.skip("?i:"):
		f.fold = true
	case p.skip("?-i:"):
		f.fold = false
	case p.skip("?i)"): // for what follows in the group around, alternatives too
		f.fold = true
		e, err := p.alternatives(f, depth+1)
		if err != nil {
			return nil, err
		}
		return p.unfold(e, f)
	case p.at("?"), p.at("*"):
		return nil, fmt.Errorf("the group (%.10s", string(p.rest))
	}
	f.behind = behind
	e, err := p.alternatives(f, depth+1)
	if err == nil && !p.skip(")") {
		err = errors.New("a parenthesis too few")
	}
	if err == nil && !plain { // in a plain one, letters belong to those before and behind it
		e, err = p.unfold(e, f)
	}
	if err != nil {
		return nil, err
	}
	return wrap(e), nil
}

// wholeClass reads behind the opening bracket of a class that is in no other.
func (p *parser) wholeClass(f flags) (expression, error) {
	before := p.rest
	p.deepest = 0
	set, negated, err := p.members(0)
	if err != nil {
		return nil, err
	}
	written := fmt.Sprint(f.fold, string(before[:len(before)-len(p.rest)]))
	if !f.fold {
		if negated {
			set = set.negated()
		}
		return p.set(written, set)
	}
	return p.foldedClass(written, set, negated, f)
}

// class reads behind the opening bracket of a class in a class.
func (p *parser) class(depth int) (charset, error) {
	set, negated, err := p.members(depth)
	if err == nil && negated {
		set = set.negated()
	}
	return set, err
}

// members reads what is in a class, or is not where it is negated.
func (p *parser) members(depth int) (set charset, negated bool, err error) {
	if depth > maxGroups {
		return nil, false, errors.New("classes nested too deep")
	}
	p.deepest = max(p.deepest, depth)
	negated = p.skip("^")
	var all charset // of what stands before &&
	set = emptySet
	empty := true
	for !p.skip("]") {
		if len(p.rest) == 0 {
			return nil, false, errors.New("a bracket too few")
		}
		if p.skip("&&") {
			if depth > 0 {
				return nil, false, errors.New("an intersection in a class in a class")
			}
			if all == nil {
				all = set
			} else {
				all = all.and(set)
			}
			set, empty = emptySet, true
			continue
		}
		member, err := p.member(depth)
		if err != nil {
			return nil, false, err
		}
		set, empty = set.or(member), false
	}
	if empty {
		return nil, false, errors.New("an empty class")
	}
	if all != nil {
		set = all.and(set)
		if negated || p.deepest > 1 { // the original has its own mind about negations in and around them
			return nil, false, errors.New("an intersection of classes with classes in them, or negated")
		}
	}
	return set, negated, nil
}

// member reads a character, a range or a class in a class.
func (p *parser) member(depth int) (charset, error) {
	switch {
	case p.at("[:"):
		return p.posix()
	case p.skip("["):
		return p.class(depth + 1)
	}
	low, set, err := p.inClass()
	if err != nil || set != nil {
		return set, err
	}
	high := rune(-1)
	if p.at("-") && !p.at("-]") {
		p.skip("-")
		if p.at("[") || p.at("&&") {
			return nil, errors.New("a range that ends in a class")
		}
		if high, set, err = p.inClass(); err != nil || set != nil {
			return nil, errors.Join(err, errors.New("a range that ends in a class"))
		}
	}
	return p.characters(low, high)
}

// inClass reads a character in a class, or a set that is no character.
func (p *parser) inClass() (rune, charset, error) {
	if len(p.rest) == 0 {
		return 0, nil, errors.New("a bracket too few")
	}
	if !p.at(`\`) {
		return p.next(), nil, nil
	}
	if r, ok, err := p.character(); ok || err != nil {
		return r, nil, err
	}
	set, err := p.escape(true)
	return 0, set, err
}

// posix reads [:alpha:].
func (p *parser) posix() (charset, error) {
	p.skip("[:")
	name, rest, closed := strings.Cut(string(p.rest), ":]")
	if !closed {
		return nil, errors.New("a bracket too few")
	}
	p.rest = []rune(rest)
	name, negated := strings.CutPrefix(name, "^")
	set, err := namedSet(name)
	if name == "punct" {
		set = set.or(kindSet("s")) // here alone
	}
	if err == nil && negated {
		set = set.negated()
	}
	return set, err
}

// characters are those from low to high, or low alone where high is -1.
func (p *parser) characters(low, high rune) (charset, error) {
	if high < 0 {
		high = low
	}
	if low > high {
		return nil, fmt.Errorf("a range from %q to %q", low, high)
	}
	p.bounds = append(p.bounds, low, high+1)
	return between(low, high), nil
}

// controls are the escapes of characters.
var controls = map[rune]rune{'t': '\t', 'n': '\n', 'r': '\r', 'f': '\f', 'v': '\v', 'a': '\a', 'e': 0x1b}

// character reads an escape that is one character; ok is false, and nothing is read, where it is none.
func (p *parser) character() (r rune, ok bool, err error) {
	if len(p.rest) < 2 {
		return 0, false, errors.New("a backslash at the end")
	}
	r = p.rest[1]
	switch c := controls[r]; {
	case c != 0:
		p.rest = p.rest[2:]
		return c, true, nil
	case r == 'x' || r == 'u':
		p.rest = p.rest[2:]
		r, err = p.hexadecimal(r)
		return r, true, err
	case r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)):
		return 0, false, nil
	}
	p.rest = p.rest[2:]
	return r, true, nil
}

// hexadecimal reads what follows \x or \u.
func (p *parser) hexadecimal(sign rune) (rune, error) {
	digits, largest := 2, int64(0x7f) // others are bytes
	if sign == 'u' {
		digits, largest = 4, utf8.MaxRune
	}
	end := slices.Index(p.rest, '}')
	braces := sign == 'x' && p.skip("{") && end > 0
	if braces {
		digits, largest = end-1, utf8.MaxRune
	}
	if len(p.rest) < digits {
		return 0, errors.New("a hexadecimal number")
	}
	n, err := strconv.ParseUint(string(p.rest[:digits]), 16, 32)
	if err != nil || int64(n) > largest || !utf8.ValidRune(rune(n)) {
		return 0, fmt.Errorf("the hexadecimal number %.20q", string(p.rest[:digits]))
	}
	p.rest = p.rest[digits:]
	if braces {
		p.skip("}")
	}
	return rune(n), nil
}

// escape reads an escape that is no character.
func (p *parser) escape(inClass bool) (set charset, err error) {
	p.next()
	sign := p.next()
	switch unicode.ToLower(sign) {
	case 's':
		set = kindSet("space")
	case 'd':
		set = kindSet("nd")
	case 'h':
		set, err = namedSet("xdigit")
	case 'w':
		if set = kindSet("word"); inClass {
			set = kindSet("wordclass") // superscripts and fractions of Latin-1 are not in it
		}
	case 'p':
		set, err = p.property()
	default:
		err = fmt.Errorf(`the escape \%c`, sign)
	}
	if err == nil && unicode.IsUpper(sign) {
		set = set.negated()
	}
	return set, err
}

// property reads what follows \p.
func (p *parser) property() (charset, error) {
	end := slices.Index(p.rest, '}')
	if !p.at("{") || end < 0 {
		return nil, errors.New(`\p without a name`)
	}
	name, negated := strings.CutPrefix(string(p.rest[1:end]), "^")
	p.rest = p.rest[end+1:]
	set, err := namedSet(name)
	if err == nil && negated {
		set = set.negated()
	}
	return set, err
}
