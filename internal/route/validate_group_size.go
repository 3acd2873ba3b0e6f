package route

import (
	"cmp"
	"slices"

	"slipway.dev/slipway/api/refusal"
)

// Rules with the same host and path, and rules of one host whose path is an
// expression, are tried one by one for a request, and so are TCP routes with the
// same server name. So there is a limit on each such group. The youngest members
// over the limit are refused: a newcomer cannot displace existing rules, not even
// with a priority.

// matchGroup is the key of the rules that are tried one by one.
type matchGroup struct {
	listener   ListenerID
	host, path string
	expression bool
}

func matchGroupOf(rule *Rule) matchGroup {
	if rule.Match.Path.Type == PathRegexp {
		return matchGroup{listener: rule.Listener, host: rule.Host, expression: true}
	}
	return matchGroup{listener: rule.Listener, host: rule.Host, path: rule.Match.Path.Literal()}
}

// limit returns the limit of the group and a text for its members.
func (k matchGroup) limit() (int, string) {
	if k.expression {
		return MaxExpressionsPerHost, "rules with a regular expression for this host"
	}
	return MaxRulesPerPath, "rules with this host and path"
}

// checkGroupSizes counts first and sorts only the groups that are too large: most
// tables have none.
func (t *Table) checkGroupSizes() []Problem {
	counts := make(map[matchGroup]int, len(t.Rules))
	for _, rule := range t.Rules {
		counts[matchGroupOf(rule)]++
	}
	var problems []Problem
	for key, count := range counts {
		if limit, _ := key.limit(); count > limit {
			problems = append(problems, t.youngestRules(key)...)
		}
	}
	return append(problems, t.checkTCPGroupSizes()...)
}

// youngestRules reports the rules of a group beyond its limit.
func (t *Table) youngestRules(key matchGroup) []Problem {
	var group []*Rule
	for _, rule := range t.Rules {
		if matchGroupOf(rule) == key {
			group = append(group, rule)
		}
	}
	slices.SortFunc(group, func(a, b *Rule) int {
		return cmp.Or(a.Created.Compare(b.Created), a.ID.Compare(b.ID))
	})
	limit, what := key.limit()
	var problems []Problem
	for _, rule := range group[limit:] {
		problems = append(problems, NewProblem(rule.ID, "match", refusal.TooMany,
			"there are %d older %s, which is the limit; remove some", limit, what))
	}
	return problems
}

// checkTCPGroupSizes is checkGroupSizes for TCP routes.
func (t *Table) checkTCPGroupSizes() []Problem {
	type place struct {
		listener   ListenerID
		serverName string
	}
	groups := make(map[place][]*TCPRoute, len(t.TCPRoutes))
	for _, tcp := range t.TCPRoutes {
		at := place{tcp.Listener, tcp.ServerName}
		groups[at] = append(groups[at], tcp)
	}
	var problems []Problem
	for _, group := range groups {
		if len(group) <= MaxRoutesPerServerName {
			continue
		}
		slices.SortFunc(group, func(a, b *TCPRoute) int {
			return cmp.Or(a.Created.Compare(b.Created), a.ID.Compare(b.ID))
		})
		for _, tcp := range group[MaxRoutesPerServerName:] {
			problems = append(problems, NewProblem(tcp.ID, "serverName", refusal.TooMany,
				"there are %d older routes with this server name, which is the limit; remove some", MaxRoutesPerServerName))
		}
	}
	return problems
}
