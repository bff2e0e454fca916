package tokenizer

// trie finds strings by their characters. Node 0 is the root. Its edges lie in one hash table with open addressing: a step
// costs about one cache line, whatever the number of strings.
type trie struct {
	edges []edge // a power of two, at most half full
	used  int
	nodes uint32
}

// edge leads from a node over a character to another node.
type edge struct {
	key   uint64 // the node and the character, plus 1; 0: no edge
	node  uint32
	value int32 // of the string that ends at node; none: it ends no string
}

const none = -1

func newTrie() *trie { return &trie{edges: make([]edge, 64), nodes: 1} }

// find returns the place of an edge, or the free place where it belongs.
func (t *trie) find(key uint64) int {
	// Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4): the high bits of the product.
	h := key * 0x9e3779b97f4a7c15
	mask := len(t.edges) - 1
	i := int(h>>32) & mask
	for t.edges[i].key != 0 && t.edges[i].key != key {
		i = (i + 1) & mask
	}
	return i
}

func edgeKey(node uint32, r rune) uint64 { return uint64(node)<<21 | uint64(r) + 1 }

// next steps from a node over r; ok is false where no string goes on like that.
func (t *trie) next(node uint32, r rune) (e edge, ok bool) {
	e = t.edges[t.find(edgeKey(node, r))]
	return e, e.key != 0
}

// insert gives s a value; s is not empty.
func (t *trie) insert(s []rune, value int32) {
	node := uint32(0)
	for i, r := range s {
		key := edgeKey(node, r)
		at := t.find(key)
		if t.edges[at].key == 0 {
			if 2*(t.used+1) > len(t.edges) {
				t.grow()
				at = t.find(key)
			}
			t.edges[at] = edge{key, t.nodes, none}
			t.used++
			t.nodes++
		}
		if i == len(s)-1 {
			t.edges[at].value = value
		}
		node = t.edges[at].node
	}
}

func (t *trie) grow() {
	old := t.edges
	t.edges = make([]edge, 2*len(old))
	for _, e := range old {
		if e.key != 0 {
			t.edges[t.find(e.key)] = e
		}
	}
}

// walk returns the last edge of the way of s from a node. The way of nothing ends where it begins, without a value.
func (t *trie) walk(node uint32, s []rune) (e edge, ok bool) {
	e = edge{node: node, value: none}
	for _, r := range s {
		if e, ok = t.next(e.node, r); !ok {
			return edge{}, false
		}
	}
	return e, true
}

// value returns the value of s, or none.
func (t *trie) value(s []rune) int32 {
	if e, ok := t.walk(0, s); ok {
		return e.value
	}
	return none
}

// longest returns the value and length of the longest string that chars begin with, on the way from a node.
func (t *trie) longest(node uint32, chars []char) (value int32, length int) {
	value = none
	for i, c := range chars {
		e, ok := t.next(node, c.r)
		if !ok {
			break
		}
		if e.value != none {
			value, length = e.value, i+1
		}
		node = e.node
	}
	return value, length
}
