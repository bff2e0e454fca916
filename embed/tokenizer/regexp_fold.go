package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// With (?i), Oniguruma takes characters for the same of which the same becomes by Unicode's full case folding. So ß is what two letters s
// are, in either direction: a letter ß of an expression matches them, and two of them that stand side by side match a ß.

// folded is what becomes of a character where case is none.
func folded(r rune) []rune {
	if f, is := folds[r]; is {
		return f
	}
	return []rune{r}
}

// folded are the characters of s and all that differ from one of them by case alone.
func (s charset) folded() charset {
	return func(r rune, k uint8) bool {
		if s(r, k) || properties[r]&cased == 0 {
			return s(r, k)
		}
		return slices.ContainsFunc(alikes[string(folded(r))], func(o rune) bool { return s(o, kinds[o]) })
	}
}

// join appends parts to a sequence, and letters to the letters before them.
func (s sequenceOf) join(parts ...expression) sequenceOf {
	for _, part := range parts {
		last := len(s) - 1
		switch part := part.(type) {
		case sequenceOf: // of a group without any meaning of its own
			s = s.join(part...)
			continue
		case literal:
			if last >= 0 {
				if before, is := s[last].(literal); is {
					s[last] = slices.Concat(before, part)
					continue
				}
			}
		}
		s = append(s, part)
	}
	return s
}

// unfold makes sets of the letters of an expression, once it is known that none stands beside them.
func (p *parser) unfold(e expression, f flags) (expression, error) {
	switch e := e.(type) {
	case literal:
		return p.unfoldLiteral(e, f)
	case sequenceOf:
		all := sequenceOf{}
		for _, part := range e {
			one, err := p.unfold(part, f)
			if err != nil {
				return nil, err
			}
			all = all.join(one)
		}
		return all, nil
	default:
		return e, nil
	}
}

func (p *parser) unfoldLiteral(letters literal, f flags) (expression, error) {
	all := sequenceOf{}
	for len(letters) > 0 {
		several, n := severalOf(letters)
		one, err := p.alike(several)
		if err != nil {
			return nil, err
		}
		if len(several) > 1 {
			spelt, err := p.spelt(several)
			if err != nil {
				return nil, err
			}
			one = choice{one, spelt}
		}
		if f.behind && len(several) > 1 {
			return nil, fmt.Errorf("(?i) looking behind for %q", letters[:n])
		}
		all = append(all, one)
		letters = letters[n:]
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return all, nil
}

// maxFolded is how many characters become of one at most.
const maxFolded = 3

// severalOf returns what becomes of the first letter, or of the first n together where they are what becomes of one other.
func severalOf(letters []rune) (several []rune, n int) {
	first := folded(letters[0])
	if len(first) > 1 {
		return first, 1
	}
	for n := min(maxFolded, len(letters)); n > 1; n-- {
		var all []rune
		for _, r := range letters[:n] {
			all = append(all, folded(r)...)
		}
		if len(all) == n && len(alikes[string(all)]) > 0 {
			return all, n
		}
	}
	return first, 1
}

// alike is one character of those of which this becomes.
func (p *parser) alike(several []rune) (expression, error) {
	set := alikes[string(several)]
	if len(set) == 0 { // a single one without a case
		return p.letter(several[0], flags{})
	}
	p.folds = true
	return p.casedSet("alike "+string(several), emptySet, func(r rune, _ uint8) bool { return slices.Contains(set, r) })
}

// spelt are some characters one behind the other, each in any case.
func (p *parser) spelt(several []rune) (expression, error) {
	all := sequenceOf{}
	for _, r := range several {
		one, err := p.alike([]rune{r})
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// foldedClass is a class in any case: one of its characters, or what becomes of one where it is not negated.
func (p *parser) foldedClass(written string, set charset, negated bool, f flags) (expression, error) {
	p.folds = true
	cased := set.folded()
	var several []string
	for spelt, alike := range alikes {
		if !negated && utf8.RuneCountInString(spelt) > 1 && cased(alike[0], kinds[alike[0]]) {
			several = append(several, spelt)
		}
	}
	if f.behind && len(several) > 0 {
		return nil, errors.New("(?i) looking behind for a class with characters that stand for several")
	}
	if negated {
		set, cased = set.negated(), cased.negated()
	}
	one, err := p.casedSet(written, set, cased)
	if err != nil || len(several) == 0 {
		return one, err
	}
	slices.SortFunc(several, func(a, b string) int { // the order in which they are tried
		return cmp.Or(utf8.RuneCountInString(a)-utf8.RuneCountInString(b), strings.Compare(a, b))
	})
	all := choice{one}
	for _, s := range several {
		spelt, err := p.spelt([]rune(s))
		if err != nil {
			return nil, err
		}
		all = append(all, spelt)
	}
	return all, nil
}
