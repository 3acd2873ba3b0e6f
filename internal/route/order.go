package route

import (
	"cmp"
	"strings"
)

// Criterion is the step of the order of rules that decided between two rules.
type Criterion string

// The steps, in their order. The package comment explains them.
const (
	ByPriority   Criterion = "priority"
	ByHost       Criterion = "host"
	ByFallback   Criterion = "fallback"
	ByExactPath  Criterion = "exact path"
	ByLength     Criterion = "path length"
	ByPathType   Criterion = "path type"
	ByConditions Criterion = "conditions"
	ByAge        Criterion = "age"
	ByIdentity   Criterion = "identity"
)

// Order is the place of a rule among all rules. It is computed once for a rule and
// compared often, so it holds numbers and no text. The zero Order is not the place
// of any rule.
type Order struct {
	rule       *Rule
	length     int32
	conditions int32
	host       int8
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
		length:     int32(len(path.Literal())),
		conditions: int32(rule.Match.Conditions()),
		host:       hostClass(rule.Host),
		inexact:    1,
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
	if a.Priority != b.Priority {
		return cmp.Compare(b.Priority, a.Priority), ByPriority
	}
	if o.host != other.host {
		return cmp.Compare(o.host, other.host), ByHost
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
	if o.conditions != other.conditions {
		return cmp.Compare(other.conditions, o.conditions), ByConditions
	}
	if age := a.Created.Compare(b.Created); age != 0 {
		return age, ByAge
	}
	return a.ID.Compare(b.ID), ByIdentity
}

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
