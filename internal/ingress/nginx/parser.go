package nginx

import (
	"hash/maphash"
	"maps"
	"math/bits"
	"slices"
	"sync"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

const (
	// maxRemembered bounds the results that a Parser remembers, and maxRememberedBytes the
	// annotations of each.
	maxRemembered      = 256
	maxRememberedBytes = 2048
)

// Parser parses the annotations of Ingresses, and remembers the last results: many
// Ingresses have the same annotations, and share what is made of them. The zero value is
// ready, and it is safe for concurrent use.
type Parser struct {
	mu    sync.Mutex
	seed  maphash.Seed
	base  *Settings
	known map[uint64]*Parsed
}

// Parsed is the result of Parse with the policies of the settings, which have no identity
// yet. It is shared and must not be changed.
type Parsed struct {
	Settings *Settings
	Faults   []refusal.Refusal
	Closed   bool
	// Before and After are the policies before and behind the redirect to https.
	Before, After []Step
	// Policies are those of both, if no Ingress has to have its own: no other objects are
	// named, and nothing is counted. Thousands of Ingresses with the same annotations share
	// them, and their identity is that of no Ingress. Nil otherwise.
	Policies []route.Policy

	annotations map[string]string
}

// Parse parses annotations as the function Parse does.
func (p *Parser) Parse(annotations map[string]string, base *Settings) *Parsed {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || p.base != base || len(p.known) >= maxRemembered {
		p.seed, p.base, p.known = maphash.MakeSeed(), base, map[uint64]*Parsed{}
	}
	// A sum does not depend on the order of a map.
	var hash uint64
	size := 0
	for name, value := range annotations {
		size += len(name) + len(value)
		hash += maphash.String(p.seed, name) * (bits.RotateLeft64(maphash.String(p.seed, value), 1) | 1)
	}
	if found := p.known[hash]; found != nil && maps.Equal(found.annotations, annotations) {
		return found
	}
	parsed := &Parsed{annotations: annotations}
	parsed.Settings, parsed.Faults, parsed.Closed = Parse(annotations, base)
	parsed.Before, parsed.After = parsed.Settings.Before(route.PolicyID{}), parsed.Settings.After(route.PolicyID{})
	parsed.Policies = sharedPolicies(parsed.Before, parsed.After)
	if size <= maxRememberedBytes {
		p.known[hash] = parsed
	}
	return parsed
}

// sharedName is the name of policies that Ingresses share.
const sharedName = "ingress-nginx"

// sharedPolicies returns the policies of steps that Ingresses can share; nil if one of them
// cannot be shared, or there are none.
func sharedPolicies(lists ...[]Step) []route.Policy {
	var policies []route.Policy
	for _, steps := range lists {
		for i := range steps {
			policy := steps[i].Policy
			if steps[i].Filter != nil || policy.RateLimit != nil || policy.InFlight != nil || policy.CircuitBreaker != nil {
				return nil
			}
			policy.ID.Name = sharedName
			policies = append(policies, policy)
		}
	}
	return slices.Clip(policies)
}
