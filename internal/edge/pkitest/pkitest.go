// Package pkitest issues certificates for tests and benchmarks. No part of the
// product may import it: its authorities and keys are made for one test and
// are not protected.
package pkitest

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
)

// Certificate describes a certificate for servers and clients. The zero value
// has no names, is valid from an hour ago, which tolerates a clock that is set
// back during the test, for a day, and has a new P-256 key, which is quick to
// make.
type Certificate struct {
	// Names are DNS names, IP addresses and URIs; the first is the common name too.
	Names []string
	// Subject replaces the common name.
	Subject string
	// From and Until are the validity.
	From, Until time.Time
	// Key is the key of the certificate.
	Key crypto.Signer
	// Authority is for certificates that may sign others.
	Authority bool
}

// template returns what is to be signed.
func (c Certificate) template() (*x509.Certificate, error) {
	// Certificates of one authority must differ.
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	made := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: c.Subject}, NotBefore: c.From, NotAfter: c.Until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA: c.Authority, BasicConstraintsValid: c.Authority,
	}
	if c.Authority {
		made.KeyUsage |= x509.KeyUsageCertSign
	}
	if c.From.IsZero() {
		made.NotBefore = time.Now().Add(-time.Hour)
	}
	if c.Until.IsZero() {
		made.NotAfter = made.NotBefore.Add(25 * time.Hour)
	}
	for _, name := range c.Names {
		made.Subject.CommonName = cmp.Or(made.Subject.CommonName, name)
		if ip := net.ParseIP(name); ip != nil {
			made.IPAddresses = append(made.IPAddresses, ip)
			continue
		}
		if uri, err := url.Parse(name); err == nil && uri.Scheme != "" {
			made.URIs = append(made.URIs, uri)
			continue
		}
		made.DNSNames = append(made.DNSNames, name)
	}
	return made, err
}

// Make makes a certificate. The authority signs it; without one it signs
// itself.
func Make(wanted Certificate, by *Authority) (Pair, error) {
	template, err := wanted.template()
	if err != nil {
		return Pair{}, err
	}
	key := wanted.Key
	if key == nil {
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return Pair{}, err
		}
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	encoded, keyErr := x509.MarshalPKCS8PrivateKey(key)
	return Pair{Chain: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", encoded)}, errors.Join(err, keyErr)
}

// SelfSigned makes a certificate that signs itself.
func SelfSigned(t testing.TB, wanted Certificate) Pair {
	t.Helper()
	return must.Get(Make(wanted, nil))(t)
}

// Authority is a certificate authority. It signs leaf certificates directly,
// without intermediates.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	// PEM is the certificate of the authority.
	PEM string
	// Pool has only this authority.
	Pool *x509.CertPool
}

// NewAuthority makes an authority, and fails the test otherwise.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	return must.Get(MakeAuthority("test authority"))(t)
}

// MakeAuthority makes an authority with a common name. It is valid since ten
// years ago, so that tests can issue certificates that have expired.
func MakeAuthority(name string) (*Authority, error) {
	now := time.Now()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	pair, err := Make(Certificate{Subject: name, From: now.AddDate(-10, 0, 0), Until: now.AddDate(100, 0, 0), Key: key, Authority: true}, nil)
	if err != nil {
		return nil, err
	}
	certificate, err := pair.Leaf()
	return &Authority{certificate: certificate, key: key, PEM: pair.Chain, Pool: pair.Pool()}, err
}

// Issue issues a certificate for names.
func (a *Authority) Issue(t testing.TB, names ...string) Pair {
	t.Helper()
	return a.Sign(t, Certificate{Names: names})
}

// Sign issues a certificate.
func (a *Authority) Sign(t testing.TB, wanted Certificate) Pair {
	t.Helper()
	return must.Get(Make(wanted, a))(t)
}

// encode returns DER as PEM.
func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// Pair is a certificate and its key, as PEM.
type Pair struct{ Chain, Key string }

// TLS returns the pair for crypto/tls.
func (p Pair) TLS(t testing.TB) tls.Certificate {
	t.Helper()
	return must.Get(tls.X509KeyPair([]byte(p.Chain), []byte(p.Key)))(t)
}

// Leaf returns the certificate.
func (p Pair) Leaf() (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(p.Chain))
	if block == nil {
		return nil, errors.New("there is no PEM block")
	}
	return x509.ParseCertificate(block.Bytes)
}

// Pool returns a pool that trusts the certificate.
func (p Pair) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(p.Chain))
	return pool
}

// Data returns the data of a Secret of type kubernetes.io/tls.
func (p Pair) Data() map[string][]byte {
	return map[string][]byte{"tls.crt": []byte(p.Chain), "tls.key": []byte(p.Key)}
}

// ClientHello returns the first flight of a real client.
func ClientHello(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	near, far := net.Pipe()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = tls.Client(near, config).Handshake() // it ends with the pipe
	}()
	buf := make([]byte, 64<<10)
	n := must.Get(far.Read(buf))(t)
	_ = far.Close()
	<-stopped
	_ = near.Close()
	return buf[:n]
}
