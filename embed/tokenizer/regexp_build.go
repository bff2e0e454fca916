package tokenizer

import (
	"errors"
	"fmt"
)

// builder makes the nodes of a program of an expression.
type builder struct{ nodes []node }

func (b *builder) add(n node) int32 {
	b.nodes = append(b.nodes, n)
	return int32(len(b.nodes) - 1)
}

// build adds the nodes of an expression that next follows, and answers the first.
func (b *builder) build(e expression, next int32) (first int32, err error) {
	if len(b.nodes) > maxNodes {
		return 0, errors.New("an expression that is too large")
	}
	switch e := e.(type) {
	case oneOf:
		return b.add(node{op: consume, set: uint64(e), next: next}), nil
	case at:
		return b.add(node{op: assert, place: e.place, set: e.set, next: next}), nil
	case sequenceOf:
		for i := len(e) - 1; i >= 0 && err == nil; i-- {
			next, err = b.build(e[i], next)
		}
		return next, err
	case choice:
		for i := len(e) - 1; i >= 0 && err == nil; i-- {
			var one int32
			if one, err = b.build(e[i], next); i == len(e)-1 {
				first = one
			} else {
				first = b.add(node{op: choose, next: one, other: first})
			}
		}
		return first, err
	case repetition:
		return b.repeat(e, next)
	case group:
		end := b.add(node{op: matched})
		other, err := b.build(e.part, end)
		return b.add(node{op: atomic, next: next, other: other, empty: e.empty()}), err
	case around:
		return b.around(e, next)
	default:
		return 0, fmt.Errorf("a part %T", e)
	}
}

// repeat adds a repetition: as often as it has to be, and then as often as it may be, or as it fits.
func (b *builder) repeat(r repetition, next int32) (first int32, err error) {
	choose := func(part, behind int32) node {
		if r.lazy {
			part, behind = behind, part
		}
		return node{op: choose, next: part, other: behind}
	}
	behind := next
	if r.most < 0 {
		loop := b.add(node{}) // known once the part is that it leads to
		part, err := b.build(r.part, loop)
		if err != nil {
			return 0, err
		}
		b.nodes[loop] = choose(part, next)
		behind = loop
	}
	for range r.most - r.least {
		part, err := b.build(r.part, behind)
		if err != nil {
			return 0, err
		}
		behind = b.add(choose(part, next))
	}
	for range r.least {
		if behind, err = b.build(r.part, behind); err != nil {
			return 0, err
		}
	}
	return behind, nil
}

// around adds a look ahead or behind.
func (b *builder) around(a around, next int32) (int32, error) {
	if a.behind {
		lists, err := lengths(a.part)
		return b.add(node{op: precedes, negated: a.negated, before: lists, next: next}), err
	}
	n := node{op: follows, next: next}
	if a.negated {
		n.op = notAhead
	}
	var err error
	n.other, err = b.build(a.part, b.add(node{op: matched}))
	return b.add(n), err
}

// lengths are the sequences of sets that an expression stands for, which looks behind.
func lengths(e expression) ([][]uint64, error) {
	switch e := e.(type) {
	case oneOf:
		return [][]uint64{{uint64(e)}}, nil
	case choice:
		var all [][]uint64
		for _, part := range e {
			lists, err := lengths(part)
			if err != nil {
				return nil, err
			}
			all = append(all, lists...)
		}
		return all, nil
	case sequenceOf:
		sets := []uint64{}
		for _, part := range e {
			one, ok := part.(oneOf)
			if !ok {
				return nil, errors.New("looking behind for more than single characters")
			}
			sets = append(sets, uint64(one))
		}
		return [][]uint64{sets}, nil
	default:
		return nil, errors.New("looking behind for more than single characters")
	}
}

// program is what was built, its nodes in order.
func (b *builder) program(start int32, m masks) *program {
	p := &program{masks: m}
	places := make([]int32, len(b.nodes)) // in the program, from 1 on
	var visit func(i int32)
	visit = func(i int32) {
		if places[i] > 0 {
			return
		}
		n := b.nodes[i]
		for _, other := range n.here() {
			visit(other)
		}
		p.nodes = append(p.nodes, n)
		places[i] = int32(len(p.nodes))
	}
	for i := range b.nodes {
		visit(int32(i))
	}
	for i := range p.nodes {
		n := &p.nodes[i]
		n.next, n.other = places[n.next]-1, places[n.other]-1
		if n.op == atomic {
			p.kept = append(p.kept, n.next)
			n.kept = len(p.kept) - 1
		}
	}
	p.start = places[start] - 1
	return p
}

// here are the nodes that a node depends on at its own place.
func (n node) here() []int32 {
	switch n.op {
	case assert, precedes:
		return []int32{n.next}
	case choose, follows, notAhead:
		return []int32{n.next, n.other}
	case atomic:
		if n.empty {
			return []int32{n.other, n.next}
		}
		return []int32{n.other}
	default:
		return nil
	}
}
