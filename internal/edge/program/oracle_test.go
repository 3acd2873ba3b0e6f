package program_test

import (
	"cmp"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/route"
)

// The oracle finds a rule in the plainest way: it keeps the rules that fit and
// takes the first one by the order that package route documents. It shares no
// code with what it checks, not even the order.

// oracle gives the rule for a request, or nil.
func oracle(table *route.Table, req *program.Request) *route.Rule {
	var best *route.Rule
	for _, rule := range table.Rules {
		if oracleFits(rule, req) && !oracleExcluded(table, rule, req.Host) && (best == nil || oracleCompare(rule, best) < 0) {
			best = rule
		}
	}
	return best
}

// oracleExcluded reports whether a host that fits more closely than that of the
// rule belongs to other namespaces alone.
func oracleExcluded(table *route.Table, rule *route.Rule, host string) bool {
	if rule.HostOwner.Namespace == "" {
		return false
	}
	for rank := range oracleHostRank(rule.Host) {
		var owners []string
		for _, other := range table.Rules {
			if oracleHostRank(other.Host) == rank && oracleHost(other.Host, host) && other.HostOwner.Exclusive {
				owners = append(owners, other.HostOwner.Namespace)
			}
		}
		if len(owners) > 0 {
			return len(slices.Compact(slices.Sorted(slices.Values(owners)))) > 1 || owners[0] != rule.ID.Namespace
		}
	}
	return false
}

func oracleFits(rule *route.Rule, req *program.Request) bool {
	match := rule.Match
	if len(rule.EntryPoints) > 0 && !slices.Contains(rule.EntryPoints, req.EntryPoint) {
		return false
	}
	if match.Scheme == route.SchemeHTTP && req.TLS || match.Scheme == route.SchemeHTTPS && !req.TLS {
		return false
	}
	if len(match.Methods) > 0 && !slices.Contains(match.Methods, req.Method) {
		return false
	}
	for _, header := range match.Headers {
		var values []string
		if req.Header != nil {
			values = req.Header.(headers)[header.Name]
		}
		if !slices.ContainsFunc(values, func(v string) bool { return oracleValue(header, v) }) {
			return false
		}
	}
	query, err := url.ParseQuery(req.Query)
	if err != nil {
		panic(err)
	}
	for _, parameter := range match.Query {
		if !slices.ContainsFunc(query[parameter.Name], func(v string) bool { return oracleValue(parameter, v) }) {
			return false
		}
	}
	for _, further := range match.Further {
		if oracleFurther(further, req) == further.Not {
			return false
		}
	}
	return oracleHost(rule.Host, req.Host) && oraclePath(match.Path, req.Path)
}

// oracleFurther reports whether a request has what a condition is about: whether a rule
// with that alone fits it.
func oracleFurther(further route.Condition, req *program.Request) bool {
	var alone route.Rule
	switch {
	case further.Host != "":
		alone.Host = further.Host
	case further.HostRegexp != "":
		return regexp.MustCompile(further.HostRegexp).MatchString(req.Host)
	case further.Path != nil:
		alone.Match.Path = *further.Path
	case further.Method != "":
		alone.Match.Methods = []string{further.Method}
	case further.Header != nil:
		alone.Match.Headers = []route.ValueMatch{*further.Header}
		alone.Match.Headers[0].Name = strings.ToUpper(further.Header.Name)
	case further.Query != nil:
		alone.Match.Query = []route.ValueMatch{*further.Query}
	default:
		return slices.ContainsFunc(further.Clients, func(network netip.Prefix) bool { return network.Contains(req.Client) })
	}
	return oracleFits(&alone, req)
}

func oracleValue(match route.ValueMatch, value string) bool {
	switch match.Type {
	case route.ValuePresent:
		return true
	case route.ValueRegexp:
		return regexp.MustCompile(match.Value).MatchString(value)
	default:
		return value == match.Value
	}
}

func oracleHost(pattern, host string) bool {
	if pattern == "" {
		return true
	}
	want, got := strings.Split(pattern, "."), strings.Split(host, ".")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] && !(i == 0 && want[i] == "*" && got[i] != "") {
			return false
		}
	}
	return true
}

func oraclePath(match route.PathMatch, path string) bool {
	switch match.Type {
	case route.PathExact:
		return path == match.Value
	case route.PathPrefix:
		// Element by element, and a slash at the end is no element.
		want := strings.Split(strings.TrimSuffix(match.Value, "/"), "/")
		got := strings.Split(path, "/")
		return path != "" && len(got) >= len(want) && slices.Equal(got[:len(want)], want)
	case route.PathCharacterPrefix:
		return strings.HasPrefix(path, match.Value)
	case route.PathRegexp:
		return regexp.MustCompile(match.Value).MatchString(path)
	default:
		return true
	}
}

func oracleCompare(a, b *route.Rule) int {
	return cmp.Or(
		-cmp.Compare(oraclePriority(a, ""), oraclePriority(b, "")),
		cmp.Compare(oracleHostRank(a.Host), oracleHostRank(b.Host)),
		cmp.Compare(truth(a.HostOwner.Behind), truth(b.HostOwner.Behind)),
		-cmp.Compare(oraclePriority(a, a.ID.Namespace), oraclePriority(b, b.ID.Namespace)),
		cmp.Compare(truth(a.Fallback), truth(b.Fallback)),
		-cmp.Compare(truth(a.Match.Path.Type == route.PathExact), truth(b.Match.Path.Type == route.PathExact)),
		-cmp.Compare(oracleLength(a.Match.Path), oracleLength(b.Match.Path)),
		cmp.Compare(oraclePathRank(a.Match.Path.Type), oraclePathRank(b.Match.Path.Type)),
		-cmp.Compare(oracleConditions(a.Match), oracleConditions(b.Match)),
		cmp.Compare(a.Created.UnixNano(), b.Created.UnixNano()),
		cmp.Compare(a.ID.Namespace, b.ID.Namespace),
		cmp.Compare(a.ID.Name, b.ID.Name),
		cmp.Compare(a.ID.Rule, b.ID.Rule),
		cmp.Compare(a.ID.Path, b.ID.Path),
		cmp.Compare(a.ID.Kind, b.ID.Kind),
		cmp.Compare(a.ID.Variant, b.ID.Variant),
	)
}

// oraclePriority is the priority of a rule whose host has a certain owner, none
// for that across hosts.
func oraclePriority(rule *route.Rule, owner string) int32 {
	if rule.HostOwner.Namespace != owner || rule.HostOwner.Behind {
		return 0
	}
	return rule.Priority
}

func oracleHostRank(host string) int {
	return map[bool]int{true: 2}[host == ""] + map[bool]int{true: 1}[strings.HasPrefix(host, "*")]
}

func oraclePathRank(kind route.PathType) int {
	return slices.Index([]route.PathType{route.PathExact, route.PathRegexp, route.PathPrefix, route.PathCharacterPrefix, ""}, kind)
}

func oracleLength(match route.PathMatch) int {
	switch {
	case match.Type == route.PathRegexp:
		literal, known := expressions[match.Value]
		if !known {
			panic("the literal text of " + match.Value + " is not in expressions")
		}
		return len(literal)
	case match.Type == route.PathPrefix && match.Value != "/":
		return len(strings.TrimSuffix(match.Value, "/"))
	default:
		return len(match.Value)
	}
}

func oracleConditions(match route.Match) int {
	return len(match.Headers) + len(match.Query) + len(match.Further) + truth(match.Scheme != "") + truth(len(match.Methods) > 0)
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// oracleTCP gives the route for a connection, or nil.
func oracleTCP(table *route.Table, req *program.TCPRequest) *route.TCPRoute {
	var best *route.TCPRoute
	for _, tcp := range table.TCPRoutes {
		fits := slices.Contains(tcp.EntryPoints, req.EntryPoint) &&
			(tcp.TLS == route.TLSPlain || req.TLS && oracleHost(tcp.ServerName, req.ServerName))
		if fits && (best == nil || oracleCompareTCP(tcp, best) < 0) {
			best = tcp
		}
	}
	return best
}

func oracleCompareTCP(a, b *route.TCPRoute) int {
	return cmp.Or(
		-cmp.Compare(a.Priority, b.Priority),
		cmp.Compare(truth(a.TLS == route.TLSPlain), truth(b.TLS == route.TLSPlain)),
		cmp.Compare(oracleHostRank(a.ServerName), oracleHostRank(b.ServerName)),
		cmp.Compare(a.Created.UnixNano(), b.Created.UnixNano()),
		cmp.Compare(a.ID.Namespace, b.ID.Namespace),
		cmp.Compare(a.ID.Name, b.ID.Name),
		cmp.Compare(a.ID.Rule, b.ID.Rule),
	)
}
