package program

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// MaxSteps bounds the number of steps that Explain returns.
const MaxSteps = 200

// Decision is the result of one rule.
type Decision string

// The verdicts.
const (
	// Wins: the rule serves the request.
	Wins Decision = "wins"
	// Outranked: the rule matches, but another one precedes it.
	Outranked Decision = "outranked"
	// Differs: the rule's host matches, and another condition does not.
	Differs Decision = "differs"
	// Excluded: the rule's host matches, but a more specific one belongs to another
	// namespace.
	Excluded Decision = "excluded"
	// Omitted: there are more rules than MaxSteps. This step has no rule.
	Omitted Decision = "omitted"
)

// Step is the verdict on one rule, with its reason.
type Step struct {
	Rule     *route.Rule
	Decision Decision
	Why      string
}

// Explain returns which rule serves a request, and for each other rule with a
// matching host why it does not, in the order in which rules are tried. No
// steps means that no rule has such a host. It checks each rule on its own, so
// its cost grows with the rules of the host.
func (p *Program) Explain(req *Request) []Step {
	rules := p.candidates(req)
	owners := p.ownersOf(req)
	entryPoint := p.entryPointBit(req.EntryPoint)
	steps := make([]Step, 0, min(len(rules), MaxSteps+1))
	var winner *compiledRule
	for _, rule := range rules {
		step := Step{Rule: rule.source}
		switch found := rule.mismatch(req, entryPoint); {
		case owners.exclude(rule):
			step.Decision, step.Why = Excluded, owners.whyExcluded()
		case found.part != noPart:
			step.Decision, step.Why = Differs, rule.whyNot(req, found)
		case winner == nil:
			winner = rule
			step.Decision, step.Why = Wins, rule.whyFits()
		default:
			step.Decision, step.Why = Outranked, whyAfter(winner, rule)
		}
		if len(steps) < MaxSteps || step.Decision == Wins {
			steps = append(steps, step)
		}
	}
	if missing := len(rules) - len(steps); missing > 0 {
		steps = append(steps, Step{Decision: Omitted, Why: fmt.Sprintf("the other rules do not match it either (%d)", missing)})
	}
	return steps
}

// candidates returns all rules with a matching host, in order.
func (p *Program) candidates(req *Request) []*compiledRule {
	var rules []*compiledRule
	collect := func(rule *compiledRule) bool {
		rules = append(rules, rule)
		return true
	}
	for _, b := range p.buckets(req) {
		b.all(collect)
	}
	slices.SortFunc(rules, compareRules)
	return rules
}

// exclusiveHost is the most specific host of a request that belongs to a namespace
// alone; without one, owner is empty.
type exclusiveHost struct{ host, owner string }

// buckets returns the rules of all hosts that match a request, by host, the most
// specific first.
func (p *Program) buckets(req *Request) iter.Seq2[string, *bucket] {
	if req.Listener != (Listener{}) {
		return p.listenerBuckets(req)
	}
	return func(yield func(string, *bucket) bool) {
		if exact := p.exact.get(req.Host); exact != nil && !yield(req.Host, exact) {
			return
		}
		if parent, ok := parentOf(req.Host); ok {
			if found := p.wildcard.get(parent); found != nil && !yield("*."+parent, found) {
				return
			}
		}
		if p.none != nil {
			yield("", p.none)
		}
	}
}

// ownersOf returns the exclusive host of a request, as find has it.
func (p *Program) ownersOf(req *Request) exclusiveHost {
	if req.Listener != (Listener{}) {
		return p.listenerOwner(req)
	}
	if exact := p.exact.get(req.Host); exact == nil || exact.owner == "" {
		if owner := p.routeOwner(req.Host); owner != "" {
			return exclusiveHost{req.Host, owner}
		}
	}
	for host, b := range p.buckets(req) {
		if host != "" && b.owner != "" {
			return exclusiveHost{host, b.owner}
		}
	}
	if end, owner := p.wildcardOwner(req.Host); owner != "" {
		return exclusiveHost{"*" + end, owner}
	}
	return exclusiveHost{}
}

// exclude reports whether a rule of a less specific host may not serve the request.
func (e *exclusiveHost) exclude(rule *compiledRule) bool {
	host := rule.source.Host
	_, wildcard := route.WildcardParent(host)
	_, ownsWildcard := route.WildcardParent(e.host)
	lessSpecific := host == "" || wildcard && (!ownsWildcard || len(host) < len(e.host))
	return e.owner != "" && lessSpecific && !rule.servesHostOf(e.owner)
}

// whyExcluded explains exclude.
func (e *exclusiveHost) whyExcluded() string {
	if e.owner == noOwner {
		return "the rules of " + hostText(e.host) + " name several owners, so no other host serves it"
	}
	return hostText(e.host) + " belongs to namespace " + e.owner + ", and rules of other namespaces with a less specific host do not serve it"
}

// mismatch compares a rule with a request without a tree.
func (r *compiledRule) mismatch(req *Request, entryPoint uint64) mismatch {
	if !strings.HasPrefix(req.Path, r.literal) || !r.acceptsAt(req.Path, len(r.literal)) ||
		r.expression != nil && !r.expression.MatchString(req.Path) {
		return mismatch{part: partPath}
	}
	return r.conditions(req, entryPoint)
}

// whyFits explains a match.
func (r *compiledRule) whyFits() string {
	why := hostText(r.source.Host) + " and " + pathText(r.source) + " fit"
	switch count := r.source.Match.Conditions(); {
	case count == 1:
		why += ", and so does its condition"
	case count > 1:
		why += fmt.Sprintf(", and so do its %d conditions", count)
	}
	return why
}

// whyNot explains a mismatch by the first condition that is not met.
func (r *compiledRule) whyNot(req *Request, found mismatch) string {
	match := &r.source.Match
	switch found.part {
	case partEntryPoint:
		return fmt.Sprintf("it serves %s and not %q", strings.Join(r.source.EntryPoints, ", "), req.EntryPoint)
	case partScheme:
		return fmt.Sprintf("it serves %s only", match.Scheme)
	case partMethod:
		return fmt.Sprintf("it serves %s and not %s", strings.Join(match.Methods, ", "), req.Method)
	case partHeader:
		return conditionText("header", match.Headers[found.index])
	case partQuery:
		return conditionText("query parameter", match.Query[found.index])
	case partFurther:
		return furtherText(&match.Further[found.index])
	default:
		return fmt.Sprintf("%s does not fit %q", pathText(r.source), req.Path)
	}
}

// conditionText explains a condition on a header or query parameter.
func conditionText(what string, condition route.ValueMatch) string {
	switch condition.Type {
	case route.ValuePresent:
		return fmt.Sprintf("the %s %s is missing", what, condition.Name)
	case route.ValueRegexp:
		return fmt.Sprintf("no %s %s fits the expression %q", what, condition.Name, condition.Value)
	default:
		return fmt.Sprintf("no %s %s is %q", what, condition.Name, condition.Value)
	}
}

// whyAfter explains by which criterion of the order the winner precedes the
// loser.
func whyAfter(winner, loser *compiledRule) string {
	_, criterion := winner.order.Decide(loser.order)
	first, second := winner.source, loser.source
	why := ""
	switch criterion {
	case route.ByPriority:
		why = fmt.Sprintf("its priority is %d, and here %d", priorityOf(winner), priorityOf(loser))
	case route.ByHost:
		why = fmt.Sprintf("it has %s, and here it is %s", hostText(first.Host), hostText(second.Host))
	case route.ByOwner:
		why = fmt.Sprintf("%s belongs to namespace %s, and this rule is behind those of the owner", hostText(first.Host), first.HostOwner.Namespace)
	case route.ByHostRank:
		why = "the host name of its route is more specific"
	case route.ByFallback:
		why = "this one is a fallback"
	case route.ByExactPath:
		why = "its path is exact"
	case route.ByLength:
		why = fmt.Sprintf("its path has %d bytes that must be there, and here %d", len(winner.literal), len(loser.literal))
		if first.Match.PathOrder != "" || second.Match.PathOrder != "" {
			why = "its path is longer, as nginx compares them"
		}
	case route.ByPathText:
		why = "its path is as long and comes first in nginx, in descending order"
	case route.ByPathType:
		why = fmt.Sprintf("%s comes before %s", pathTypeText(first), pathTypeText(second))
	case route.ByConditions:
		why = fmt.Sprintf("its number of conditions is %d, and here %d", first.Match.Conditions(), second.Match.Conditions())
	case route.ByAge:
		why = "it is older"
	default:
		why = "both are equal, and its name comes first"
	}
	return first.ID.String() + " comes first: " + why
}

// priorityOf returns the priority that counts: rules of other namespaces than the
// owner of their host have none.
func priorityOf(rule *compiledRule) int32 {
	if owner := rule.source.HostOwner.Namespace; owner != "" && owner != rule.source.ID.Namespace {
		return 0
	}
	return rule.source.Priority
}

// hostText, pathText and pathTypeText describe a rule for people.
func hostText(host string) string {
	if host == "" {
		return "no host"
	}
	if _, wildcard := route.WildcardParent(host); wildcard {
		return "wildcard host " + host
	}
	return "host " + host
}

func pathText(rule *route.Rule) string {
	path := rule.Match.Path
	if path.Type == "" {
		return pathTypeText(rule)
	}
	return fmt.Sprintf("%s %q", pathTypeText(rule), path.Value)
}

func pathTypeText(rule *route.Rule) string {
	switch rule.Match.Path.Type {
	case route.PathExact:
		return "exact path"
	case route.PathPrefix:
		return "prefix"
	case route.PathCharacterPrefix:
		return "character prefix"
	case route.PathRegexp:
		return "expression"
	default:
		return "every path"
	}
}
