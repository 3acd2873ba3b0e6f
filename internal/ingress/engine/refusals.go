package engine

import (
	"iter"
	"maps"
	"slices"
	"strconv"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// claimSource is the source of refused claims: an Ingress and a host.
type claimSource struct {
	unit *routeUnit
	host string
}

// servedSource is the source of refusals by the edge: about the rules of an
// Ingress, or about certificates.
type servedSource struct {
	ingress     snapshot.Ref
	certificate bool
}

// refusalIndex holds the current refusals by their source, so that each source can
// replace its own without knowing the others.
type refusalIndex struct {
	bySource map[any][]refusal.Refusal
	byObject map[refusal.Object]map[any]struct{}
	changed  map[refusal.Object]struct{}
	// staleConditions are Ingresses and routes whose condition has to be derived
	// again.
	staleConditions map[snapshot.Ref]struct{}
}

// newRefusalIndex returns an empty index.
func newRefusalIndex() refusalIndex {
	return refusalIndex{
		bySource: map[any][]refusal.Refusal{}, byObject: map[refusal.Object]map[any]struct{}{}, changed: map[refusal.Object]struct{}{},
		staleConditions: map[snapshot.Ref]struct{}{},
	}
}

// set replaces the refusals of a source.
func (b *refusalIndex) set(source any, refusals []refusal.Refusal) {
	before := b.bySource[source]
	if slices.Equal(before, refusals) {
		return
	}
	for i := range before {
		object := before[i].Object
		delete(b.byObject[object], source)
		if len(b.byObject[object]) == 0 {
			delete(b.byObject, object)
		}
		b.markChanged(object)
	}
	if len(refusals) == 0 {
		delete(b.bySource, source)
		return
	}
	b.bySource[source] = refusals
	for i := range refusals {
		object := refusals[i].Object
		if b.byObject[object] == nil {
			b.byObject[object] = map[any]struct{}{}
		}
		b.byObject[object][source] = struct{}{}
		b.markChanged(object)
	}
}

// markChanged records that the refusals of an object have changed.
func (b *refusalIndex) markChanged(object refusal.Object) {
	b.changed[object] = struct{}{}
	if ref := snapshot.RefOf(object); ref.Kind == snapshot.Ingress || snapshot.IsGatewayRoute(ref.Kind) {
		b.staleConditions[ref] = struct{}{}
	}
}

// setClaims replaces the refused claims of an Ingress for a host.
func (b *refusalIndex) setClaims(u *routeUnit, host string, refusals []refusal.Refusal) {
	b.set(claimSource{u, host}, refusals)
}

// of returns all refusals of an object, sorted, each once.
func (b *refusalIndex) of(object refusal.Object) []refusal.Refusal {
	var all []refusal.Refusal
	for source := range b.byObject[object] {
		for _, found := range b.bySource[source] {
			if found.Object == object {
				all = append(all, found)
			}
		}
	}
	slices.SortFunc(all, refusal.Refusal.Compare)
	return slices.Compact(all)
}

// Refusals returns all current refusals, sorted by object.
func (e *Engine) Refusals() []refusal.Refusal {
	var all []refusal.Refusal
	for _, object := range slices.SortedFunc(maps.Keys(e.refusals.byObject), refusal.Object.Compare) {
		all = append(all, e.refusals.of(object)...)
	}
	return all
}

// ChangedRefusals returns the objects whose refusals have changed since the last
// call, with all their current refusals.
func (e *Engine) ChangedRefusals() iter.Seq2[snapshot.Ref, []refusal.Refusal] {
	changed := slices.SortedFunc(maps.Keys(e.refusals.changed), refusal.Object.Compare)
	clear(e.refusals.changed)
	return func(yield func(snapshot.Ref, []refusal.Refusal) bool) {
		for _, object := range changed {
			if !yield(snapshot.RefOf(object), e.refusals.of(object)) {
				return
			}
		}
	}
}

// NoteRules records the problems that the edge found with the rules of a change.
// Earlier problems of the Ingresses in the change are replaced.
func (e *Engine) NoteRules(change *route.Change, problems []route.Problem) {
	// Every Ingress of the change gets an entry, also an empty one, which
	// clears its earlier problems.
	bySite := map[snapshot.Ref][]refusal.Refusal{}
	for _, rule := range slices.Concat(change.Rules.Added, change.Rules.Changed) {
		bySite[ingressOf(rule.ID)] = nil
	}
	for _, id := range change.Rules.Removed {
		bySite[ingressOf(id)] = nil
	}
	for _, tcp := range slices.Concat(change.TCPRoutes.Added, change.TCPRoutes.Changed) {
		bySite[ingressOf(route.ID(tcp.ID))] = nil
	}
	for _, id := range change.TCPRoutes.Removed {
		bySite[ingressOf(route.ID(id))] = nil
	}
	for _, problem := range problems {
		id, ok := problem.Subject.(route.ID)
		if tcp, stream := problem.Subject.(route.TCPRouteID); stream {
			id, ok = route.ID(tcp), true
		}
		if ok && isRoute(id) {
			at := ingressOf(id)
			bySite[at] = append(bySite[at], refusal.Refusal{
				Object: at.Object(), Field: ruleField(id), Reason: refusal.Invalid, Message: problem.Text(),
			})
		}
	}
	for at, refusals := range bySite {
		slices.SortFunc(refusals, refusal.Refusal.Compare)
		e.refusals.set(servedSource{ingress: at}, refusals)
	}
}

// NoteCertificates records all current problems of the edge with certificates, in
// the place of those before. The field of each is the host, empty for the whole
// certificate.
func (e *Engine) NoteCertificates(problems []refusal.Refusal) {
	// Ingresses with earlier problems get an empty entry, so that solved ones
	// are cleared.
	bySite := map[snapshot.Ref][]refusal.Refusal{}
	for source := range e.refusals.bySource {
		if served, ok := source.(servedSource); ok && served.certificate {
			bySite[served.ingress] = nil
		}
	}
	for _, problem := range problems {
		id := route.CertificateID{Namespace: problem.Namespace, Name: problem.Name}
		for _, u := range e.claimants(id, problem.Field) {
			bySite[u.ref] = append(bySite[u.ref], refusal.Refusal{
				Object: u.ref.Object(), Field: "spec.tls", Reason: refusal.Invalid, Message: "Secret " + id.String() + ": " + problem.Message,
			})
		}
	}
	for at, refusals := range bySite {
		slices.SortFunc(refusals, refusal.Refusal.Compare)
		e.refusals.set(servedSource{ingress: at, certificate: true}, slices.Compact(refusals))
	}
}

// claimants returns the Ingresses that name a certificate: for one host, or for any
// if the host is empty.
func (e *Engine) claimants(id route.CertificateID, only string) []*routeUnit {
	shared := e.tls.certificates[id]
	if shared == nil {
		return nil
	}
	found := map[*routeUnit]struct{}{}
	for host := range shared.hosts {
		if only != "" && host != only {
			continue
		}
		for u := range e.hosts[host].routes.all() {
			if u.claims(id) {
				found[u] = struct{}{}
			}
		}
	}
	return slices.Collect(maps.Keys(found))
}

// ingressOf returns the Ingress or route of a rule.
func ingressOf(id route.ID) snapshot.Ref {
	return snapshot.Ref{Kind: snapshot.KindOfRule(id.Kind), Namespace: id.Namespace, Name: id.Name}
}

// isRoute reports whether a rule is of an Ingress or a route, and not of a Gateway.
func isRoute(id route.ID) bool {
	kind := ingressOf(id).Kind
	return kind == snapshot.Ingress || snapshot.IsGatewayRoute(kind) || snapshot.IsTraefikRoute(kind)
}

// ruleField returns the field of a rule in its object.
func ruleField(id route.ID) string {
	field, part := "spec.rules["+strconv.Itoa(id.Rule)+"]", "["+strconv.Itoa(id.Path)+"]"
	switch kind := ingressOf(id).Kind; {
	case kind == snapshot.Ingress:
		return field + ".http.paths" + part
	case snapshot.IsTraefikRoute(kind):
		return "spec.routes[" + strconv.Itoa(id.Rule) + "]"
	case snapshot.IsStreamRoute(kind):
		return field
	default:
		return field + ".matches" + part
	}
}
