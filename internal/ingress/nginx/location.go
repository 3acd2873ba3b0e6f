package nginx

import (
	"slices"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// Location is a path of an Ingress, as far as its rule depends on the other Ingresses of
// the host.
type Location struct {
	Host string
	// Path is the path as it is written, / for an empty one. Paths are exact or
	// prefixes: ingress-nginx makes the type ImplementationSpecific a prefix.
	Path  string
	Exact bool
	// Expressions is set if the path is an expression by itself.
	Expressions bool
	// Default marks the default backend, which has no path.
	Default bool
	// Guest marks a rule for an alias, or of a redirect between hosts with and without
	// www. A host that an Ingress has itself does not get it.
	Guest bool
	// Redirects marks the redirect between hosts with and without www, which is another
	// server in ingress-nginx.
	Redirects bool
	// ToTLS redirects plain requests, and Header is for encrypted ones, if the host has
	// TLS, or always with Force. They have the place At among the policies.
	ToTLS, Header *route.Policy
	Force         bool
	At            int
}

// problem returns why the path cannot be an expression.
func (l *Location) problem() string {
	if l.Default {
		return ""
	}
	return ExpressionProblem(l.Path)
}

// Outcome is what an Ingress contributes to its hosts.
type Outcome struct {
	// Locations are those of its rules, in their order.
	Locations []Location
	// TLSHosts are the hosts that it has a certificate for.
	TLSHosts []string
	// ExpressionHosts are those whose paths it makes expressions, also by a path that
	// is refused.
	ExpressionHosts []string
	// Server is its server-snippet, nil without one.
	Server *ServerDirectives
	// Everywhere is the location-snippet of the ConfigMap, nil without one.
	Everywhere *Directives
	// Canaries are the paths of an Ingress that is a canary, which has no rules.
	Canaries []Canary
}

// Member is an Ingress that counts for a host.
type Member struct {
	Namespace, Name string
	Outcome         *Outcome
}

// Host is what the rules of a host depend on. It is made of all Ingresses that count for
// the host, oldest first, and does not change.
type Host struct {
	// Expressions is set if all paths are expressions.
	Expressions bool
	// TLS is set if there is a certificate for the host.
	TLS bool
	// Owned is set if an Ingress has rules of its own for the host.
	Owned bool
	// oldest is the Ingress that the host has its default of, and catchAll is set if a
	// rule takes all requests.
	oldest   [2]string
	catchAll bool
	// exact are the exact paths, and taken all paths as they are written. Both are
	// sorted: there is a Host for each host, and most have one path.
	exact, taken []string
	canaries     map[canaryKey]Canary // nil without any
	// server is the server-snippet of the oldest Ingress that has one, serverOf.
	server   *ServerDirectives
	serverOf [2]string
	// everywhere is the location-snippet of the ConfigMap, nil without one.
	everywhere *Directives
}

// NewHost returns the state of a host, nil without a member.
func NewHost(name string, members []Member) *Host {
	if len(members) == 0 {
		return nil
	}
	h := &Host{}
	h.oldest, h.everywhere = [2]string{members[0].Namespace, members[0].Name}, members[0].Outcome.Everywhere
	for _, member := range members {
		h.TLS = h.TLS || slices.Contains(member.Outcome.TLSHosts, name)
		h.Expressions = h.Expressions || slices.Contains(member.Outcome.ExpressionHosts, name)
		for i := range member.Outcome.Locations {
			at := &member.Outcome.Locations[i]
			if at.Host != name {
				continue
			}
			h.add(at)
			if member.Outcome.Server != nil && h.server == nil && !at.Redirects {
				h.server, h.serverOf = member.Outcome.Server, [2]string{member.Namespace, member.Name}
			}
		}
		for _, canary := range member.Outcome.Canaries {
			if canary.Host != name {
				continue
			}
			canary.Namespace = member.Namespace
			if h.canaries == nil {
				h.canaries = map[canaryKey]Canary{}
			}
			// The oldest canary of a path counts.
			if _, known := h.canaries[canary.key()]; !known {
				h.canaries[canary.key()] = canary
			}
		}
	}
	h.exact, h.taken = distinct(h.exact), distinct(h.taken)
	return h
}

// distinct sorts paths, each once.
func distinct(paths []string) []string {
	slices.Sort(paths)
	return slices.Clip(slices.Compact(paths))
}

// has reports whether sorted paths have a path.
func has(paths []string, path string) bool {
	_, found := slices.BinarySearch(paths, path)
	return found
}

// add adds a location. NewHost sorts the paths.
func (h *Host) add(at *Location) {
	h.Owned = h.Owned || !at.Guest
	h.catchAll = h.catchAll || at.Default || at.Path == "/" && !at.Exact
	if at.Default {
		return
	}
	h.taken = append(h.taken, at.Path)
	if at.Exact {
		h.exact = append(h.exact, at.Path)
	}
}

// Missing returns the rule for requests that match no path: ingress-nginx does not serve
// them by a wildcard or by a rule without a host. It is nil where a rule takes all
// requests, and for all Ingresses but the oldest of the host.
func (h *Host) Missing(namespace, name string) *route.Rule {
	if h == nil || h.catchAll || !h.Owned || h.oldest != [2]string{namespace, name} {
		return nil
	}
	missing := &route.Rule{
		ID:       route.ID{Kind: "Ingress", Namespace: namespace, Name: name, Variant: MissingVariant},
		Fallback: true, Response: &route.Response{Status: 404, Reason: route.ReasonConfigured, Message: "no path of the host matches"},
	}
	h.addEverywhere(missing)
	h.addServer(missing, &Location{})
	return missing
}

// HasCanaryTarget reports whether a location takes the requests of a canary.
func (h *Host) HasCanaryTarget(canary *Canary) bool { return h != nil && has(h.taken, canary.Path) }

// The variants of rules that a path needs besides its own.
const (
	// SlashVariant redirects to the path with a slash at its end.
	SlashVariant = "slash"
	// MissingVariant responds to requests that match no path.
	MissingVariant = "missing"
	canaryVariant  = "canary"
)

// Place returns the rules of a location, the first of them in place of the given one, or
// why it has none. The given rule is not changed. It has the place that the Ingress
// specification gives it; a nil host leaves it there.
func (h *Host) Place(rule *route.Rule, at *Location) (rules []*route.Rule, problem string) {
	if h == nil {
		h = &noHost
	}
	if at.Guest && h.Owned {
		return nil, ""
	}
	if h.leaves(rule, at) {
		return []*route.Rule{rule}, ""
	}
	placed := *rule
	h.addServer(&placed, at)
	h.addTLS(&placed, at)
	if at.Default {
		return []*route.Rule{&placed}, ""
	}
	if h.Expressions {
		if problem := at.problem(); problem != "" {
			return nil, problem
		}
		placed.Match.Path = route.PathMatch{Type: route.PathRegexp, Value: h.expressionOf(at)}
		placed.Match.PathOrder = at.Path
		if placed.Directives != nil {
			located := *placed.Directives
			located.Groups = placed.Match.Path.Value
			placed.Directives = &located
		}
		return h.withCanary(&placed, at), ""
	}
	rules = []*route.Rule{&placed}
	if endsWithSlash(rule) {
		// A prefix with a slash at its end does not match the path without it.
		if !at.Exact {
			placed.Match.Path.Type = route.PathCharacterPrefix
		}
		if !has(h.taken, strings.TrimSuffix(at.Path, "/")) {
			rules = append(rules, slashRule(&placed))
		}
	}
	return append(h.withCanary(&placed, at), rules[1:]...), ""
}

// noHost is a host without Ingresses that count.
var noHost Host

// leaves reports whether the host leaves a rule as it is. Most do, and their rules are in
// memory once.
func (h *Host) leaves(rule *route.Rule, at *Location) bool {
	return h.server == nil && !h.redirects(rule, at) && (at.Default || !h.Expressions && len(h.canaries) == 0 && !endsWithSlash(rule))
}

// endsWithSlash reports whether the path of a rule is longer than the slash at its end.
func endsWithSlash(rule *route.Rule) bool {
	return rule.Match.Path.Value != "/" && strings.HasSuffix(rule.Match.Path.Value, "/")
}

// expressionOf returns the expression of a location. A prefix beside an exact path of the
// same text has a slash at its end; otherwise ingress-nginx adds a location for the
// exact path, which matches as a prefix, too, because it is an expression.
func (h *Host) expressionOf(at *Location) string {
	path := at.Path
	if !at.Exact && !at.Expressions && has(h.exact, path) && !strings.HasSuffix(path, "/") {
		path += "/"
	}
	return Expression(path)
}

// redirects reports whether a rule has the redirect to https.
func (h *Host) redirects(rule *route.Rule, at *Location) bool {
	return at.ToTLS != nil && rule.Response == nil && (at.Force || h.TLS)
}

// addTLS adds the redirect to https.
func (h *Host) addTLS(rule *route.Rule, at *Location) {
	if !h.redirects(rule, at) {
		return
	}
	added := []route.Policy{*at.ToTLS}
	if at.Header != nil && h.TLS {
		added = append(added, *at.Header)
	}
	rule.Policies = slices.Insert(slices.Clone(rule.Policies), min(at.At, len(rule.Policies)), added...)
}

// slashRule returns the redirect of nginx from the path without a slash at its end.
func slashRule(rule *route.Rule) *route.Rule {
	path := rule.Match.Path.Value
	redirect := *rule
	redirect.ID.Variant = variantOf(rule.ID.Variant, SlashVariant)
	redirect.Match = route.Match{Path: route.PathMatch{Type: route.PathExact, Value: strings.TrimSuffix(path, "/")}, Scheme: rule.Match.Scheme}
	redirect.Policies, redirect.Directives, redirect.Backends, redirect.Rewrite, redirect.Sticky, redirect.Timeouts = nil, nil, nil, nil, nil, route.Timeouts{}
	redirect.Response = &route.Response{Status: 301, Reason: route.ReasonConfigured, Redirect: &route.Redirect{Path: path}}
	return &redirect
}

// variantOf joins the variant of a rule and that of one that is made of it.
func variantOf(of, variant string) string {
	if of == "" {
		return variant
	}
	return of + "-" + variant
}
