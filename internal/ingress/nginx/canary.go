package nginx

import (
	"fmt"
	"regexp"

	"slipway.dev/slipway/internal/route"
)

// CanarySettings are the annotations of a canary.
type CanarySettings struct {
	Enabled       bool
	Weight, Total int64
	// Header, Value and Pattern are conditions of a header, Cookie one of a cookie.
	Header, Value, Pattern, Cookie string
}

// Canary is a path of a canary: the backend that gets a part of the requests of the
// location with the same host and path.
type Canary struct {
	// Namespace is that of the Ingress. A canary takes no requests of other namespaces.
	Namespace string
	Host      string
	Path      string
	Exact     bool
	Backend   route.BackendID
	Settings  CanarySettings
}

// canaryKey identifies the location of a canary.
type canaryKey struct {
	namespace, path string
	exact           bool
}

func (c *Canary) key() canaryKey { return canaryKey{c.Namespace, c.Path, c.Exact} }

// withCanary returns the rule, with a share of its requests for the canary, and rules
// for the header and the cookie that decide before the weight. The names of variants
// order them: all have one condition.
func (h *Host) withCanary(rule *route.Rule, at *Location) []*route.Rule {
	canary, found := h.canaries[canaryKey{rule.ID.Namespace, at.Path, at.Exact}]
	if !found || len(rule.Backends) != 1 || canary.Backend == rule.Backends[0].Backend {
		return []*route.Rule{rule}
	}
	main := rule.Backends
	alternative := []route.BackendRef{{Backend: canary.Backend}}
	var rules []*route.Rule
	add := func(backends []route.BackendRef, condition route.ValueMatch) {
		made := *rule
		made.ID.Variant = variantOf(rule.ID.Variant, fmt.Sprintf("%s-%d", canaryVariant, len(rules)+1))
		made.Match.Headers = append(rule.Match.Headers[:len(rule.Match.Headers):len(rule.Match.Headers)], condition)
		made.Backends = backends
		rules = append(rules, &made)
	}
	s := &canary.Settings
	switch {
	case s.Header == "":
	case s.Value != "":
		add(alternative, route.ValueMatch{Name: s.Header, Value: s.Value})
	case s.Pattern != "":
		add(alternative, route.ValueMatch{Name: s.Header, Type: route.ValueRegexp, Value: s.Pattern})
	default:
		add(alternative, route.ValueMatch{Name: s.Header, Value: "always"})
		add(main, route.ValueMatch{Name: s.Header, Value: "never"})
	}
	if s.Cookie != "" {
		add(alternative, cookieIs(s.Cookie, "always"))
		add(main, cookieIs(s.Cookie, "never"))
	}
	weighted := *rule
	if weight := min(s.Weight, s.Total); weight > 0 {
		weighted.Backends = []route.BackendRef{
			{Backend: main[0].Backend, Weight: uint32(s.Total - weight)}, {Backend: canary.Backend, Weight: uint32(weight)},
		}
	}
	return append([]*route.Rule{&weighted}, rules...)
}

// cookieIs returns the condition of a cookie.
func cookieIs(name, value string) route.ValueMatch {
	return route.ValueMatch{Name: "Cookie", Type: route.ValueRegexp, Value: `(?:^|;\s*)` + regexp.QuoteMeta(name) + "=" + value + `\s*(?:;|$)`}
}
