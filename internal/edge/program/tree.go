package program

import (
	"slices"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// node is a node of a radix tree of paths. Nodes never change once the edit
// that made them is done; until then its generation marks them as its own. All
// paths start with a slash, so every node has a prefix.
type node struct {
	// prefix is the text between the parent and this node.
	prefix string
	// edges lead to the children, in the order of their first bytes.
	edges []edge
	// rules have exactly the path that leads here, in their order.
	rules []*compiledRule
	// one is the memory of rules when there is one, as there mostly is: a
	// lookup then needs no further cache line for a list.
	one [1]*compiledRule
	// highest is the highest rank in this node and below, and top the highest in
	// this node.
	highest    route.Rank
	top        route.Rank
	generation uint64
}

// edge leads to a child by the first byte of its prefix.
type edge struct {
	first byte
	node  *node
}

// newNode makes a tree of one rule.
func newNode(e *edit, path string, rule *compiledRule) *node {
	n := &node{prefix: e.intern(path), generation: e.next.generation}
	n.setRules([]*compiledRule{rule})
	n.highest = rule.rank
	return n
}

// own returns a node that the edit may change: itself or a copy.
func (n *node) own(generation uint64) *node {
	if n.generation == generation {
		return n
	}
	owned := *n
	owned.generation = generation
	owned.edges = slices.Clone(n.edges)
	owned.setRules(slices.Clone(n.rules))
	return &owned
}

// setRules replaces the rules of the node and updates top.
func (n *node) setRules(rules []*compiledRule) {
	n.rules = rules
	if len(rules) == 1 {
		n.one[0] = rules[0]
		n.rules = n.one[:]
	}
	if len(rules) > 0 {
		n.top = rules[0].rank
	}
}

// insert adds a rule whose path continues with rest at the start of this node's
// prefix. The two have at least their first byte in common.
func (n *node) insert(e *edit, rest string, rule *compiledRule) *node {
	n = n.own(e.next.generation)
	common := commonLength(rest, n.prefix)
	if common < len(n.prefix) {
		n = n.split(e, common)
	}
	n.highest = max(n.highest, rule.rank)
	rest = rest[common:]
	if rest == "" {
		n.setRules(insertRule(n.rules, rule))
		return n
	}
	i, found := n.child(rest[0])
	if found {
		n.edges[i].node = n.edges[i].node.insert(e, rest, rule)
	} else {
		n.edges = slices.Insert(n.edges, i, edge{rest[0], newNode(e, rest, rule)})
	}
	return n
}

// split inserts a node between this one and its parent, after length bytes of
// the prefix.
func (n *node) split(e *edit, length int) *node {
	upper := &node{
		prefix:     e.intern(n.prefix[:length]),
		edges:      []edge{{n.prefix[length], n}},
		highest:    n.highest,
		generation: e.next.generation,
	}
	n.prefix = e.intern(n.prefix[length:])
	return upper
}

// remove removes a rule. It returns nil when no rule is left, and merges a node
// that has only one child left.
func (n *node) remove(e *edit, rest string, rule *compiledRule) *node {
	n = n.own(e.next.generation)
	rest = rest[len(n.prefix):]
	if rest == "" {
		n.setRules(removeRule(n.rules, rule))
	} else if i, found := n.child(rest[0]); found {
		n.edges[i].node = n.edges[i].node.remove(e, rest, rule)
		if n.edges[i].node == nil {
			n.edges = slices.Delete(n.edges, i, i+1)
		}
	}
	if len(n.rules) == 0 && len(n.edges) == 0 {
		return nil
	}
	if len(n.rules) == 0 && len(n.edges) == 1 {
		merged := n.edges[0].node.own(e.next.generation)
		merged.prefix = e.intern(n.prefix + merged.prefix)
		return merged
	}
	n.highest = n.highestRank()
	return n
}

// highestRank computes the highest rank of a node that has rules or children.
func (n *node) highestRank() route.Rank {
	var highest route.Rank
	if len(n.rules) > 0 {
		highest = n.top
	} else {
		highest = n.edges[0].node.highest
	}
	for i := range n.edges {
		highest = max(highest, n.edges[i].node.highest)
	}
	return highest
}

// child returns the index of the edge with a first byte, or where it would be
// inserted.
func (n *node) child(first byte) (int, bool) {
	low, high := 0, len(n.edges)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if n.edges[middle].first < first {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < len(n.edges) && n.edges[low].first == first
}

// all calls visit for every rule in the tree, until it returns false, and returns
// whether all were visited.
func (n *node) all(visit func(*compiledRule) bool) bool {
	if n == nil {
		return true
	}
	for _, rule := range n.rules {
		if !visit(rule) {
			return false
		}
	}
	for i := range n.edges {
		if !n.edges[i].node.all(visit) {
			return false
		}
	}
	return true
}

// rulesAt returns the rules with exactly this path.
func (n *node) rulesAt(path string) []*compiledRule {
	for strings.HasPrefix(path, n.prefix) {
		path = path[len(n.prefix):]
		if path == "" {
			return n.rules
		}
		i, found := n.child(path[0])
		if !found {
			break
		}
		n = n.edges[i].node
	}
	return nil
}

// commonLength is the length of the common prefix of two texts.
func commonLength(a, b string) int {
	most := min(len(a), len(b))
	for i := range most {
		if a[i] != b[i] {
			return i
		}
	}
	return most
}

// insertRule adds to a sorted list, which it may change.
func insertRule(rules []*compiledRule, rule *compiledRule) []*compiledRule {
	i, _ := slices.BinarySearchFunc(rules, rule, compareRules)
	return slices.Insert(rules, i, rule)
}

// removeRule removes from a sorted list, which it may change.
func removeRule(rules []*compiledRule, rule *compiledRule) []*compiledRule {
	i, found := slices.BinarySearchFunc(rules, rule, compareRules)
	if !found {
		return rules
	}
	return slices.Delete(rules, i, i+1)
}

func compareRules(a, b *compiledRule) int { return a.order.Compare(b.order) }
