package resolve

import (
	"math"

	"slipway.dev/slipway/internal/route"
)

// lastPriorities is the distance of the priorities that put rules last from those
// that put them first. It is more than any length of a rule, so that the order
// among them stays that of the numbers.
const lastPriorities = 1 << 16

// readRouterPriority converts a priority of Traefik's. There a rule without a
// priority has the length of its text as one, so that router.priority "1" comes
// last and a large number first. Rules without a priority have the order of the
// Ingress specification here, which no number can interleave with. So the number
// is compared with the rules that have it: below all of them it puts them last,
// above all of them first, and otherwise they keep their places. Among rules with
// numbers the higher one comes first, as in Traefik.
func (r *resolver) readRouterPriority() {
	number := r.settings.routerPriority
	if number == 0 || len(r.resolved.Paths) == 0 {
		return
	}
	shortest, longest := math.MaxInt, 0
	for i := range r.resolved.Paths {
		length := TraefikLength(r.resolved.Paths[i].Host, r.resolved.Paths[i].Match)
		shortest, longest = min(shortest, length), max(longest, length)
	}
	switch {
	case int(number) > longest:
		r.resolved.Priority = number
	case int(number) < shortest:
		r.resolved.Priority = max(number, math.MinInt32+lastPriorities) - lastPriorities
	}
}

// TraefikLength is the length of the rule that Traefik makes of a host and a path, such
// as Host(`a.example`) && PathPrefix(`/shop`).
func TraefikLength(host string, match route.PathMatch) int {
	length := 0
	if host != "" {
		length = len("Host(``)") + len(host)
	}
	if match.Type == "" {
		return length
	}
	if length > 0 {
		length += len(" && ")
	}
	if match.Type == route.PathExact {
		return length + len("Path(``)") + len(match.Value)
	}
	return length + len("PathPrefix(``)") + len(match.Value)
}
