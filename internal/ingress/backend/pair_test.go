package backend_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"sync"
	"testing"
	"time"
)

// newPair makes a certificate that vouches for itself, and its key, once.
var newPair = sync.OnceValues(func() (map[string]string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cart"}, DNSNames: []string{"cart.shop.svc"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	chain, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"@chain": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain})),
		"@key":   string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	}, nil
})

// filled gives the PEM that @chain and @key stand for in a Secret of a case.
func filled(t *testing.T, value string) []byte {
	t.Helper()
	pair, err := newPair()
	if err != nil {
		t.Fatal(err)
	}
	if real, found := pair[value]; found {
		return []byte(real)
	}
	return []byte(value)
}
