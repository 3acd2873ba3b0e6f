package route

import (
	"cmp"
	"slices"
)

// Rules with one host and path, and rules of one host whose path is an
// expression, are tried one by one for a request, and so are TCP routes with
// one server name. So there is a limit on them. The youngest are too many:
// whoever comes late cannot push out whoever was there, not even with a
// priority.

// crowdKey is what rules have in common that are tried one by one.
type crowdKey struct {
	host, path string
	expression bool
}

func crowdOf(rule *Rule) crowdKey {
	if rule.Match.Path.Type == PathRegexp {
		return crowdKey{host: rule.Host, expression: true}
	}
	return crowdKey{host: rule.Host, path: rule.Match.Path.Literal()}
}

func (k crowdKey) limit() (int, string) {
	if k.expression {
		return MaxExpressionsPerHost, "rules with a regular expression for this host"
	}
	return MaxRulesPerPath, "rules with this host and path"
}

func (t *Table) checkCrowds() []Problem {
	counts := make(map[crowdKey]int, len(t.Rules))
	for _, rule := range t.Rules {
		if rule != nil {
			counts[crowdOf(rule)]++
		}
	}
	var problems []Problem
	for key, count := range counts {
		if limit, _ := key.limit(); count > limit {
			problems = append(problems, t.youngestRules(key)...)
		}
	}
	return append(problems, t.checkTCPCrowds()...)
}

// youngestRules reports the rules of a crowd beyond its limit.
func (t *Table) youngestRules(key crowdKey) []Problem {
	var crowd []*Rule
	for _, rule := range t.Rules {
		if rule != nil && crowdOf(rule) == key {
			crowd = append(crowd, rule)
		}
	}
	slices.SortFunc(crowd, func(a, b *Rule) int {
		return cmp.Or(a.Created.Compare(b.Created), a.ID.Compare(b.ID))
	})
	limit, what := key.limit()
	var problems []Problem
	for _, rule := range crowd[limit:] {
		r := report{subject: rule.ID}
		r.add("match", FaultTooMany, "there are %d older %s, which is the limit; remove some", limit, what)
		problems = append(problems, r.problems...)
	}
	return problems
}

func (t *Table) checkTCPCrowds() []Problem {
	crowds := make(map[string][]*TCPRoute, len(t.TCPRoutes))
	for _, tcp := range t.TCPRoutes {
		if tcp != nil {
			crowds[tcp.ServerName] = append(crowds[tcp.ServerName], tcp)
		}
	}
	var problems []Problem
	for _, crowd := range crowds {
		if len(crowd) <= MaxRoutesPerServerName {
			continue
		}
		slices.SortFunc(crowd, func(a, b *TCPRoute) int {
			return cmp.Or(a.Created.Compare(b.Created), a.ID.Compare(b.ID))
		})
		for _, tcp := range crowd[MaxRoutesPerServerName:] {
			r := report{subject: tcp.ID}
			r.add("serverName", FaultTooMany, "there are %d older routes with this server name, which is the limit; remove some", MaxRoutesPerServerName)
			problems = append(problems, r.problems...)
		}
	}
	return problems
}
