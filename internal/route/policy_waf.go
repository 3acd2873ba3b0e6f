package route

import (
	"slipway.dev/slipway/api/refusal"
)

// WAF inspects requests and responses with the rules of a web application
// firewall, written in SecLang, the language of ModSecurity. A rule of the table has
// at most one.
type WAF struct {
	// Directives are a closed set of SecLang's: rules, switches and limits. None reads
	// or writes a file, opens a connection or runs a program. `Include @recommended`
	// and `Include @owasp_crs` stand for the recommended settings and the OWASP Core
	// Rule Set. Without SecRuleEngine matches are only reported.
	Directives string `json:"directives"`
	// IDHeader is the request header whose value names the request in the log; without
	// it, and for a request without it, the name is random.
	IDHeader string `json:"idHeader,omitempty"`
}

// check parses the directives.
func (p *WAF) check(r *report) {
	checkOptionalHeaderName(r, "idHeader", p.IDHeader)
	if p.Directives == "" {
		r.add("directives", refusal.Required, "nothing is inspected; give directives such as Include @owasp_crs")
		return
	}
	if _, err := ParseDirectives(p.Directives); err != nil {
		r.add("directives", refusal.Invalid, "%v", err)
	}
}

// countWAF counts the policies that inspect, those in chains included.
func countWAF(policies []Policy, depth int) (count int) {
	for i := range policies {
		if policies[i].WAF != nil {
			count++
		}
		if chain := policies[i].Chain; chain != nil && depth > 0 {
			count += countWAF(chain.Policies, depth-1)
		}
	}
	return count
}
