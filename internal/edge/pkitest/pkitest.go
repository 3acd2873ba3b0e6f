// Package pkitest issues certificates for tests. It may be imported from
// _test.go files only: its authorities and keys are made for one test and are
// not protected.
package pkitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Authority is a certificate authority. It signs leaf certificates directly,
// without intermediates.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// PEM is the certificate of the authority.
	PEM string
	// Pool has only this authority.
	Pool *x509.CertPool
}

// NewAuthority makes an authority. It is valid since two days ago, so that
// tests can issue certificates that have expired.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{key: newKey(t), Pool: x509.NewCertPool()}
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(10 * 365 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	der := a.sign(t, template, template, &a.key.PublicKey)
	var err error
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.Pool.AddCert(a.certificate)
	a.PEM = encode("CERTIFICATE", der)
	return a
}

// Pair is a certificate and its key, as PEM.
type Pair struct{ Chain, Key string }

// TLS returns the pair for crypto/tls.
func (p Pair) TLS(t testing.TB) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair([]byte(p.Chain), []byte(p.Key))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// Issue issues a certificate for servers and clients, with DNS names and IP
// addresses. The first of them is its common name too. The key is P-256, which
// is quick to make.
func (a *Authority) Issue(t testing.TB, names ...string) Pair {
	t.Helper()
	// One hour in the past tolerates a clock that is set back during the test.
	template := &x509.Certificate{
		SerialNumber: serial(t), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if template.Subject.CommonName == "" {
			template.Subject.CommonName = name
		}
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, name)
	}
	key := newKey(t)
	der := a.sign(t, template, a.certificate, &key.PublicKey)
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Pair{Chain: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", encoded)}
}

// sign signs a template with the key of the authority.
func (a *Authority) sign(t testing.TB, template, parent *x509.Certificate, public *ecdsa.PublicKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// newKey makes a P-256 key.
func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// serial returns a random serial number, so that certificates of one authority
// differ.
func serial(t testing.TB) *big.Int {
	t.Helper()
	number, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// encode returns DER as PEM.
func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
