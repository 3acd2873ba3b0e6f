package engine

import (
	"maps"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/wish"
)

// sharedWish is a certificate that Ingresses of one namespace want to have
// fetched, and may have.
type sharedWish struct {
	resolver string
	hosts    []string
	ready    bool
	// from has the place in each Ingress that asks for it.
	from map[*ingressUnit]string
}

// wishSource is an Ingress whose certificates are not there yet.
type wishSource struct{ unit *ingressUnit }

// settleWishes decides which certificates are fetched for the Ingresses whose
// wishes or hosts changed. An Ingress gets one only if all of its hosts belong
// to its namespace; why it does not is said where the host is settled.
func (e *Engine) settleWishes() {
	for u := range e.following.wishers {
		var granted []snapshot.Ref
		var pending []snapshot.Refusal
		for i := range u.outcome.Wishes {
			asked := &u.outcome.Wishes[i]
			if !e.owns(u, asked.Hosts) {
				continue
			}
			granted = append(granted, e.grant(u, asked))
			if asked.Pending != nil {
				pending = append(pending, snapshot.Refusal{Object: u.ref, Fault: *asked.Pending})
			}
		}
		for _, before := range u.granted {
			if !slices.Contains(granted, before) {
				e.revoke(u, before)
			}
		}
		u.granted = granted
		e.refusals.set(wishSource{u}, pending)
	}
}

// owns reports whether all hosts belong to the namespace of an Ingress.
func (e *Engine) owns(u *ingressUnit, hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(host string) bool {
		claims := e.hosts[host]
		return claims == nil || claims.owner != u.ref.Namespace
	})
}

func (e *Engine) grant(u *ingressUnit, asked *resolve.CertificateWish) snapshot.Ref {
	ref := snapshot.Ref{Kind: snapshot.Secret, Namespace: u.ref.Namespace, Name: asked.Secret}
	shared := e.wishes[ref]
	if shared == nil {
		shared = &sharedWish{resolver: asked.Resolver, hosts: asked.Hosts, from: map[*ingressUnit]string{}}
		e.wishes[ref] = shared
	}
	field, known := shared.from[u]
	ready := asked.Pending == nil
	e.wishesChanged = e.wishesChanged || !known || field != asked.Field || ready != shared.ready
	shared.from[u], shared.ready = asked.Field, ready
	return ref
}

func (e *Engine) revoke(u *ingressUnit, ref snapshot.Ref) {
	e.wishesChanged = true
	shared := e.wishes[ref]
	delete(shared.from, u)
	if len(shared.from) == 0 {
		delete(e.wishes, ref)
	}
}

// Wishes are the certificates that are to be fetched, in the order of their
// Secrets.
func (e *Engine) Wishes() []wish.Wish {
	all := make([]wish.Wish, 0, len(e.wishes))
	for _, ref := range slices.SortedFunc(maps.Keys(e.wishes), snapshot.Ref.Compare) {
		shared := e.wishes[ref]
		wanted := wish.Wish{Resolver: shared.resolver, Hosts: shared.hosts, Secret: ref, Ready: shared.ready}
		for u, field := range shared.from {
			wanted.From = append(wanted.From, wish.Wisher{Ingress: u.ref, Field: field})
		}
		slices.SortFunc(wanted.From, func(a, b wish.Wisher) int { return a.Ingress.Compare(b.Ingress) })
		all = append(all, wanted)
	}
	return all
}

// challengeUnit is the Secret with the answers to challenges.
type challengeUnit struct {
	reads []snapshot.Ref
	rules ruleSet
	begun bool
}

func (u *challengeUnit) soil(r *round) { r.challenges = true }

// answerChallenges makes the rules for what the Secret of challenges has.
func (e *Engine) answerChallenges() {
	u := &e.challenges
	if e.options.Home == "" || u.begun && !e.following.challenges {
		return
	}
	u.begun = true
	view := e.snapshot.View()
	body := view.Secret(e.options.Home, wish.ChallengesSecret)
	u.reads = e.read(u, u.reads, view)
	object := snapshot.Ref{Kind: snapshot.Secret, Namespace: e.options.Home, Name: wish.ChallengesSecret}
	var refusals []snapshot.Refusal
	var data map[string][]byte
	if body != nil {
		data = body.Data
		if body.Failure != nil {
			refusals = append(refusals, snapshot.Refusal{Object: object, Fault: *body.Failure})
		}
	}
	rules, bad := wish.ChallengeRules(e.options.Home, data)
	if len(bad) > 0 {
		refusals = append(refusals, snapshot.Refusal{Object: object, Fault: snapshot.Fault{
			Field: "data", Reason: snapshot.Invalid, Message: "some challenges are not answered: " + strings.Join(bad[:min(3, len(bad))], "; "),
		}})
	}
	e.refusals.set(u, refusals)
	e.tokensChanged = u.rules.become(rules, &e.following.change.Rules)
}

// Tokens are those of the challenges that are answered.
func (e *Engine) Tokens() []string {
	var tokens []string
	for _, rule := range e.challenges.rules {
		if token, ok := wish.TokenOf(rule); ok {
			tokens = append(tokens, token)
		}
	}
	slices.Sort(tokens)
	return tokens
}
