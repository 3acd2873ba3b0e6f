package engine

import (
	"reflect"
	"slices"
	"time"

	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/translate"
	"slipway.dev/slipway/internal/route"
)

// unit is something that is resolved on its own.
type unit interface {
	// soil marks the unit as one to be resolved.
	soil(*round)
}

// ingressUnit is an Ingress, ours or not.
type ingressUnit struct {
	ref     snapshot.Ref
	reads   []snapshot.Ref
	ours    bool
	born    time.Time // when the Ingress was made
	outcome translate.Outcome
	wishes  map[string]hostWishes // what of the outcome is for each host
	// live are the rules that the table has.
	live ruleSet
	// closed are the hosts that it may not serve, with the reason.
	closed map[string]*snapshot.Fault
	// granted are the Secrets of the certificates that are fetched for it.
	granted []snapshot.Ref
	users   []*backendUnit
	// condition is what was told last.
	condition Condition
}

func (u *ingressUnit) soil(r *round) { r.ingresses[u] = struct{}{} }

// backendUnit is a backend that an Ingress names.
type backendUnit struct {
	id     route.BackendID
	reads  []snapshot.Ref
	result backend.Result
	look   resolve.Look
	// built is false before the first time.
	built bool
	users map[*ingressUnit]struct{}
}

func (u *backendUnit) soil(r *round) { r.backends[u] = struct{}{} }

// read notes what a unit has read, and gives it to be kept.
func (e *Engine) read(u unit, before []snapshot.Ref, view *snapshot.View) []snapshot.Ref {
	after := make([]snapshot.Ref, 0, view.ReadCount())
	after = slices.AppendSeq(after, view.Reads())
	slices.SortFunc(after, snapshot.Ref.Compare)
	if slices.Equal(before, after) {
		return before
	}
	for _, ref := range before {
		if _, stays := slices.BinarySearchFunc(after, ref, snapshot.Ref.Compare); !stays {
			e.forget(u, ref)
		}
	}
	for _, ref := range after {
		if _, known := slices.BinarySearchFunc(before, ref, snapshot.Ref.Compare); known {
			continue
		}
		if len(e.readers[ref]) == 0 {
			e.turnWant(ref)
		}
		e.readers[ref] = append(e.readers[ref], u)
	}
	return after
}

// forget says that a unit does not read something any more.
func (e *Engine) forget(u unit, ref snapshot.Ref) {
	readers := e.readers[ref]
	at := slices.Index(readers, u)
	last := len(readers) - 1
	readers[at] = readers[last]
	readers[last] = nil
	if last > 0 {
		e.readers[ref] = readers[:last]
		return
	}
	delete(e.readers, ref)
	e.turnWant(ref)
}

func (e *Engine) forgetAll(u unit, refs []snapshot.Ref) {
	for _, ref := range refs {
		e.forget(u, ref)
	}
}

// build resolves a backend.
func (e *Engine) build(u *backendUnit) {
	delete(e.following.backends, u)
	view := e.snapshot.View()
	result := backend.Build(view, u.id, backend.Options{
		ExternalNames: e.options.ExternalNames, NativeByDefault: e.options.NativeByDefault,
		DisablePassHost: e.options.DisablePassHost, NoClusterScope: e.options.NoClusterScope,
		CrossNamespace: e.options.CrossNamespace, Zone: e.options.Zone,
	})
	u.reads = e.read(u, u.reads, view)
	e.emitBackend(u, result.Backend)
	e.trust.exchange(trustOf(&u.result), trustOf(&result))
	e.refusals.set(u, result.Refusals)
	u.result = result
	look := resolve.Look{Closed: result.Closed, Empty: len(result.Backend.Endpoints) == 0, Timeouts: result.Timeouts}
	if u.built && !reflect.DeepEqual(look, u.look) {
		for user := range u.users {
			e.following.ingresses[user] = struct{}{}
		}
	}
	u.look, u.built = look, true
}

// emitBackend says what changed of a backend.
func (e *Engine) emitBackend(u *backendUnit, next *route.Backend) {
	delta := &e.following.change.Backends
	switch {
	case !u.built:
		delta.Added = append(delta.Added, next)
	case !reflect.DeepEqual(u.result.Backend, next):
		delta.Changed = append(delta.Changed, next)
	}
}

// looker tells an Ingress about the backends it names, and notes them.
type looker struct {
	engine *Engine
	user   *ingressUnit
	seen   []*backendUnit
}

// Look gives what rules depend on in a backend.
func (l *looker) Look(id route.BackendID) resolve.Look {
	e := l.engine
	u := e.backends[id]
	if u == nil {
		u = &backendUnit{id: id, users: map[*ingressUnit]struct{}{}}
		e.backends[id] = u
	}
	if _, dirty := e.following.backends[u]; dirty || !u.built {
		e.build(u)
	}
	u.users[l.user] = struct{}{}
	l.seen = append(l.seen, u)
	return u.look
}

// resolveIngress resolves an Ingress, and puts what it claims in the place of
// what it claimed before.
func (e *Engine) resolveIngress(u *ingressUnit) {
	delete(e.following.ingresses, u)
	view := e.snapshot.View()
	lookup := &looker{engine: e, user: u}
	site := resolve.Ingress(view, u.ref.Namespace, u.ref.Name, e.options, lookup)
	var outcome translate.Outcome
	if site.Ours {
		outcome = translate.Site(site)
	}
	u.reads = e.read(u, u.reads, view)
	for _, before := range u.users {
		if !slices.Contains(lookup.seen, before) {
			delete(before.users, u)
			e.following.idle[before] = struct{}{}
		}
	}
	u.users = slices.Clip(lookup.seen)
	if u.ours != site.Ours {
		e.following.sites[u.ref] = struct{}{}
	}
	u.ours = site.Ours
	e.exchangeClaims(u, site.Created, &outcome)
	e.refusals.set(u, outcome.Refusals)
	u.outcome = outcome
	e.following.emitted[u] = struct{}{}
	e.refusals.doubted[u.ref] = struct{}{}
	if e.snapshot.Ingress(u.ref.Namespace, u.ref.Name) == nil {
		e.forgetAll(u, u.reads)
		u.reads = nil
		delete(e.ingresses, u.ref)
	}
}

// dropIdle forgets backends that nobody uses.
func (e *Engine) dropIdle() {
	for u := range e.following.idle {
		if len(u.users) > 0 {
			continue
		}
		e.forgetAll(u, u.reads)
		e.trust.exchange(trustOf(&u.result), nil)
		e.refusals.set(u, nil)
		delete(e.backends, u.id)
		// It may have changed before it lost its last user.
		delta := &e.following.change.Backends
		this := func(v *route.Backend) bool { return v.ID == u.id }
		before := len(delta.Added)
		delta.Added = slices.DeleteFunc(delta.Added, this)
		delta.Changed = slices.DeleteFunc(delta.Changed, this)
		if len(delta.Added) == before {
			delta.Removed = append(delta.Removed, u.id)
		}
	}
}

// emitRules says what changed of the rules of the units that were resolved, or
// whose hosts were closed or opened.
func (e *Engine) emitRules() {
	for u := range e.following.emitted {
		rules := u.outcome.Rules
		if len(u.closed) > 0 {
			rules = slices.Clone(rules)
		}
		for i, rule := range rules {
			if fault := u.closed[rule.Host]; fault != nil {
				rules[i] = closedRule(rule, fault)
			}
		}
		u.live.become(rules, &e.following.change.Rules)
	}
}

// ruleSet are the rules of a unit that the table has. It is a list because most
// have one rule, and there are many.
type ruleSet []*route.Rule

// become makes these the rules, and adds to a delta what leads there. It reports
// whether that is anything.
func (s *ruleSet) become(rules []*route.Rule, delta *route.Delta[route.ID, route.Rule]) (changed bool) {
	gone := make(map[route.ID]*route.Rule, len(*s))
	for _, rule := range *s {
		gone[rule.ID] = rule
	}
	next := make(ruleSet, len(rules))
	for i, rule := range rules {
		before := gone[rule.ID]
		delete(gone, rule.ID)
		switch {
		case before == nil:
			delta.Added = append(delta.Added, rule)
			changed = true
		case before != rule && !reflect.DeepEqual(before, rule):
			delta.Changed = append(delta.Changed, rule)
			changed = true
		default:
			rule = before // what is the same stays the same
		}
		next[i] = rule
	}
	for id := range gone {
		delta.Removed = append(delta.Removed, id)
		changed = true
	}
	*s = next
	return changed
}

// closedRule is the rule with nothing but a 503.
func closedRule(rule *route.Rule, fault *snapshot.Fault) *route.Rule {
	closed := *rule
	closed.Policies, closed.Backends, closed.Sticky, closed.Timeouts = nil, nil, nil, route.Timeouts{}
	closed.Response = &route.Response{Status: 503, Reason: route.ReasonRefused, Message: fault.Message}
	return &closed
}
