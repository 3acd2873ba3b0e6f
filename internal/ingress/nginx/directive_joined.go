package nginx

import (
	"cmp"
	"fmt"
	"slices"

	"slipway.dev/slipway/internal/route"
)

// located returns the directives of a location: those of the configuration-snippet, and
// behind them those of the ConfigMap, as ingress-nginx writes them; nil without any.
func (s *Snippets) located() *Directives {
	if s.Location == nil || s.Everywhere == nil {
		return cmp.Or(s.Location, s.Everywhere)
	}
	own, other := &s.Location.Program, &s.Everywhere.Program
	joined := &Directives{rules: slices.Concat(s.Location.rules, s.Everywhere.rules)}
	joined.Access = accessFilter(joined.rules)
	joined.Program = route.Directives{
		Steps: slices.Concat(own.Steps, other.Steps), Request: slices.Concat(own.Request, other.Request), Hide: slices.Concat(own.Hide, other.Hide),
		Response: route.DirectiveResponse{
			Change: slices.Concat(own.Response.Change, other.Response.Change), Add: slices.Concat(own.Response.Add, other.Response.Add),
		},
		ContentType: cmp.Or(own.ContentType, other.ContentType), Auth: cmp.Or(own.Auth, other.Auth),
	}
	if own.Auth != nil && other.Auth != nil {
		joined.Program.Auth = &route.DirectiveAuth{Set: slices.Concat(own.Auth.Set, other.Auth.Set)}
	}
	return joined
}

// accessError returns an error if a filter cannot have all ranges of allow and deny.
func (d *Directives) accessError() error {
	if d.Access != nil && len(d.Access.Deny) > maxAccessRanges {
		return fmt.Errorf("allow and deny give more than %d ranges; use fewer", maxAccessRanges)
	}
	return nil
}

// addEverywhere adds the location-snippet of the ConfigMap to the rule of requests that
// match no path, which have a location in ingress-nginx, too.
func (h *Host) addEverywhere(rule *route.Rule) {
	if h.everywhere == nil {
		return
	}
	if of := h.everywhere.Access; of != nil {
		id := route.PolicyID{Kind: "Ingress", Namespace: rule.ID.Namespace, Name: rule.ID.Name, Variant: "nginx-location-snippet"}
		rule.Policies = append(rule.Policies, route.Policy{ID: id, IPFilter: of})
	}
	if program := h.everywhere.Program; !program.IsZero() {
		rule.Directives = &program
	}
}
