package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"slipway.dev/slipway/internal/route"
)

// The limits of CA bundles and certificates. They are far above what is in use.
const (
	maxBundle = 1 << 20
	maxPair   = 256 << 10
)

// tlsRegistry has the CA bundles and client certificates of the table. They are
// parsed when the first backend needs them: most certificates of a table are
// for the edge's own clients.
type tlsRegistry struct {
	authorities  map[route.AuthorityID]*authority
	certificates map[route.CertificateID]*keyPair
}

// authority is a CA bundle with its pool. The same content keeps the same
// authority, so that dialers compare by pointer.
type authority struct {
	bundle string
	read   bool
	pool   *x509.CertPool // nil when it could not be parsed
}

// keyPair is a client certificate with its key. The same content keeps the same
// pair.
type keyPair struct {
	chain  string
	key    route.Secret
	read   bool
	parsed *tls.Certificate // nil when it could not be parsed
	fault  error
}

func newTLSRegistry() tlsRegistry {
	return tlsRegistry{
		authorities:  map[route.AuthorityID]*authority{},
		certificates: map[route.CertificateID]*keyPair{},
	}
}

// apply applies a change of the table, and reports whether anything changed.
func (t *tlsRegistry) apply(change *route.Change) bool {
	changed := false
	for _, list := range [][]*route.Authority{change.Authorities.Added, change.Authorities.Changed} {
		for _, a := range list {
			if old := t.authorities[a.ID]; old == nil || old.bundle != a.Bundle {
				t.authorities[a.ID] = &authority{bundle: a.Bundle}
				changed = true
			}
		}
	}
	for _, list := range [][]*route.Certificate{change.Certificates.Added, change.Certificates.Changed} {
		for _, c := range list {
			if old := t.certificates[c.ID]; old == nil || old.chain != c.Chain || old.key.Reveal() != c.Key.Reveal() {
				t.certificates[c.ID] = &keyPair{chain: c.Chain, key: c.Key}
				changed = true
			}
		}
	}
	for _, id := range change.Authorities.Removed {
		delete(t.authorities, id)
		changed = true
	}
	for _, id := range change.Certificates.Removed {
		delete(t.certificates, id)
		changed = true
	}
	return changed
}

// resolve sets the CA pool and the certificate that a dialer refers to.
func (t *tlsRegistry) resolve(d *dialer) error {
	if d.tls.SkipVerify && d.tls.Authority != (route.AuthorityID{}) {
		return errors.New("there is an authority, and it is not to be verified against; remove one of the two")
	}
	if id := d.tls.Authority; id != (route.AuthorityID{}) {
		d.authority = t.authorities[id]
		if d.authority == nil {
			return fmt.Errorf("the table has no authority %s; create it, or name another", id)
		}
		if !d.authority.usable() {
			return fmt.Errorf("the authority %s has no certificate that can be read; put its certificates there as PEM, %d bytes at most", id, maxBundle)
		}
	}
	if id := d.tls.Certificate; id != (route.CertificateID{}) {
		d.certificate = t.certificates[id]
		if d.certificate == nil {
			return fmt.Errorf("the table has no certificate %s; create it, or name another", id)
		}
		if err := d.certificate.load(); err != nil {
			return fmt.Errorf("the certificate %s cannot be shown to backends: %w", id, err)
		}
	}
	return nil
}

// usable parses the bundle once. Certificates in it that cannot be parsed
// verify nothing, so leaving them out is safe.
func (a *authority) usable() bool {
	if !a.read && len(a.bundle) <= maxBundle {
		pool := x509.NewCertPool()
		if pool.AppendCertsFromPEM([]byte(a.bundle)) {
			a.pool = pool
		}
	}
	a.read = true
	return a.pool != nil
}

// load parses the pair once.
func (k *keyPair) load() error {
	if k.read {
		return k.fault
	}
	k.read = true
	key := k.key.Reveal()
	if len(k.chain) > maxPair || len(key) > maxPair {
		k.fault = fmt.Errorf("it is larger than %d bytes; leave only the leaf, its intermediates and the key", maxPair)
		return k.fault
	}
	parsed, err := tls.X509KeyPair([]byte(k.chain), []byte(key))
	if err != nil {
		k.fault = fmt.Errorf("%w; put a PEM certificate and its own key there", err)
		return k.fault
	}
	k.parsed = &parsed
	return nil
}
