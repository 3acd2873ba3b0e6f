package program

import (
	"math"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// bucket has all rules of one host. It is two adjacent cache lines, and has
// everything that a lookup needs for a host with a single rule: with thousands
// of hosts each further cache miss costs a lookup as much as all of its work.
type bucket struct {
	// name is the host; for a wildcard it is the part after the star.
	name string
	// single is the result for every path of a host with one rule, which
	// matches all of them and has no conditions but entry points: those of
	// entryPointMask. The mask is empty where a lookup has to search.
	single         Result
	entryPointMask uint64
	tree           *node
	// priority is the highest priority across hosts of all rules.
	priority int32
	// text is the memory of name, if it fits.
	text       [32]byte
	outside    *outsideTree // nil where there are none
	generation uint64
	// owner is the namespace that alone may serve the host, empty for all. Only
	// the search of a less specific host needs it.
	owner string
}

// noOwner is the owner of a host whose rules disagree about it: no namespace has
// that name, so no rule of another host serves it.
const noOwner = "*"

// outsideTree are the rules of a host that are not in its tree.
type outsideTree struct {
	// anyPath has the rules without a path, fallbacks last.
	anyPath []*compiledRule
	// expressions are the rules whose path is a regular expression, in order.
	expressions []*compiledRule
}

// with returns a copy in which one list of rules is changed, nil if no rule is
// left.
func (o *outsideTree) with(rule *compiledRule, change func([]*compiledRule, *compiledRule) []*compiledRule) *outsideTree {
	var owned outsideTree
	if o != nil {
		owned = *o
	}
	list := &owned.anyPath
	if rule.pathType == pathRegexp {
		list = &owned.expressions
	}
	*list = change(slices.Clone(*list), rule)
	if len(owned.anyPath)+len(owned.expressions) == 0 {
		return nil
	}
	return &owned
}

// newBucket makes the bucket of a host, without rules.
func newBucket(name string, generation uint64) *bucket {
	b := &bucket{name: name, generation: generation, priority: math.MinInt32}
	b.copyName()
	return b
}

// copyName copies the bytes of the name into the bucket, next to what is read
// with it.
func (b *bucket) copyName() {
	if n := copy(b.text[:], b.name); n == len(b.name) {
		b.name = normalize.View(b.text[:n])
	}
}

// key is the key of the bucket in its index.
func (b *bucket) key() string { return b.name }

// own returns a bucket that the edit may change: itself or a copy.
func (b *bucket) own(generation uint64) *bucket {
	if b.generation == generation {
		return b
	}
	owned := *b
	owned.generation = generation
	owned.copyName()
	return &owned
}

// insert adds a rule. Rules with a literal path go into the tree; the others,
// which have to be tried one by one, into the lists outside of it.
func (b *bucket) insert(e *edit, rule *compiledRule) *bucket {
	b = b.own(e.next.generation)
	switch {
	case rule.outsideTree():
		b.outside = b.outside.with(rule, insertRule)
	case b.tree == nil:
		b.tree = newNode(e, rule.literal, rule)
	default:
		b.tree = b.tree.insert(e, rule.literal, rule)
	}
	b.addOwner(rule)
	b.refresh()
	return b
}

// addOwner adds the owner that a rule names. It does not depend on the order of the
// rules.
func (b *bucket) addOwner(rule *compiledRule) {
	switch owner := &rule.source.HostOwner; {
	case !owner.Exclusive:
	case b.owner == "":
		b.owner = owner.Namespace
	case b.owner != owner.Namespace:
		b.owner = noOwner
	}
}

// removeOwner computes the owner again from the rules that are left. Mostly all
// agree, and one of them is enough.
func (b *bucket) removeOwner() {
	before := b.owner
	b.owner = ""
	if before == "" {
		return
	}
	for rule := range b.all {
		b.addOwner(rule)
		if b.owner == before {
			return
		}
	}
}

// remove removes a rule. It returns nil when no rule is left.
func (b *bucket) remove(e *edit, rule *compiledRule) *bucket {
	b = b.own(e.next.generation)
	if rule.outsideTree() {
		b.outside = b.outside.with(rule, removeRule)
	} else {
		b.tree = b.tree.remove(e, rule.literal, rule)
	}
	if b.tree == nil && b.outside == nil {
		return nil
	}
	b.removeOwner()
	b.refresh()
	return b
}

// outsideTree reports whether a rule is not in the tree of its host.
func (r *compiledRule) outsideTree() bool { return r.pathType == pathRegexp || r.literal == "" }

// refresh recomputes the fields that follow from the rules.
func (b *bucket) refresh() {
	highest := route.LowestRank
	if b.tree != nil {
		highest = b.tree.highest
	}
	if b.outside != nil {
		for _, rules := range [][]*compiledRule{b.outside.anyPath, b.outside.expressions} {
			if len(rules) > 0 {
				highest = max(highest, rules[0].rank)
			}
		}
	}
	b.priority = highest.Priority()
	// A single rule for all paths needs no search. It must have no conditions,
	// so that only the entry point is left to check.
	b.single, b.entryPointMask = Result{}, 0
	if b.outside != nil || len(b.tree.edges) > 0 || len(b.tree.rules) != 1 {
		return
	}
	if rule := b.tree.rules[0]; rule.literal == "/" && !rule.conditional && (rule.pathType == pathPrefix || rule.pathType == pathCharacterPrefix) {
		b.single, b.entryPointMask = rule.result(), rule.entryPoints
	}
}

// siblings is the number of rules that are tried one by one together with a
// rule.
func (b *bucket) siblings(rule *compiledRule) int {
	switch {
	case rule.pathType == pathRegexp:
		return len(b.outside.expressions)
	case rule.literal == "":
		return len(b.outside.anyPath)
	default:
		return len(b.tree.rulesAt(rule.literal))
	}
}

// all calls visit for every rule of the host, until it returns false.
func (b *bucket) all(visit func(*compiledRule) bool) {
	if b == nil || !b.tree.all(visit) || b.outside == nil {
		return
	}
	for _, rules := range [][]*compiledRule{b.outside.anyPath, b.outside.expressions} {
		for _, rule := range rules {
			if !visit(rule) {
				return
			}
		}
	}
}

// search returns the first rule in order that matches, if it precedes the best
// rule of the more specific hosts, and that best rule otherwise. With an owner,
// the request is for a more specific host that belongs to it.
func (b *bucket) search(req *Request, entryPoint uint64, best *compiledRule, owner string) *compiledRule {
	// With the same priority the more specific host wins.
	if best != nil && b.priority <= best.rank.Priority() {
		return best
	}
	s := search{req: req, entryPoint: entryPoint, best: best, floor: route.LowestRank, owner: owner}
	if best != nil {
		s.floor = best.rank.Above()
	}
	s.tree(b.tree)
	if b.outside != nil {
		// Rules without a path come after all rules with one.
		s.first(b.outside.anyPath, 0)
		s.expressions(b.outside.expressions)
	}
	return s.best
}

// search is the state of a search through the rules of one host.
type search struct {
	req        *Request
	entryPoint uint64
	best       *compiledRule
	// floor is the lowest rank with which a rule precedes the best one.
	floor route.Rank
	// owner is the namespace that the host of the request belongs to, in a search
	// of a less specific host.
	owner string
}

// first tries rules with one path, of which length bytes are literal and match.
func (s *search) first(rules []*compiledRule, length int) {
	for _, rule := range rules {
		if rule.rank < s.floor {
			return
		}
		if rule.acceptsAt(s.req.Path, length) && rule.conditions(s.req, s.entryPoint).part == noPart &&
			(s.owner == "" || rule.servesHostOf(s.owner)) {
			s.best = rule
			s.floor = rule.rank + 1
			return
		}
	}
}

// tree walks down along the path and then back up, trying rules: those further
// down precede those above, unless their rank is lower. The way back needs
// no allocation, because the nodes are kept on the stack.
func (s *search) tree(n *node) {
	type stop struct {
		node   *node
		length int
	}
	var stops [12]stop
	before := s.best
	count, length := 0, 0
	for path := s.req.Path; n != nil && n.highest >= s.floor && strings.HasPrefix(path[length:], n.prefix); {
		length += len(n.prefix)
		if len(n.rules) > 0 {
			if count == len(stops) {
				// Few paths are this deep. The nodes above are tried now, and
				// those below need no more than the same rank then.
				above := s.best
				for count > 0 {
					count--
					s.first(stops[count].node.rules, stops[count].length)
				}
				if s.best != above {
					s.floor = s.best.rank
				}
			}
			stops[count] = stop{n, length}
			count++
		}
		if length == len(path) {
			break
		}
		i, found := n.child(path[length])
		if !found {
			break
		}
		n = n.edges[i].node
	}
	for count > 0 {
		count--
		if n := stops[count].node; n.top >= s.floor {
			s.first(n.rules, stops[count].length)
		}
	}
	// The best rule of a more specific host leaves the floor where it is.
	if s.best != before {
		s.floor = s.best.rank + 1
	}
}

// expressions tries the rules that precede the best one. The regular expression
// costs most and comes last.
func (s *search) expressions(rules []*compiledRule) {
	for _, rule := range rules {
		if s.best != nil && rule.order.Compare(s.best.order) > 0 {
			return
		}
		if strings.HasPrefix(s.req.Path, rule.literal) &&
			rule.conditions(s.req, s.entryPoint).part == noPart &&
			(s.owner == "" || rule.servesHostOf(s.owner)) && rule.expression.MatchString(s.req.Path) {
			s.best = rule
			return
		}
	}
}
