package engine

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Condition describes what keeps an Ingress from being served as it is written.
// The zero value is that of a healthy Ingress, and of one that is not ours.
type Condition struct {
	// Refused is set while a part of it is refused, until the object is changed.
	Refused bool
	// Incomplete is set while it names an object that does not exist or is not
	// read yet. Objects that are applied together arrive one after the other, so
	// this is often short.
	Incomplete bool
	// CertificateNotReady is set while one of its certificates is missing, broken, not
	// for its host, or expired.
	CertificateNotReady bool
	// NoEndpoints is set while a Service that it names is missing or has no ready
	// endpoint.
	NoEndpoints bool
	// EncryptedOnly is set if the Ingress serves no plain HTTP. It is no fault, and
	// is set only beside one: it decides which ports the status marks.
	EncryptedOnly bool
}

// Healthy reports whether the Ingress is served as it is written.
func (c Condition) Healthy() bool { return c == Condition{} }

// Condition returns the condition of an Ingress.
func (e *Engine) Condition(ref snapshot.Ref) Condition {
	if u := e.routes[ref]; u != nil {
		return u.condition
	}
	return Condition{}
}

// ChangedConditions returns the Ingresses whose condition changed since the last
// call, with the new condition. Call it after NoteRules and NoteCertificates, so
// that it includes what the edge refused of the change.
func (e *Engine) ChangedConditions() iter.Seq2[snapshot.Ref, Condition] {
	doubted := slices.SortedFunc(maps.Keys(e.refusals.staleConditions), snapshot.Ref.Compare)
	// A new map: after the first update the old one is as large as the cluster.
	e.refusals.staleConditions = map[snapshot.Ref]struct{}{}
	return func(yield func(snapshot.Ref, Condition) bool) {
		for i, ref := range doubted {
			u := e.routes[ref]
			if u == nil || snapshot.IsTraefikUnit(ref.Kind) { // these have no status
				continue
			}
			if ref.Kind != snapshot.Ingress {
				e.gateways.stale[ref] = struct{}{}
				e.updateRefused(u)
				continue
			}
			next := e.conditionOf(u)
			if next == u.condition {
				continue
			}
			u.condition = next
			if !yield(ref, next) {
				for _, left := range doubted[i+1:] {
					e.refusals.staleConditions[left] = struct{}{}
				}
				return
			}
		}
	}
}

// conditionOf derives the condition of an Ingress from its backends and refusals.
func (e *Engine) conditionOf(u *routeUnit) Condition {
	var c Condition
	if !u.ours {
		return c
	}
	// Translate decides which paths lack their Service; its reason is read back here
	// instead of being derived a second time.
	lost := slices.ContainsFunc(u.outcome.Rules, func(rule *route.Rule) bool {
		return rule.Response != nil && rule.Response.Reason == route.ReasonNoService
	})
	c.NoEndpoints = lost || slices.ContainsFunc(u.users, func(b *backendUnit) bool {
		return b.summary.Empty && b.summary.Closed == nil
	})
	object := u.ref.Object()
	for source := range e.refusals.byObject[object] {
		for i := range e.refusals.bySource[source] {
			if fault := &e.refusals.bySource[source][i]; fault.Object == object {
				c.add(u, source, fault, lost)
			}
		}
	}
	if !c.Healthy() {
		c.EncryptedOnly = encryptedOnly(u.outcome.Rules)
	}
	return c
}

// add adds a fault of an Ingress. A missing Service is skipped with lost: it is
// counted as NoEndpoints already.
func (c *Condition) add(u *routeUnit, source any, fault *refusal.Refusal, lost bool) {
	switch {
	case ofCertificate(u, source, fault):
		c.CertificateNotReady = true
	case lost && fault.Reason == refusal.NotFound && strings.HasPrefix(fault.Field, "spec."):
	case fault.Reason == refusal.NotFound, fault.Reason == refusal.NotReady:
		c.Incomplete = true
	default:
		c.Refused = true
	}
}

// ofCertificate reports whether a fault is about a certificate, which can be
// repaired without a change of the Ingress.
func ofCertificate(u *routeUnit, source any, fault *refusal.Refusal) bool {
	switch of := source.(type) {
	case requestSource:
		return true
	case servedSource:
		return of.certificate
	case *routeUnit:
	default:
		return false
	}
	switch fault.Reason {
	case refusal.NotFound, refusal.NotReady, refusal.Unreadable:
		return namesSecret(fault.Field)
	case refusal.Invalid:
		return namesSecret(fault.Field) || len(u.outcome.Requests) > 0 && fault.Field == u.outcome.Requests[0].Field
	default:
		return false
	}
}

// namesSecret reports whether a field of an Ingress is the name of a certificate's
// Secret.
func namesSecret(field string) bool {
	return strings.HasPrefix(field, "spec.tls[") && strings.HasSuffix(field, ".secretName")
}

// encryptedOnly reports whether all rules are for HTTPS alone.
func encryptedOnly(rules []*route.Rule) bool {
	return len(rules) > 0 && !slices.ContainsFunc(rules, func(rule *route.Rule) bool {
		return rule.Match.Scheme != route.SchemeHTTPS
	})
}
