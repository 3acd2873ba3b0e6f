package route

import (
	"cmp"
	"math"
	"strings"
)

// Criterion is the step of the order of rules that decided between two rules.
type Criterion string

// The steps, in their order. The package comment explains them.
const (
	ByPriority   Criterion = "priority"
	ByHost       Criterion = "host"
	ByOwner      Criterion = "host owner"
	ByHostRank   Criterion = "host of the route"
	ByFallback   Criterion = "fallback"
	ByExactPath  Criterion = "exact path"
	ByLength     Criterion = "path length"
	ByPathType   Criterion = "path type"
	ByPathText   Criterion = "path text"
	ByConditions Criterion = "conditions"
	ByAge        Criterion = "age"
	ByIdentity   Criterion = "identity"
)

// Order is the place of a rule among all rules. It is computed once for a rule and
// compared often, so it holds numbers and no text. The zero Order is not the place
// of any rule.
type Order struct {
	rule       *Rule
	rank       Rank
	length     int32
	conditions int32
	host       int16
	fallback   int8
	inexact    int8
	pathType   int8
}

// OrderOf returns the place of a rule. It parses the rule's expression, if it has
// one; an expression that does not parse has length 0.
func OrderOf(rule *Rule) Order {
	path := rule.Match.Path
	order := Order{
		rule:       rule,
		rank:       rankOf(rule),
		length:     int32(len(path.Literal())),
		conditions: conditionsOf(rule),
		host:       hostOrder(rule),
		inexact:    1,
	}
	if rule.Match.PathOrder != "" {
		order.length = int32(len(rule.Match.PathOrder))
	}
	if rule.Fallback {
		order.fallback = 1
	}
	switch path.Type {
	case PathExact:
		order.inexact = 0
	case PathRegexp:
		order.pathType = 1
	case PathPrefix:
		order.pathType = 2
	case PathCharacterPrefix:
		order.pathType = 3
	default:
		order.pathType = 4
	}
	return order
}

// Compare is negative when the rule comes before the other one. It is 0 only for
// rules with the same identity.
func (o Order) Compare(other Order) int {
	result, _ := o.Decide(other)
	return result
}

// Decide compares as Compare does and returns the step that decided, for explain.
func (o Order) Decide(other Order) (int, Criterion) {
	a, b := o.rule, other.rule
	if o.rank.Priority() != other.rank.Priority() {
		return cmp.Compare(other.rank, o.rank), ByPriority
	}
	if o.host != other.host {
		return cmp.Compare(o.host, other.host), ByHost
	}
	if o.rank != other.rank {
		criterion := ByPriority
		switch {
		case a.HostOwner.Behind != b.HostOwner.Behind:
			criterion = ByOwner
		case a.HostRank != b.HostRank && a.Fallback != b.Fallback:
			criterion = ByFallback
		case a.HostRank != b.HostRank:
			criterion = ByHostRank
		}
		return cmp.Compare(other.rank, o.rank), criterion
	}
	if o.fallback != other.fallback {
		return cmp.Compare(o.fallback, other.fallback), ByFallback
	}
	if o.inexact != other.inexact {
		return cmp.Compare(o.inexact, other.inexact), ByExactPath
	}
	if o.length != other.length {
		return cmp.Compare(other.length, o.length), ByLength
	}
	if o.pathType != other.pathType {
		return cmp.Compare(o.pathType, other.pathType), ByPathType
	}
	if a.Match.PathOrder != b.Match.PathOrder {
		return strings.Compare(b.Match.PathOrder, a.Match.PathOrder), ByPathText
	}
	if o.conditions != other.conditions {
		return cmp.Compare(other.conditions, o.conditions), ByConditions
	}
	if age := a.Created.Compare(b.Created); age != 0 {
		return age, ByAge
	}
	return a.ID.Compare(b.ID), ByIdentity
}

// Rank is the part of a rule's place that comes before its path: the priority, the rank
// of the host name of a route and, for a host with an owner, whether the rule is behind. Among the rules of one
// host a higher rank comes first. One number has all of it, because every lookup
// compares it.
type Rank int64

// The ranks: rules with a priority across hosts, which is never 0, lie beyond
// globalRank on either side, and rules that are behind lie below all priorities
// within a host.
const (
	globalRank Rank = 1 << 33
	behindRank Rank = -1 << 32
	LowestRank Rank = math.MinInt64
)

// rankOf returns the rank of a rule. Rules of a host with an owner have no priority
// across hosts, and only those of the owner have one within it. Those of a listener
// have the rank of their host in the place of a priority.
func rankOf(rule *Rule) Rank {
	priority := Rank(rule.Priority)
	switch owner := &rule.HostOwner; {
	case owner.Behind:
		return behindRank
	case rule.HostRank != 0 && rule.Listener != (ListenerID{}):
		return Rank(rule.HostRank)
	case owner.Namespace != "" && owner.Namespace != rule.ID.Namespace:
		return 0
	case owner.Namespace != "" || priority == 0:
		return priority
	case priority > 0:
		return globalRank + priority
	default:
		return -globalRank + priority
	}
}

// Rank returns the rank of the rule.
func (o Order) Rank() Rank { return o.rank }

// Priority returns the priority across hosts.
func (r Rank) Priority() int32 {
	switch {
	case r > globalRank:
		return int32(r - globalRank)
	case r < -globalRank:
		return int32(r + globalRank)
	default:
		return 0
	}
}

// Above returns the lowest rank with a higher priority across hosts: a rule of a
// less specific host needs it to come first.
func (r Rank) Above() Rank {
	switch {
	case r < -globalRank-1:
		return r + 1
	case r < -globalRank:
		return behindRank
	case r > globalRank:
		return r + 1
	default:
		return globalRank + 1
	}
}

// conditionsOf returns the number of conditions. The conditions of Gateway API's
// routes are ordered by kind first: a method, then more headers, then more
// parameters of the query.
func conditionsOf(rule *Rule) int32 {
	match := &rule.Match
	if rule.Listener == (ListenerID{}) {
		return int32(match.Conditions())
	}
	count := len(match.Headers)<<8 + len(match.Query)
	if len(match.Methods) > 0 {
		count += 1 << 16
	}
	return int32(count)
}

// hostOrder returns the place of a host: less specific ones have higher numbers. The
// wildcards of listeners stand for several labels, so that more than one of them
// fits a name, and the longer is more specific.
func hostOrder(rule *Rule) int16 {
	class := int16(hostClass(rule.Host))
	if class == 1 && rule.Listener != (ListenerID{}) {
		return 2*wildcardOrder - int16(len(rule.Host))
	}
	return class * wildcardOrder
}

// wildcardOrder is more than the length of a host.
const wildcardOrder = 1 << 9

// WildcardParent returns example.com for *.example.com, and whether the host is a
// wildcard at all.
func WildcardParent(host string) (string, bool) {
	return strings.CutPrefix(host, "*.")
}

// hostClass is 0 for an exact host, 1 for a wildcard and 2 for none.
func hostClass(host string) int8 {
	switch {
	case host == "":
		return 2
	case strings.HasPrefix(host, "*."):
		return 1
	default:
		return 0
	}
}
