package engine

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Condition is what keeps an Ingress from being served as it is written. The
// zero Condition is that of one that is served so, and of one that is another's.
type Condition struct {
	// Refused is set while something of it is refused, until somebody changes it.
	Refused bool
	// Incomplete is set while it names an object that is not there or not read
	// yet. What is applied together comes one after the other.
	Incomplete bool
	// Uncertified is set while a certificate of it is missing, broken, not for its
	// host, or out of date.
	Uncertified bool
	// Unanswered is set while a Service that it names is missing, or has no
	// endpoint that takes requests.
	Unanswered bool
	// EncryptedOnly says that plain requests are not served. It is no fault, and
	// is set only beside one.
	EncryptedOnly bool
}

// Sound reports whether nothing is wrong.
func (c Condition) Sound() bool { return c == Condition{} }

// Condition tells about an Ingress.
func (e *Engine) Condition(ref snapshot.Ref) Condition {
	if u := e.ingresses[ref]; u != nil {
		return u.condition
	}
	return Condition{}
}

// ChangedConditions gives the Ingresses whose condition is another than when it
// was called last, with the one that they have now. It is for after the edge has
// said what it thinks of a change.
func (e *Engine) ChangedConditions() iter.Seq2[snapshot.Ref, Condition] {
	doubted := slices.SortedFunc(maps.Keys(e.refusals.doubted), snapshot.Ref.Compare)
	// A new one: the first time it had every Ingress.
	e.refusals.doubted = map[snapshot.Ref]struct{}{}
	return func(yield func(snapshot.Ref, Condition) bool) {
		for i, ref := range doubted {
			u := e.ingresses[ref]
			if u == nil {
				continue
			}
			next := e.judge(u)
			if next == u.condition {
				continue
			}
			u.condition = next
			if !yield(ref, next) {
				for _, left := range doubted[i+1:] {
					e.refusals.doubted[left] = struct{}{}
				}
				return
			}
		}
	}
}

// judge finds the condition of an Ingress.
func (e *Engine) judge(u *ingressUnit) Condition {
	var c Condition
	if !u.ours {
		return c
	}
	lost := slices.ContainsFunc(u.outcome.Rules, func(rule *route.Rule) bool {
		return rule.Response != nil && rule.Response.Reason == route.ReasonNoService
	})
	c.Unanswered = lost || slices.ContainsFunc(u.users, func(b *backendUnit) bool {
		return b.look.Empty && b.look.Closed == nil
	})
	for source := range e.refusals.byObject[u.ref] {
		for i := range e.refusals.bySource[source] {
			if refusal := &e.refusals.bySource[source][i]; refusal.Object == u.ref {
				c.blame(u, source, &refusal.Fault, lost)
			}
		}
	}
	if !c.Sound() {
		c.EncryptedOnly = encryptedOnly(u.outcome.Rules)
	}
	return c
}

// blame adds a fault of an Ingress. The missing Service of a rule has been
// counted.
func (c *Condition) blame(u *ingressUnit, source any, fault *snapshot.Fault, lost bool) {
	switch {
	case ofCertificate(u, source, fault):
		c.Uncertified = true
	case lost && fault.Reason == snapshot.NotFound && strings.HasPrefix(fault.Field, "spec."):
	case fault.Reason == snapshot.NotFound, fault.Reason == snapshot.NotReady:
		c.Incomplete = true
	default:
		c.Refused = true
	}
}

// ofCertificate reports whether a fault is one of a certificate, which can get
// better without a change of the Ingress.
func ofCertificate(u *ingressUnit, source any, fault *snapshot.Fault) bool {
	switch of := source.(type) {
	case wishSource:
		return true
	case servedSource:
		return of.certificate
	case *ingressUnit:
	default:
		return false
	}
	switch fault.Reason {
	case snapshot.NotFound, snapshot.NotReady, snapshot.Unreadable:
		return namesSecret(fault.Field)
	case snapshot.Invalid:
		return namesSecret(fault.Field) || len(u.outcome.Wishes) > 0 && fault.Field == u.outcome.Wishes[0].Field
	default:
		return false
	}
}

// namesSecret reports whether a place in an Ingress is the name of a
// certificate's Secret.
func namesSecret(field string) bool {
	return strings.HasPrefix(field, "spec.tls[") && strings.HasSuffix(field, ".secretName")
}

// encryptedOnly reports whether rules are for encrypted requests alone.
func encryptedOnly(rules []*route.Rule) bool {
	return len(rules) > 0 && !slices.ContainsFunc(rules, func(rule *route.Rule) bool {
		return rule.Match.Scheme != route.SchemeHTTPS
	})
}
