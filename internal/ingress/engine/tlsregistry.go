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

// tlsRegistry has the certificates, authorities and TLS options of the table, with
// reference counts: each is published while a host or a backend needs it.
type tlsRegistry struct {
	certificates map[route.CertificateID]*sharedCertificate
	options      map[route.TLSOptionsID]*sharedOptions
	authorities  map[route.AuthorityID]*sharedAuthority
	// ofHost has the choice of recomputeHost for each host.
	ofHost map[string]hostTLS
	// stored has the certificates of the TLSStore, for hosts without others.
	stored map[string][]*route.Certificate

	// The entries to compare with the published ones at the end of the pass.
	dirtyCertificates map[route.CertificateID]struct{}
	dirtyOptions      map[route.TLSOptionsID]struct{}
	dirtyAuthorities  map[route.AuthorityID]struct{}
}

// hostTLS is the choice for one host.
type hostTLS struct {
	certificates []*route.Certificate
	options      *reference.TLSConditions
}

// sharedCertificate is a certificate with the hosts that it is served for and the
// number of backends that it is a client certificate for.
type sharedCertificate struct {
	source    *route.Certificate
	hosts     map[string]struct{}
	backends  int
	fallback  bool // for clients whose host has none
	published *route.Certificate
	// validityChangesAt is the next time at which it becomes valid or expires, and
	// validityChanged is set once that has happened and is not published yet.
	validityChangesAt time.Time
	validityChanged   bool
}

// sharedOptions are TLS options with the hosts that use them.
type sharedOptions struct {
	source    *reference.TLSConditions
	hosts     map[string]struct{}
	published *route.TLSOptions
}

// sharedAuthority is a CA bundle with the number of its users.
type sharedAuthority struct {
	source    *route.Authority
	users     int
	published *route.Authority
}

// newTLSRegistry returns an empty registry.
func newTLSRegistry() tlsRegistry {
	return tlsRegistry{
		certificates: map[route.CertificateID]*sharedCertificate{}, options: map[route.TLSOptionsID]*sharedOptions{},
		authorities: map[route.AuthorityID]*sharedAuthority{}, ofHost: map[string]hostTLS{}, stored: map[string][]*route.Certificate{},
		dirtyCertificates: map[route.CertificateID]struct{}{}, dirtyOptions: map[route.TLSOptionsID]struct{}{},
		dirtyAuthorities: map[route.AuthorityID]struct{}{},
	}
}

// backendTLS has the authorities that verify a backend and the client
// certificates for it.
type backendTLS struct {
	authorities  []*route.Authority
	certificates []*route.Certificate
}

// backendTLSOf returns the TLS needs of a backend; nil for none, which most have.
func backendTLSOf(result *backend.Result) *backendTLS {
	if len(result.Authorities)+len(result.Certificates) == 0 {
		return nil
	}
	return &backendTLS{result.Authorities, result.Certificates}
}

// replaceBackend replaces the TLS needs of a backend. New references are counted
// before old ones are dropped, so that a shared entry is never removed between.
func (t *tlsRegistry) replaceBackend(before, after *backendTLS) {
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
	if after != nil { // the newer value counts
		for _, certificate := range after.certificates {
			t.certificate(certificate).source = certificate
		}
		t.useAuthorities(after.authorities, 0)
	}
}

// setHost replaces the certificates and TLS options of a host. Without one of its own it has
// those of the store.
func (t *tlsRegistry) setHost(host string, certificates []*route.Certificate, options *reference.TLSConditions) {
	certificates = t.certificatesOf(host, certificates)
	// The entries stay in the registry even without a host; appendDeltas
	// removes those that are unused at the end of the pass.
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
	t.ofHost[host] = hostTLS{certificates, options}
}

// certificate returns the entry of a certificate and marks it dirty.
func (t *tlsRegistry) certificate(of *route.Certificate) *sharedCertificate {
	t.dirtyCertificates[of.ID] = struct{}{}
	shared := t.certificates[of.ID]
	if shared == nil {
		shared = &sharedCertificate{source: of, hosts: map[string]struct{}{}}
		t.certificates[of.ID] = shared
	}
	return shared
}

// optionsOf returns the entry of TLS options and marks it dirty.
func (t *tlsRegistry) optionsOf(of *reference.TLSConditions) *sharedOptions {
	id := of.Options.ID
	t.dirtyOptions[id] = struct{}{}
	shared := t.options[id]
	if shared == nil {
		shared = &sharedOptions{source: of, hosts: map[string]struct{}{}}
		t.options[id] = shared
	}
	return shared
}

// useAuthorities adds to the reference counts of authorities. A release does not
// replace the source: its value may be older than that of another user.
func (t *tlsRegistry) useAuthorities(authorities []*route.Authority, times int) {
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

// appendDeltas appends the differences of the dirty entries to a change.
func (t *tlsRegistry) appendDeltas(change *route.Change) {
	for id := range t.dirtyCertificates {
		shared := t.certificates[id]
		var next *route.Certificate
		if len(shared.hosts) > 0 || shared.backends > 0 || shared.fallback {
			value := *shared.source
			value.Hosts, value.Default = slices.Sorted(maps.Keys(shared.hosts)), shared.fallback
			next = &value
		} else {
			delete(t.certificates, id)
		}
		before := shared.published
		shared.published = appendDelta(&change.Certificates, id, before, next)
		switch {
		case next != nil && (before == nil || before.Chain != next.Chain):
			shared.validityChangesAt = nextValidityChange(next, time.Now())
		// The content is the same, but the edge has to check the validity
		// again, so the certificate is published as changed.
		case next != nil && shared.validityChanged && shared.published == before:
			change.Certificates.Changed = append(change.Certificates.Changed, next)
		}
		// The flag is cleared in every case: a published change makes the edge
		// check, too.
		shared.validityChanged = false
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
		shared.published = appendDelta(&change.TLSOptions, id, shared.published, next)
	}
	for id := range t.dirtyAuthorities {
		shared := t.authorities[id]
		next := shared.source
		if shared.users <= 0 {
			next = nil
			delete(t.authorities, id)
		}
		shared.published = appendDelta(&change.Authorities, id, shared.published, next)
	}
	clear(t.dirtyCertificates)
	clear(t.dirtyOptions)
	clear(t.dirtyAuthorities)
}

// appendDelta appends the difference between the published and the next value to a
// delta, where nil means none, and returns the value that is published then.
func appendDelta[K comparable, V any](delta *route.Delta[K, V], id K, before, next *V) *V {
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
