// Package engine turns changes of a cluster into changes of the routing table.
//
// It keeps a unit for each Ingress and for each backend that one names. A unit
// remembers what it read, so a change of the cluster resolves again exactly the
// units that read what changed, and an update that changes nothing costs
// nothing. Above the units it decides what no Ingress can decide alone: which
// namespace a host belongs to, and so whose certificates and TLS options count
// for it.
//
// It promises that the same cluster gives the same table on every replica, in
// whatever order its objects came.
//
// It is for one goroutine, the one that owns the Snapshot.
package engine

import (
	"iter"
	"maps"
	"slices"

	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Engine resolves a Snapshot.
type Engine struct {
	snapshot *snapshot.Snapshot
	options  resolve.Options

	ingresses map[snapshot.Ref]*ingressUnit
	backends  map[route.BackendID]*backendUnit
	// readers are the units that read something.
	readers map[snapshot.Ref][]unit

	hosts    map[string]*hostClaims
	trust    trust
	refusals refusalBook
	// wishes are the certificates to be fetched, by Secret.
	wishes     map[snapshot.Ref]*sharedWish
	challenges challengeUnit
	// wishesChanged and tokensChanged are about the last Update.
	wishesChanged bool
	tokensChanged bool
	following     round
}

// round is what one Update has found so far.
type round struct {
	// ingresses and backends are to be resolved.
	ingresses map[*ingressUnit]struct{}
	backends  map[*backendUnit]struct{}
	// idle are backends that may have lost their last user.
	idle map[*backendUnit]struct{}
	// wants are the Secrets and custom objects that began or ceased to be read.
	wants map[snapshot.Ref]struct{}
	// hosts are those whose claims changed.
	hosts map[string]struct{}
	// emitted are units whose rules have to be compared with what was said last.
	emitted map[*ingressUnit]struct{}
	// sites are Ingresses that began or ceased to be ours.
	sites map[snapshot.Ref]struct{}
	// wishers are units whose wishes, or the hosts of these, changed.
	wishers map[*ingressUnit]struct{}
	// challenges is set when the Secret of challenges changed.
	challenges bool
	change     route.Change
}

// New gives an Engine for an empty Snapshot, or for a full one of which nothing
// has been said yet.
func New(facts *snapshot.Snapshot, options resolve.Options) *Engine {
	return &Engine{
		snapshot: facts, options: options,
		ingresses: map[snapshot.Ref]*ingressUnit{},
		backends:  map[route.BackendID]*backendUnit{},
		readers:   map[snapshot.Ref][]unit{},
		hosts:     map[string]*hostClaims{},
		trust:     newTrust(),
		refusals:  newRefusalBook(),
		wishes:    map[snapshot.Ref]*sharedWish{},
	}
}

// Result is what follows from a change of the cluster.
type Result struct {
	// Change leads from the last table to this one.
	Change route.Change
	// Wanted are the Secrets and objects of custom kinds that units read now and
	// did not before, and Unwanted are those that they do not read any more.
	Wanted, Unwanted []snapshot.Ref
	// Sites are the Ingresses that began or ceased to be ours.
	Sites []snapshot.Ref
	// WishesChanged says that Wishes gives something else now, and TokensChanged
	// that Tokens does.
	WishesChanged bool
	TokensChanged bool
}

// Update resolves what read what changed.
func (e *Engine) Update(changed []snapshot.Ref) Result {
	e.following = round{
		ingresses: map[*ingressUnit]struct{}{}, backends: map[*backendUnit]struct{}{}, idle: map[*backendUnit]struct{}{},
		hosts: map[string]struct{}{}, emitted: map[*ingressUnit]struct{}{}, sites: map[snapshot.Ref]struct{}{},
		wishers: map[*ingressUnit]struct{}{}, wants: map[snapshot.Ref]struct{}{},
	}
	e.wishesChanged, e.tokensChanged = false, false
	for _, ref := range changed {
		if ref.Kind == snapshot.Ingress && e.ingresses[ref] == nil {
			unit := &ingressUnit{ref: ref}
			e.ingresses[ref] = unit
			e.following.ingresses[unit] = struct{}{}
		}
		for _, reader := range e.readers[ref] {
			reader.soil(&e.following)
		}
	}
	e.resolve()
	e.settleHosts()
	e.settleWishes()
	e.emitRules()
	e.answerChallenges()
	e.dropIdle()
	e.trust.emit(&e.following.change)
	result := Result{
		Change:        e.following.change,
		Sites:         slices.SortedFunc(maps.Keys(e.following.sites), snapshot.Ref.Compare),
		WishesChanged: e.wishesChanged, TokensChanged: e.tokensChanged,
	}
	for ref := range e.following.wants {
		if len(e.readers[ref]) > 0 {
			result.Wanted = append(result.Wanted, ref)
		} else {
			result.Unwanted = append(result.Unwanted, ref)
		}
	}
	e.following = round{} // the first is about everything there is
	return result
}

// All is Update for everything that is in the Snapshot.
func (e *Engine) All() Result {
	var refs []snapshot.Ref
	for namespace, name := range e.snapshot.Names(snapshot.Ingress) {
		refs = append(refs, snapshot.Ref{Kind: snapshot.Ingress, Namespace: namespace, Name: name})
	}
	slices.SortFunc(refs, snapshot.Ref.Compare)
	return e.Update(refs)
}

// resolve resolves the units that are to be. Backends come first: what rules
// depend on in them may make more Ingresses dirty.
func (e *Engine) resolve() {
	for unit := range e.following.backends {
		e.build(unit)
	}
	// One that is found on the way is not always met by the same loop.
	for len(e.following.ingresses) > 0 {
		for unit := range e.following.ingresses {
			e.resolveIngress(unit)
		}
	}
}

// Ours reports whether an Ingress is served by us.
func (e *Engine) Ours(ref snapshot.Ref) bool {
	unit := e.ingresses[ref]
	return unit != nil && unit.ours
}

// Wants are the Secrets and objects of custom kinds that units have read.
func (e *Engine) Wants() iter.Seq[snapshot.Ref] {
	return func(yield func(snapshot.Ref) bool) {
		for ref := range e.readers {
			if wanted(ref) && !yield(ref) {
				return
			}
		}
	}
}

// turnWant notes that something is wanted, or not any more. What turns twice in
// a round is as it was.
func (e *Engine) turnWant(ref snapshot.Ref) {
	if !wanted(ref) {
		return
	}
	if _, turned := e.following.wants[ref]; turned {
		delete(e.following.wants, ref)
		return
	}
	e.following.wants[ref] = struct{}{}
}

// wanted reports whether something is read only when a unit asks for it.
func wanted(ref snapshot.Ref) bool { return ref.Kind == snapshot.Secret || ref.Kind.Custom() }

// Backend tells what was found out about a backend, for people.
func (e *Engine) Backend(id route.BackendID) (backend.Result, bool) {
	unit := e.backends[id]
	if unit == nil {
		return backend.Result{}, false
	}
	return unit.result, true
}
