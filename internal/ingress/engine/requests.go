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

// sharedRequest is a certificate request that counts, shared by the objects of one
// namespace.
type sharedRequest struct {
	resolver string
	hosts    []string
	// ready is set once the Secret has a certificate that can be served.
	ready bool
	// from are the objects that request it.
	from map[certrequest.Requester]struct{}
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
		var granted []grantedRequest
		var pending []refusal.Refusal
		for i := range u.outcome.Requests {
			request := &u.outcome.Requests[i]
			if !e.owns(u, request.Hosts) {
				continue
			}
			granted = append(granted, e.addRequest(certrequest.Requester{Object: u.ref, Field: request.Field}, request))
			if request.Pending != nil {
				pending = append(pending, request.Pending.Of(u.ref.Object()))
			}
		}
		e.replaceGranted(&u.granted, granted)
		e.refusals.set(requestSource{u}, pending)
	}
	e.recomputeListenerRequests()
}

// owns reports whether all hosts belong to the namespace of an Ingress.
func (e *Engine) owns(u *routeUnit, hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(host string) bool {
		claims := e.hosts[host]
		return claims == nil || claims.owner != u.ref.Namespace
	})
}

// addRequest adds an object to the request of a Secret in its namespace, and records
// whether that is a change for the issuer.
func (e *Engine) addRequest(from certrequest.Requester, request *resolve.CertificateRequest) grantedRequest {
	ref := snapshot.Ref{Kind: snapshot.Secret, Namespace: from.Object.Namespace, Name: request.Secret}
	shared := e.requests[ref]
	if shared == nil {
		shared = &sharedRequest{resolver: request.Resolver, hosts: request.Hosts, from: map[certrequest.Requester]struct{}{}}
		e.requests[ref] = shared
	}
	_, known := shared.from[from]
	ready := request.Pending == nil
	e.requestsChanged = e.requestsChanged || !known || ready != shared.ready
	shared.from[from], shared.ready = struct{}{}, ready
	return grantedRequest{ref, from}
}

// removeRequest removes an object from the request of a Secret. The last one removes
// the request, and the sweep of package acme deletes the Secret later.
func (e *Engine) removeRequest(old grantedRequest) {
	e.requestsChanged = true
	shared := e.requests[old.secret]
	delete(shared.from, old.from)
	if len(shared.from) == 0 {
		delete(e.requests, old.secret)
	}
}

// Requests returns the certificates to be issued, in the order of their Secrets.
func (e *Engine) Requests() []certrequest.Request {
	all := make([]certrequest.Request, 0, len(e.requests))
	for _, ref := range slices.SortedFunc(maps.Keys(e.requests), snapshot.Ref.Compare) {
		shared := e.requests[ref]
		wanted := certrequest.Request{Resolver: shared.resolver, Hosts: shared.hosts, Secret: ref, Ready: shared.ready}
		wanted.From = slices.SortedFunc(maps.Keys(shared.from), certrequest.Requester.Compare)
		all = append(all, wanted)
	}
	return all
}

// challengeUnit is the unit of the Secret with the challenges. It makes rules of
// its own, besides those of Ingresses.
type challengeUnit struct {
	reads    []*readObject
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
	rules, bad := certrequest.ChallengeRules(e.options.Home, data, e.challengeListeners)
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
	return slices.Compact(tokens) // a challenge has a rule for each place
}
