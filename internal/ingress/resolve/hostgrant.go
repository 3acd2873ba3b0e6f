package resolve

import (
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/annotation"
	"slipway.dev/slipway/internal/route"
)

// HostSharing selects what becomes of the rules that a namespace has for the host
// of another one.
type HostSharing string

// The ways to share hosts. The empty one is HostSharingDeny.
const (
	// HostSharingDeny refuses the rules, unless the owner has granted them.
	HostSharingDeny HostSharing = "deny"
	// HostSharingBehind serves them behind all rules of the owner.
	HostSharingBehind HostSharing = "behind"
	// HostSharingOpen orders the rules of all namespaces alike.
	HostSharingOpen HostSharing = "open"
)

// HostGrant lets a namespace have rules for the hosts of another one.
type HostGrant struct {
	Namespace string
	// Prefixes are the paths of the grant, element by element and without a slash
	// at the end; none grants the whole host.
	Prefixes []string
}

// Covers reports whether every request that the match selects lies within the
// grant. A regular expression needs the whole host: the text that it starts with
// does not bound an element.
func (g *HostGrant) Covers(match route.PathMatch) bool {
	if len(g.Prefixes) == 0 {
		return true
	}
	return slices.ContainsFunc(g.Prefixes, func(prefix string) bool {
		rest, inside := strings.CutPrefix(match.Value, prefix)
		switch match.Type {
		case route.PathExact, route.PathPrefix:
			return inside && (rest == "" || rest[0] == '/')
		case route.PathCharacterPrefix:
			return inside && rest != "" && rest[0] == '/'
		default:
			return false
		}
	})
}

// readGrants reads the grants of the annotations. A prefix that no rule can have is
// refused, and the grant is left without it.
func (r *resolver) readGrants(grants []annotation.HostGrant) {
	for _, given := range grants {
		grant := HostGrant{Namespace: given.Namespace}
		whole := len(given.Prefixes) == 0
		for _, written := range given.Prefixes {
			prefix := SpellPath(written)
			if problem := pathProblem(route.PathMatch{Type: route.PathPrefix, Value: prefix}); problem != "" {
				r.refuseHere(given.Field, refusal.Invalid, "the prefix %s of namespace %s is not granted: %s", quoted(written), given.Namespace, problem)
				continue
			}
			whole = whole || prefix == "/"
			grant.Prefixes = append(grant.Prefixes, strings.TrimSuffix(prefix, "/"))
		}
		switch {
		case whole:
			grant.Prefixes = nil
		case len(grant.Prefixes) == 0:
			continue // none would grant the whole host
		}
		r.resolved.Grants = append(r.resolved.Grants, grant)
	}
}
