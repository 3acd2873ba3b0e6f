package engine

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/translate"
	"slipway.dev/slipway/internal/route"
)

// hostClaims is what Ingresses want for one host. The host belongs to the
// namespace of the oldest Ingress that has it: whoever comes later can add
// rules, which the order of rules puts behind, but no certificate and no TLS
// options.
type hostClaims struct {
	sites map[*ingressUnit]struct{}
	// owner is the namespace that the host belongs to.
	owner string
}

// exchangeClaims puts what an Ingress claims now in the place of what it
// claimed before.
func (e *Engine) exchangeClaims(u *ingressUnit, born time.Time, next *translate.Outcome) {
	same := u.born.Equal(born) && slices.Equal(u.outcome.Hosts, next.Hosts) &&
		reflect.DeepEqual(u.outcome.Certificates, next.Certificates) && reflect.DeepEqual(u.outcome.Options, next.Options) &&
		reflect.DeepEqual(u.outcome.Wishes, next.Wishes)
	if same {
		return
	}
	if len(u.outcome.Wishes)+len(next.Wishes) > 0 {
		e.following.wishers[u] = struct{}{}
	}
	for _, host := range u.outcome.Hosts {
		e.following.hosts[host] = struct{}{}
		if claims := e.hosts[host]; claims != nil {
			delete(claims.sites, u)
		}
		e.closeHost(u, host, nil)
		e.refusals.setClaims(u, host, nil)
	}
	u.born, u.wishes = born, wishesOf(next)
	for _, host := range next.Hosts {
		e.following.hosts[host] = struct{}{}
		claims := e.hosts[host]
		if claims == nil {
			claims = &hostClaims{sites: map[*ingressUnit]struct{}{}}
			e.hosts[host] = claims
		}
		claims.sites[u] = struct{}{}
	}
}

// hostWishes is what one Ingress claims for one host.
type hostWishes struct {
	certificates []*translate.CertificateClaim
	options      []*translate.OptionsClaim
	fetched      []*resolve.CertificateWish
}

// wishesOf sorts the claims of an Ingress by host.
func wishesOf(outcome *translate.Outcome) map[string]hostWishes {
	if len(outcome.Certificates)+len(outcome.Options)+len(outcome.Wishes) == 0 {
		return nil
	}
	wishes := make(map[string]hostWishes, len(outcome.Hosts))
	for i := range outcome.Certificates {
		claim := &outcome.Certificates[i]
		for _, host := range claim.Hosts {
			of := wishes[host]
			of.certificates = append(of.certificates, claim)
			wishes[host] = of
		}
	}
	for i := range outcome.Options {
		claim := &outcome.Options[i]
		for _, host := range claim.Hosts {
			of := wishes[host]
			of.options = append(of.options, claim)
			wishes[host] = of
		}
	}
	for i := range outcome.Wishes {
		asked := &outcome.Wishes[i]
		for _, host := range asked.Hosts {
			of := wishes[host]
			of.fetched = append(of.fetched, asked)
			wishes[host] = of
		}
	}
	return wishes
}

// settleHosts decides the claims of the hosts that changed.
func (e *Engine) settleHosts() {
	for host := range e.following.hosts {
		claims := e.hosts[host]
		if claims == nil {
			continue
		}
		if len(claims.sites) == 0 {
			e.trust.setHost(host, nil, nil)
			delete(e.hosts, host)
			continue
		}
		e.settleHost(host, claims)
	}
}

// settleHost chooses the certificates and TLS options of a host, and says to
// each Ingress what it does not get.
func (e *Engine) settleHost(host string, claims *hostClaims) {
	sites := slices.SortedFunc(maps.Keys(claims.sites), olderSite)
	owner := sites[0].ref.Namespace
	claims.owner = owner
	var certificates []*route.Certificate
	var options *reference.TLSConditions
	for _, u := range sites {
		var refusals []snapshot.Refusal
		foreign := u.ref.Namespace != owner
		wishes := u.wishes[host]
		for _, asked := range wishes.fetched {
			e.following.wishers[u] = struct{}{}
			if foreign {
				refusals = append(refusals, refuse(u, asked.Field, "no certificate is fetched for %s: an older Ingress of namespace %s has the host", host, owner))
			}
		}
		for _, claim := range wishes.certificates {
			if foreign {
				refusals = append(refusals, refuse(u, claim.Field, "the certificate is not used for %s: an older Ingress of namespace %s has the host", host, owner))
			} else {
				certificates = append(certificates, claim.Certificate)
			}
		}
		fault := (*snapshot.Fault)(nil)
		for _, claim := range wishes.options {
			switch {
			case foreign:
				fault = &snapshot.Fault{Field: claim.Field, Reason: snapshot.Conflict, Message: fmt.Sprintf(
					"the TLS options do not count for %s: an older Ingress of namespace %s has the host", host, owner)}
			case options == nil:
				options = conditionsOf(claim)
			case !reflect.DeepEqual(options.Options, conditionsOf(claim).Options):
				fault = &snapshot.Fault{Field: claim.Field, Reason: snapshot.Conflict, Message: fmt.Sprintf(
					"an older Ingress has other TLS options for %s: use the same for all of its Ingresses", host)}
			}
		}
		if fault != nil {
			refusals = append(refusals, snapshot.Refusal{Object: u.ref, Fault: *fault})
		}
		e.closeHost(u, host, fault)
		e.refusals.setClaims(u, host, refusals)
	}
	e.trust.setHost(host, certificates, options)
}

// refusedOptions names the options of all hosts of a namespace whose own cannot
// be had. No object has such a name.
const refusedOptions = "_refused"

// conditionsOf gives the conditions of a claim an identity where they have none.
func conditionsOf(claim *translate.OptionsClaim) *reference.TLSConditions {
	if claim.Refused == nil {
		return &claim.Conditions
	}
	return &reference.TLSConditions{Options: route.TLSOptions{
		ID: route.TLSOptionsID{Namespace: claim.Ingress.Namespace, Name: refusedOptions}, Refused: true,
	}}
}

func refuse(u *ingressUnit, field, format string, args ...any) snapshot.Refusal {
	return snapshot.Refusal{Object: u.ref, Fault: snapshot.Fault{
		Field: field, Reason: snapshot.Conflict, Message: fmt.Sprintf(format, args...),
	}}
}

// closeHost closes the rules of an Ingress for a host that it may not serve as
// it wants to, or opens them again.
func (e *Engine) closeHost(u *ingressUnit, host string, fault *snapshot.Fault) {
	before := u.closed[host]
	if before == nil && fault == nil || before != nil && fault != nil && *before == *fault {
		return
	}
	if fault == nil {
		delete(u.closed, host)
	} else {
		if u.closed == nil {
			u.closed = map[string]*snapshot.Fault{}
		}
		u.closed[host] = fault
	}
	e.following.emitted[u] = struct{}{}
}

// olderSite orders Ingresses as rules are: the older one first.
func olderSite(a, b *ingressUnit) int {
	return cmp.Or(
		a.born.Compare(b.born),
		strings.Compare(a.ref.Namespace, b.ref.Namespace), strings.Compare(a.ref.Name, b.ref.Name),
	)
}

// claims reports whether the Ingress names a certificate.
func (u *ingressUnit) claims(id route.CertificateID) bool {
	return slices.ContainsFunc(u.outcome.Certificates, func(claim translate.CertificateClaim) bool {
		return claim.Certificate.ID == id
	})
}
