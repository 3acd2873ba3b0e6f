package engine

import (
	"maps"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// sharedRequest is a certificate request that counts, shared by Ingresses of one
// namespace.
type sharedRequest struct {
	resolver string
	hosts    []string
	// ready is set once the Secret has a certificate that can be served.
	ready bool
	// from has the field of each Ingress that requests it.
	from map[*routeUnit]string
}

// requestSource is the source of refusals about certificates that are not issued
// yet.
type requestSource struct{ unit *routeUnit }

// recomputeRequests decides which certificate requests count, for the Ingresses
// whose requests or hosts changed. A request counts only if all of its hosts
// belong to the namespace of the Ingress; recomputeHost refuses the others. It
// runs after recomputeHosts, which sets the owners.
func (e *Engine) recomputeRequests() {
	for u := range e.state.requesters {
		var granted []snapshot.Ref
		var pending []refusal.Refusal
		for i := range u.outcome.Requests {
			request := &u.outcome.Requests[i]
			if !e.owns(u, request.Hosts) {
				continue
			}
			// New requests are added before old ones are removed, so that one
			// which stays is never removed in between.
			granted = append(granted, e.addRequest(u, request))
			if request.Pending != nil {
				pending = append(pending, request.Pending.Of(u.ref.Object()))
			}
		}
		for _, before := range u.granted {
			if !slices.Contains(granted, before) {
				e.removeRequest(u, before)
			}
		}
		u.granted = granted
		e.refusals.set(requestSource{u}, pending)
	}
}

// owns reports whether all hosts belong to the namespace of an Ingress.
func (e *Engine) owns(u *routeUnit, hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(host string) bool {
		claims := e.hosts[host]
		return claims == nil || claims.owner != u.ref.Namespace
	})
}

// addRequest adds an Ingress to the request of a Secret, and records whether that is
// a change for the issuer.
func (e *Engine) addRequest(u *routeUnit, request *resolve.CertificateRequest) snapshot.Ref {
	ref := snapshot.Ref{Kind: snapshot.Secret, Namespace: u.ref.Namespace, Name: request.Secret}
	shared := e.requests[ref]
	if shared == nil {
		shared = &sharedRequest{resolver: request.Resolver, hosts: request.Hosts, from: map[*routeUnit]string{}}
		e.requests[ref] = shared
	}
	field, known := shared.from[u]
	ready := request.Pending == nil
	e.requestsChanged = e.requestsChanged || !known || field != request.Field || ready != shared.ready
	shared.from[u], shared.ready = request.Field, ready
	return ref
}

// removeRequest removes an Ingress from the request of a Secret. The last one removes
// the request, and the sweep of package acme deletes the Secret later.
func (e *Engine) removeRequest(u *routeUnit, ref snapshot.Ref) {
	e.requestsChanged = true
	shared := e.requests[ref]
	delete(shared.from, u)
	if len(shared.from) == 0 {
		delete(e.requests, ref)
	}
}

// Requests returns the certificates to be issued, in the order of their Secrets.
func (e *Engine) Requests() []certrequest.Request {
	all := make([]certrequest.Request, 0, len(e.requests))
	for _, ref := range slices.SortedFunc(maps.Keys(e.requests), snapshot.Ref.Compare) {
		shared := e.requests[ref]
		wanted := certrequest.Request{Resolver: shared.resolver, Hosts: shared.hosts, Secret: ref, Ready: shared.ready}
		for u, field := range shared.from {
			wanted.From = append(wanted.From, certrequest.Requester{Ingress: u.ref, Field: field})
		}
		slices.SortFunc(wanted.From, func(a, b certrequest.Requester) int { return a.Ingress.Compare(b.Ingress) })
		all = append(all, wanted)
	}
	return all
}

// challengeUnit is the unit of the Secret with the challenges. It makes rules of
// its own, besides those of Ingresses.
type challengeUnit struct {
	reads    []snapshot.Ref
	rules    ruleSet
	resolved bool
}

// markDirty implements unit.
func (u *challengeUnit) markDirty(r *updateState) { r.challenges = true }

// updateChallenges replaces the rules for the challenges in the Secret.
func (e *Engine) updateChallenges() {
	u := &e.challenges
	// Without a home namespace there is no issuer. The first pass resolves the
	// unit even without an event, so that it reads the Secret and gets its
	// later changes.
	if e.options.Home == "" || u.resolved && !e.state.challenges {
		return
	}
	u.resolved = true
	view := e.snapshot.View()
	body := view.Secret(e.options.Home, certrequest.ChallengesSecret)
	u.reads = e.read(u, u.reads, view)
	object := snapshot.Ref{Kind: snapshot.Secret, Namespace: e.options.Home, Name: certrequest.ChallengesSecret}
	var refusals []refusal.Refusal
	var data map[string][]byte
	if body != nil {
		data = body.Data
		if body.Failure != nil {
			refusals = append(refusals, body.Failure.Of(object.Object()))
		}
	}
	// One invalid challenge must not keep the others from being served.
	rules, bad := certrequest.ChallengeRules(e.options.Home, data)
	if len(bad) > 0 {
		refusals = append(refusals, refusal.New("data", refusal.Invalid,
			"some challenges are not served: %s", strings.Join(bad[:min(3, len(bad))], "; ")).Of(object.Object()))
	}
	e.refusals.set(u, refusals)
	e.tokensChanged = u.rules.replace(rules, &e.state.change.Rules)
}

// Tokens returns the tokens of the challenges that are served.
func (e *Engine) Tokens() []string {
	var tokens []string
	for _, rule := range e.challenges.rules {
		if token, ok := certrequest.TokenOf(rule); ok {
			tokens = append(tokens, token)
		}
	}
	slices.Sort(tokens)
	return tokens
}
