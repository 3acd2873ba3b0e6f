package program

import (
	"net/netip"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// Request is what a request is routed by. Host and path are normalised: the
// host in lower case, without port and final dot, empty when there is none; the
// path as it is forwarded.
type Request struct {
	EntryPoint string
	// Listener is set for a request of a listener, instead of EntryPoint.
	Listener Listener
	// TLS is set if the request came over TLS.
	TLS    bool
	Host   string
	Path   string
	Method string
	// Query is the raw query, without the question mark.
	Query string
	// Header is nil when there is none.
	Header Header
	// Client is the address of the client, not one of IPv4 in IPv6; zero when unknown.
	Client netip.Addr
}

// Header gives access to the headers of a request. Lookup reads only those that
// rules have conditions on.
type Header interface {
	// Value returns value number i, from 0, of a header. The name is in
	// canonical form, such as X-Forwarded-For.
	Value(name string, i int) (value string, ok bool)
}

// Result is what Lookup found. Without a rule there is no route: 404.
type Result struct {
	Rule *route.Rule
	// Binding is what Compiler.Bind made for the rule.
	Binding any
}

// Lookup finds the rule that serves a request. It does not allocate.
//
// Most hosts have one rule, which the bucket of the host returns without a
// search, unless a wildcard or a rule without a host has a higher priority.
func (p *Program) Lookup(req *Request) Result {
	if req.Listener != (Listener{}) {
		return p.lookupListener(req)
	}
	entryPoint := p.entryPointBit(req.EntryPoint)
	// The condition on the priority makes sure that no wildcard rule precedes
	// it, and the one on the path excludes requests such as OPTIONS *.
	exact := p.exact.get(req.Host)
	if exact != nil && exact.entryPointMask&entryPoint != 0 && exact.priority >= p.maxWildcardPriority && strings.HasPrefix(req.Path, "/") {
		return exact.single
	}
	if rule := p.find(req, entryPoint, exact); rule != nil {
		return rule.result()
	}
	return Result{}
}

// find searches the rules of all hosts that match: the exact one, the wildcard
// above it, and the rules without a host. The most specific of them that belongs to
// a namespace is not served by the rules that others have for the next ones. It may
// belong to one by its rules on listeners alone.
func (p *Program) find(req *Request, entryPoint uint64, exact *bucket) *compiledRule {
	var best *compiledRule
	owner := ""
	if exact != nil {
		best, owner = exact.search(req, entryPoint, best, ""), exact.owner
	}
	if owner == "" { // also where the host has rules of the edge itself, such as a challenge
		owner = p.routeOwner(req.Host)
	}
	if parent, ok := parentOf(req.Host); ok {
		if found := p.wildcard.get(parent); found != nil {
			best = found.search(req, entryPoint, best, owner)
			if owner == "" {
				owner = found.owner
			}
		}
	}
	if p.none != nil {
		if owner == "" {
			_, owner = p.wildcardOwner(req.Host)
		}
		best = p.none.search(req, entryPoint, best, owner)
	}
	return best
}

// parentOf returns example.com for a.example.com. A name that starts with a dot
// has no label that a wildcard could match.
func parentOf(host string) (string, bool) {
	label, parent, found := strings.Cut(host, ".")
	return parent, found && label != ""
}
