package tokenizer

import (
	"errors"
	"fmt"
	"slices"
)

// What bounds a regular expression.
const (
	maxLength = 4096 // characters
	maxNodes  = 2000
	maxSets   = 64
	maxBounds = 128 // characters at which ranges begin or end
	maxGroups = 50  // one in the other
	maxKept   = 128 // atomic groups, each of which takes four bytes a character
)

// compile makes a program of a regular expression as the original's library, Oniguruma, reads it. It is an error where the expression has
// something that is not known here.
func compile(expression string) (*program, error) {
	p := &parser{rest: []rune(expression), sets: map[string]int{}}
	if len(p.rest) > maxLength {
		return nil, fmt.Errorf("more than %d characters", maxLength)
	}
	root, err := p.alternatives(flags{}, 0)
	if err == nil && len(p.rest) > 0 {
		err = errors.New("a parenthesis too many")
	}
	if err == nil {
		root, err = p.unfold(root, flags{})
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(p.bounds)
	if p.bounds = slices.Compact(p.bounds); len(p.bounds) > maxBounds {
		return nil, fmt.Errorf("more than %d different ranges", maxBounds/2)
	}
	b := &builder{}
	start, err := b.build(root, b.add(node{op: matched}))
	if err != nil {
		return nil, err
	}
	program := b.program(start, newMasks(p.charsets, p.cased, p.folds, p.bounds))
	program.empty = root.empty()
	if len(program.kept) > maxKept {
		return nil, fmt.Errorf("more than %d atomic groups and possessive repetitions", maxKept)
	}
	return program, nil
}

// expression is a part of a regular expression.
type expression interface {
	// empty reports whether it may match no character.
	empty() bool
}

type (
	// oneOf is a character in a set, by its bit.
	oneOf uint64
	// literal are characters in any case, until it is known what stands beside them.
	literal    []rune
	sequenceOf []expression
	choice     []expression
	// repetition is a part some times over, the more the better, or the fewer where it is lazy.
	repetition struct {
		part        expression
		least, most int // most -1: as often as it fits
		lazy        bool
	}
	// group is a part that is not tried in another way once it fits.
	group struct{ part expression }
	// at is a place; set are the characters of words.
	at struct {
		place place
		set   uint64
	}
	// around is a part that stands before or behind, and is not taken.
	around struct {
		part            expression
		behind, negated bool
	}
)

func (oneOf) empty() bool   { return false }
func (literal) empty() bool { return false }
func (s sequenceOf) empty() bool {
	return !slices.ContainsFunc(s, func(e expression) bool { return !e.empty() })
}
func (c choice) empty() bool     { return slices.ContainsFunc(c, expression.empty) }
func (r repetition) empty() bool { return r.least == 0 || r.part.empty() }
func (g group) empty() bool      { return g.part.empty() }
func (at) empty() bool           { return true }
func (around) empty() bool       { return true }
