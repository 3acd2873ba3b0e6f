package route

import (
	"reflect"
	"slices"
)

// Contain returns the change without the elements that have the problems, which
// fail closed as in [Table.Contain], and the rules that it left out: these may find
// their place later. A backend with a problem stays, without endpoints, because
// rules that do not change may refer to it.
func (c *Change) Contain(problems []Problem) (*Change, []*Rule) {
	bad, displaced := subjectsOf(problems, false)
	contained := *c
	var out []*Rule
	contained.Rules, out = containRules(c.Rules, bad, displaced)
	contained.Listeners = leaveOut(c.Listeners, bad, func(v *Listener) ListenerID { return v.ID })
	contained.TCPRoutes = leaveOut(c.TCPRoutes, bad, func(v *TCPRoute) TCPRouteID { return v.ID })
	contained.Certificates = leaveOut(c.Certificates, bad, func(v *Certificate) CertificateID { return v.ID })
	contained.Authorities = leaveOut(c.Authorities, bad, func(v *Authority) AuthorityID { return v.ID })
	contained.TLSOptions.Added = closeTLSOptions(slices.Clone(c.TLSOptions.Added), bad)
	contained.TLSOptions.Changed = closeTLSOptions(slices.Clone(c.TLSOptions.Changed), bad)
	contained.Backends.Added = emptied(c.Backends.Added, bad)
	contained.Backends.Changed = emptied(c.Backends.Changed, bad)
	contained.Backends.EndpointsChanged = emptied(c.Backends.EndpointsChanged, bad)
	contained.Backends.Removed = slices.DeleteFunc(slices.Clone(c.Backends.Removed), func(id BackendID) bool { return bad[id] })
	return &contained, out
}

// containRules replaces bad rules by refusals. One that is displaced is left out,
// and so is one that is bad though it was a refusal before.
func containRules(delta Delta[ID, Rule], bad, displaced map[Identity]bool) (Delta[ID, Rule], []*Rule) {
	contained := Delta[ID, Rule]{Removed: slices.Clone(delta.Removed)}
	var out []*Rule
	sort := func(rules []*Rule, there bool) []*Rule {
		var kept []*Rule
		for _, rule := range rules {
			closed := rule.Response != nil && rule.Response.Reason == ReasonRefused && len(rule.Policies) == 0
			switch {
			case !bad[rule.ID]:
				kept = append(kept, rule)
			case !displaced[rule.ID] && !closed:
				kept = append(kept, refused(rule))
			default:
				out = append(out, rule)
				if there {
					contained.Removed = append(contained.Removed, rule.ID)
				}
			}
		}
		return kept
	}
	contained.Added = sort(delta.Added, false)
	contained.Changed = sort(delta.Changed, true)
	return contained, out
}

// leaveOut drops bad elements. A changed element that is bad is removed: the old
// value is no longer the desired one.
func leaveOut[K comparableIdentity, V any](delta Delta[K, V], bad map[Identity]bool, key func(*V) K) Delta[K, V] {
	left := Delta[K, V]{Removed: slices.Clone(delta.Removed)}
	left.Added = slices.DeleteFunc(slices.Clone(delta.Added), func(value *V) bool { return bad[key(value)] })
	for _, value := range delta.Changed {
		if bad[key(value)] {
			left.Removed = append(left.Removed, key(value))
		} else {
			left.Changed = append(left.Changed, value)
		}
	}
	return left
}

// emptied replaces bad backends by ones without endpoints, which respond with 503.
// One that is bad even so, by its identity, is left out.
func emptied(backends []*Backend, bad map[Identity]bool) []*Backend {
	var kept []*Backend
	for _, backend := range backends {
		empty := &Backend{ID: backend.ID}
		switch {
		case !bad[backend.ID]:
			kept = append(kept, backend)
		case !reflect.DeepEqual(backend, empty):
			kept = append(kept, empty)
		}
	}
	return kept
}
