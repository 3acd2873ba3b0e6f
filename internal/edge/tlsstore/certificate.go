package tlsstore

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"
	"strings"
	"time"
	"unique"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/secret"
)

// The limits of one certificate. They are far above what is in use, and keep
// the object of one tenant from using up the memory or CPU of all.
const (
	maxCertPEM = 256 << 10
	maxKeyPEM  = 64 << 10
	maxChain   = 16
	// A larger RSA key takes more than 100 ms of processor time per handshake,
	// and Go's own clients refuse it.
	maxRSABits = 8192
)

// Certificate is a certificate with its key, and what it may be used for.
type Certificate struct {
	ID ID
	// CertPEM is the chain, the leaf first.
	CertPEM string
	KeyPEM  secret.Text
	// Hosts are the names and wildcards it may be used for. Empty means all
	// names in the certificate.
	Hosts []string
	// Owner is the namespace it is used for: hosts that [Input.Owners] assigns
	// to another one do not get it. Empty means that it is the operator's own,
	// and good for every host.
	Owner string
}

// digest identifies a certificate and its key by their content.
type digest [sha256.Size]byte

// digester hashes without an allocation for each certificate.
type digester struct {
	hash    hash.Hash
	scratch []byte
}

func newDigester() *digester { return &digester{hash: sha256.New()} }

// sum hashes parts with their lengths, so that no two lists of parts are one.
func (d *digester) sum(parts ...string) digest {
	d.hash.Reset()
	for _, part := range parts {
		d.scratch = binary.BigEndian.AppendUint64(d.scratch[:0], uint64(len(part)))
		d.scratch = append(d.scratch, part...)
		d.hash.Write(d.scratch)
	}
	var out digest
	d.hash.Sum(out[:0])
	return out
}

// keyKind orders certificates by what the handshake costs.
type keyKind uint8

const (
	keyECDSA keyKind = iota
	keyEd25519
	keyRSA
)

// pair is a parsed certificate. It is made once for each content, and shared by
// all indexes that have it.
type pair struct {
	certificate         tls.Certificate
	digest              digest
	kind                keyKind
	notBefore, notAfter int64 // Unix seconds
	names               []pattern
	// issuer is a readable name. Many certificates have the same, and share the
	// text.
	issuer unique.Handle[string]
}

// validAt reports whether a moment lies in the certificate's validity.
func (p *pair) validAt(now int64) bool { return p.notBefore <= now && now <= p.notAfter }

// covers reports whether the certificate is made for a host.
func (p *pair) covers(host pattern) bool {
	if p.names == nil {
		return false
	}
	if _, found := slices.BinarySearchFunc(p.names, host, comparePatterns); found {
		return true
	}
	_, parent, dotted := strings.Cut(host.name, ".")
	if host.wild || !dotted {
		return false
	}
	_, found := slices.BinarySearchFunc(p.names, pattern{name: parent, wild: true}, comparePatterns)
	return found
}

func comparePatterns(a, b pattern) int {
	if a.wild != b.wild {
		if a.wild {
			return 1
		}
		return -1
	}
	return strings.Compare(a.name, b.name)
}

// parsePair parses a certificate and its key, and validates everything that can
// be checked before a handshake.
func parsePair(c Certificate, sum digest) (*pair, *refusal.Refusal) {
	key := c.KeyPEM.Reveal()
	switch {
	case c.CertPEM == "":
		return nil, refusal.New("", refusal.Unreadable, "there is no certificate; put the PEM chain in tls.crt")
	case key == "":
		return nil, refusal.New("", refusal.Unreadable, "there is no private key; put the PEM key in tls.key")
	case len(c.CertPEM) > maxCertPEM:
		return nil, refusal.New("", refusal.TooLarge, "the chain has %d bytes, more than %d; leave only the leaf and its intermediates", len(c.CertPEM), maxCertPEM)
	case len(key) > maxKeyPEM:
		return nil, refusal.New("", refusal.TooLarge, "the private key has %d bytes, more than %d; put only the key in tls.key", len(key), maxKeyPEM)
	}
	certificate, err := tls.X509KeyPair([]byte(c.CertPEM), []byte(key))
	if err != nil {
		return nil, refusal.New("", refusal.Unreadable, "it cannot be read (%s); put a PEM certificate and its own key there", err)
	}
	if len(certificate.Certificate) > maxChain {
		return nil, refusal.New("", refusal.TooLarge, "the chain has %d certificates, more than %d; leave only the leaf and its intermediates", len(certificate.Certificate), maxChain)
	}
	for i, der := range certificate.Certificate[1:] {
		if _, err := x509.ParseCertificate(der); err != nil {
			return nil, refusal.New("", refusal.Unreadable, "certificate %d of the chain cannot be read (%s); remove or replace it", i+2, err)
		}
	}
	kind, err := classifyKey(certificate.Leaf)
	if err != nil {
		return nil, refusal.New("", ReasonKeyType, "%s", err)
	}
	leaf := certificate.Leaf
	// A server's handshake does not need it, and it is most of the memory.
	certificate.Leaf = nil
	return &pair{
		certificate: certificate,
		digest:      sum,
		kind:        kind,
		notBefore:   leaf.NotBefore.Unix(),
		notAfter:    leaf.NotAfter.Unix(),
		names:       leafNames(leaf),
		issuer:      unique.Make(issuerOf(leaf)),
	}, nil
}

// maxIssuer bounds what is kept of the name of an issuer.
const maxIssuer = 200

// issuerOf returns a readable name of the issuer.
func issuerOf(leaf *x509.Certificate) string {
	name := leaf.Issuer.CommonName
	if len(leaf.Issuer.Organization) > 0 && leaf.Issuer.Organization[0] != "" {
		name = strings.TrimPrefix(leaf.Issuer.Organization[0]+" "+name, " ")
	}
	name = refusal.Shorten(strings.TrimSpace(name), maxIssuer)
	if bytes.Equal(leaf.RawIssuer, leaf.RawSubject) {
		name = strings.TrimSpace(name + " (self-signed)")
	}
	return name
}

// classifyKey refuses keys that no handshake can use.
func classifyKey(leaf *x509.Certificate) (keyKind, error) {
	switch key := leaf.PublicKey.(type) {
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256(), elliptic.P384(), elliptic.P521():
			return keyECDSA, nil
		}
		return 0, fmt.Errorf("the key's curve %s is not used in TLS; make a key on P-256, P-384 or P-521", key.Curve.Params().Name)
	case ed25519.PublicKey:
		return keyEd25519, nil
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits > maxRSABits {
			return 0, fmt.Errorf("the RSA key has %d bits, more than %d; use ECDSA P-256, or RSA with 2048 to 4096 bits", bits, maxRSABits)
		}
		return keyRSA, nil
	}
	return 0, fmt.Errorf("keys of type %T are not used in TLS; make an ECDSA or RSA key", leaf.PublicKey)
}

// leafNames are the DNS names of a certificate, sorted for covers. Names that
// no client can send in SNI are left out. The common name does not count:
// clients have not read it for years (RFC 6125 section 6.4.4).
func leafNames(leaf *x509.Certificate) []pattern {
	names := make([]pattern, 0, len(leaf.DNSNames))
	for _, name := range leaf.DNSNames {
		if p, ok := parsePattern(name); ok {
			names = append(names, p)
		}
	}
	slices.SortFunc(names, comparePatterns)
	return slices.Compact(names)
}

// candidate is a certificate that may be shown for a host.
type candidate struct {
	pair  *pair
	id    ID
	owner string
}

// compareCandidates orders by the key's cost, then by the end of validity, the
// latest first. The rest only makes the order the same on every replica.
func compareCandidates(a, b candidate) int {
	return cmp.Or(
		cmp.Compare(a.pair.kind, b.pair.kind),
		cmp.Compare(b.pair.notAfter, a.pair.notAfter),
		cmp.Compare(b.pair.notBefore, a.pair.notBefore),
		slices.Compare(a.pair.digest[:], b.pair.digest[:]),
		strings.Compare(a.owner, b.owner),
		a.id.Compare(b.id),
	)
}

// sameCandidate reports whether two objects hold one certificate for one owner:
// copies of a wildcard certificate are common.
func sameCandidate(a, b candidate) bool { return a.pair == b.pair && a.owner == b.owner }

// CertificateInfo describes a certificate of an index, without its key.
type CertificateInfo struct {
	ID    ID
	Names []string
	// Issuer is a readable name of the issuer.
	Issuer    string
	NotBefore time.Time
	NotAfter  time.Time
}

// issuerName is empty for a certificate of the store's own making.
func (p *pair) issuerName() string {
	if p.issuer == (unique.Handle[string]{}) {
		return ""
	}
	return p.issuer.Value()
}

func (p *pair) info(id ID) CertificateInfo {
	names := make([]string, len(p.names))
	for i, name := range p.names {
		names[i] = name.String()
	}
	return CertificateInfo{
		ID:        id,
		Names:     names,
		Issuer:    p.issuerName(),
		NotBefore: time.Unix(p.notBefore, 0).UTC(),
		NotAfter:  time.Unix(p.notAfter, 0).UTC(),
	}
}
