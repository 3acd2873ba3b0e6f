package engine

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/route"
)

// trust is what the table says about certificates, authorities and TLS options,
// and who needs each of them.
type trust struct {
	certificates map[route.CertificateID]*sharedCertificate
	options      map[route.TLSOptionsID]*sharedOptions
	authorities  map[route.AuthorityID]*sharedAuthority
	// ofHost is what was chosen for each host.
	ofHost map[string]hostTrust

	// What may have to be said anew.
	dirtyCertificates map[route.CertificateID]struct{}
	dirtyOptions      map[route.TLSOptionsID]struct{}
	dirtyAuthorities  map[route.AuthorityID]struct{}
}

type hostTrust struct {
	certificates []*route.Certificate
	options      *reference.TLSConditions
}

// sharedCertificate is a Secret and the hosts that it is shown for. Backends
// that it is shown to are counted.
type sharedCertificate struct {
	source   *route.Certificate
	hosts    map[string]struct{}
	backends int
	said     *route.Certificate
	// turns is when it begins or ceases to be valid, and turned is set when it has
	// and that was not said yet.
	turns  time.Time
	turned bool
}

type sharedOptions struct {
	source *reference.TLSConditions
	hosts  map[string]struct{}
	said   *route.TLSOptions
}

type sharedAuthority struct {
	source *route.Authority
	users  int
	said   *route.Authority
}

func newTrust() trust {
	return trust{
		certificates: map[route.CertificateID]*sharedCertificate{}, options: map[route.TLSOptionsID]*sharedOptions{},
		authorities: map[route.AuthorityID]*sharedAuthority{}, ofHost: map[string]hostTrust{},
		dirtyCertificates: map[route.CertificateID]struct{}{}, dirtyOptions: map[route.TLSOptionsID]struct{}{},
		dirtyAuthorities: map[route.AuthorityID]struct{}{},
	}
}

// backendTrust is what a backend needs to be trusted, and to be trusted by.
type backendTrust struct {
	authorities  []*route.Authority
	certificates []*route.Certificate
}

func trustOf(result *backend.Result) *backendTrust {
	if len(result.Authorities)+len(result.Certificates) == 0 {
		return nil
	}
	return &backendTrust{result.Authorities, result.Certificates}
}

// exchange puts what a backend needs now in the place of what it needed before.
func (t *trust) exchange(before, after *backendTrust) {
	if after != nil {
		for _, certificate := range after.certificates {
			t.certificate(certificate).backends++
		}
		t.useAuthorities(after.authorities, 1)
	}
	if before != nil {
		for _, certificate := range before.certificates {
			t.certificate(certificate).backends--
		}
		t.useAuthorities(before.authorities, -1)
	}
	if after != nil { // what is newer counts
		for _, certificate := range after.certificates {
			t.certificate(certificate).source = certificate
		}
		t.useAuthorities(after.authorities, 0)
	}
}

// setHost puts what was chosen for a host in the place of what was before.
func (t *trust) setHost(host string, certificates []*route.Certificate, options *reference.TLSConditions) {
	before := t.ofHost[host]
	for _, certificate := range before.certificates {
		delete(t.certificate(certificate).hosts, host)
	}
	if before.options != nil {
		delete(t.optionsOf(before.options).hosts, host)
		t.useAuthorities(before.options.Authorities, -1)
	}
	for _, certificate := range certificates {
		shared := t.certificate(certificate)
		shared.hosts[host] = struct{}{}
		shared.source = certificate
	}
	if options != nil {
		shared := t.optionsOf(options)
		shared.hosts[host] = struct{}{}
		shared.source = options
		t.useAuthorities(options.Authorities, 1)
	}
	if len(certificates) == 0 && options == nil {
		delete(t.ofHost, host)
		return
	}
	t.ofHost[host] = hostTrust{certificates, options}
}

// certificate gives the entry of a certificate, which may change now.
func (t *trust) certificate(of *route.Certificate) *sharedCertificate {
	t.dirtyCertificates[of.ID] = struct{}{}
	shared := t.certificates[of.ID]
	if shared == nil {
		shared = &sharedCertificate{source: of, hosts: map[string]struct{}{}}
		t.certificates[of.ID] = shared
	}
	return shared
}

func (t *trust) optionsOf(of *reference.TLSConditions) *sharedOptions {
	id := of.Options.ID
	t.dirtyOptions[id] = struct{}{}
	shared := t.options[id]
	if shared == nil {
		shared = &sharedOptions{source: of, hosts: map[string]struct{}{}}
		t.options[id] = shared
	}
	return shared
}

func (t *trust) useAuthorities(authorities []*route.Authority, times int) {
	for _, authority := range authorities {
		t.dirtyAuthorities[authority.ID] = struct{}{}
		shared := t.authorities[authority.ID]
		if shared == nil {
			shared = &sharedAuthority{}
			t.authorities[authority.ID] = shared
		}
		if times >= 0 {
			shared.source = authority
		}
		shared.users += times
	}
}

// emit says what changed.
func (t *trust) emit(change *route.Change) {
	for id := range t.dirtyCertificates {
		shared := t.certificates[id]
		var next *route.Certificate
		if len(shared.hosts) > 0 || shared.backends > 0 {
			value := *shared.source
			value.Hosts = slices.Sorted(maps.Keys(shared.hosts))
			next = &value
		} else {
			delete(t.certificates, id)
		}
		before := shared.said
		shared.said = say(&change.Certificates, id, before, next)
		switch {
		case next != nil && (before == nil || before.Chain != next.Chain):
			shared.turns = turnOf(next, time.Now())
		case next != nil && shared.turned && shared.said == before:
			change.Certificates.Changed = append(change.Certificates.Changed, next)
		}
		shared.turned = false
	}
	for id := range t.dirtyOptions {
		shared := t.options[id]
		var next *route.TLSOptions
		if len(shared.hosts) > 0 {
			value := shared.source.Options
			value.Hosts = slices.Sorted(maps.Keys(shared.hosts))
			next = &value
		} else {
			delete(t.options, id)
		}
		shared.said = say(&change.TLSOptions, id, shared.said, next)
	}
	for id := range t.dirtyAuthorities {
		shared := t.authorities[id]
		next := shared.source
		if shared.users <= 0 {
			next = nil
			delete(t.authorities, id)
		}
		shared.said = say(&change.Authorities, id, shared.said, next)
	}
	clear(t.dirtyCertificates)
	clear(t.dirtyOptions)
	clear(t.dirtyAuthorities)
}

// say adds to a delta what leads from one value to the next, nil being none,
// and gives the value that the table has then.
func say[K comparable, V any](delta *route.Delta[K, V], id K, before, next *V) *V {
	switch {
	case next == nil && before != nil:
		delta.Removed = append(delta.Removed, id)
	case next == nil:
	case before == nil:
		delta.Added = append(delta.Added, next)
	case !reflect.DeepEqual(before, next):
		delta.Changed = append(delta.Changed, next)
	default:
		return before
	}
	return next
}
