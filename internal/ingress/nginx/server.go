package nginx

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// ServerVariant starts the variants of rules that are locations of a server-snippet.
const ServerVariant = "server-snippet-"

// addServer adds the server-snippet to a rule of the host. nginx passes added headers,
// hidden ones and access rules on to locations that have none of their own. A rule that
// must not be served gets nothing.
func (h *Host) addServer(rule *route.Rule, at *Location) {
	if h.server == nil || at.Redirects || rule.Response != nil && rule.Response.Reason == route.ReasonRefused {
		return
	}
	if of := h.server.Access; of != nil && !hasAccess(rule.Policies) {
		id := route.PolicyID{Kind: "Ingress", Namespace: h.serverOf[0], Name: h.serverOf[1], Variant: "nginx-server-snippet"}
		rule.Policies = slices.Insert(slices.Clone(rule.Policies), min(at.At, len(rule.Policies)), route.Policy{ID: id, IPFilter: of})
	}
	of := &h.server.Program
	if of.IsZero() && of.ContentType == "" {
		return
	}
	merged := route.Directives{Behind: at.At}
	if rule.Directives != nil {
		merged = *rule.Directives
	}
	merged.Server, merged.ServerResponse = of.Server, of.Response
	merged.Response.Change = slices.Concat(of.Response.Change, merged.Response.Change)
	if len(merged.Response.Add) == 0 {
		merged.Response.Add = of.Response.Add
	}
	if len(merged.Hide) == 0 {
		merged.Hide = of.Hide
	}
	if merged.ContentType == "" {
		merged.ContentType = of.ContentType
	}
	rule.Directives = &merged
}

// hasAccess reports whether policies of annotations restrict addresses.
func hasAccess(policies []route.Policy) bool {
	return slices.ContainsFunc(policies, func(p route.Policy) bool { return p.IPFilter != nil && strings.HasPrefix(p.ID.Variant, "nginx-") })
}

// ServerRules returns the rules of the locations of a server-snippet, for the Ingress
// whose it is.
func (h *Host) ServerRules(namespace, name string) []*route.Rule {
	if h == nil || h.server == nil || h.serverOf != [2]string{namespace, name} {
		return nil
	}
	var rules []*route.Rule
	for i := range h.server.Locations {
		of := &h.server.Locations[i]
		rule := &route.Rule{
			ID:       route.ID{Kind: "Ingress", Namespace: namespace, Name: name, Path: i, Variant: fmt.Sprintf("%s%d", ServerVariant, i+1)},
			Match:    h.matchOf(of, i),
			Response: &route.Response{Status: 404, Reason: route.ReasonConfigured, Message: "the location of the snippet returns nothing"},
		}
		if of.Access != nil {
			id := route.PolicyID{Kind: "Ingress", Namespace: namespace, Name: name, Variant: "nginx-server-snippet"}
			rule.Policies = []route.Policy{{ID: id, IPFilter: of.Access}}
		}
		if !of.Program.IsZero() {
			program := of.Program
			rule.Directives = &program
		}
		h.addServer(rule, &Location{})
		if rule.Directives != nil && rule.Match.Path.Type == route.PathRegexp {
			rule.Directives.Groups = rule.Match.Path.Value
		}
		rules = append(rules, rule)
	}
	return rules
}

// expressionOrder is the length that puts the expressions of a snippet before those of
// paths, which are shorter.
const expressionOrder = route.MaxExpressionLength + 1

// matchOf returns the match of a location. nginx tries an exact path first, then
// expressions in the order in which they are written, those of the snippet before those
// of paths, and prefixes last, unless they have ^~.
func (h *Host) matchOf(of *SnippetLocation, number int) route.Match {
	path := of.Path
	switch {
	case of.Modifier == "=":
		return route.Match{Path: route.PathMatch{Type: route.PathExact, Value: path}}
	case of.Modifier == "~" || of.Modifier == "~*":
		if of.Modifier == "~*" {
			path = "(?i)" + path
		}
		return route.Match{Path: route.PathMatch{Type: route.PathRegexp, Value: path}, PathOrder: orderText(number)}
	case !h.Expressions && !h.server.hasExpressions():
		return route.Match{Path: route.PathMatch{Type: route.PathCharacterPrefix, Value: path}}
	case of.Modifier == "^~":
		// Before all expressions, if it is the longest prefix.
		return route.Match{Path: route.PathMatch{Type: route.PathRegexp, Value: "^" + regexp.QuoteMeta(path)}, PathOrder: orderText(-1)}
	case h.Expressions:
		// Behind all expressions: paths are such.
		return route.Match{Path: route.PathMatch{Type: route.PathRegexp, Value: "^" + regexp.QuoteMeta(path)}, PathOrder: "!"}
	}
	return route.Match{Path: route.PathMatch{Type: route.PathCharacterPrefix, Value: path}}
}

// orderText returns the order of an expression, before those of higher numbers.
func orderText(number int) string {
	return strings.Repeat("~", expressionOrder-1) + string(rune('~'-1-number))
}

// hasExpressions reports whether a location is an expression.
func (d *ServerDirectives) hasExpressions() bool {
	return slices.ContainsFunc(d.Locations, func(l SnippetLocation) bool { return strings.HasPrefix(l.Modifier, "~") })
}

// HasServer reports whether a server-snippet counts for the host.
func (h *Host) HasServer() bool { return h != nil && h.server != nil }

// problem returns why the table cannot hold a server-snippet.
func (d *ServerDirectives) problem() string {
	host := &Host{server: d, serverOf: [2]string{"", "probe"}}
	probe := &route.Rule{ID: route.ID{Name: "probe"}, Response: &route.Response{Status: 404}}
	host.addServer(probe, &Location{})
	for _, rule := range append(host.ServerRules("", "probe"), probe) {
		if problems := rule.Validate(); len(problems) > 0 {
			return problems[0].Text()
		}
	}
	return ""
}
