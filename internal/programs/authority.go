package programs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a self-signed CA certificate that is also the server certificate
// for servers on this machine.
type Authority struct {
	// CertFile and KeyFile contain the certificate and its key as PEM. Clients
	// trust CertFile.
	CertFile, KeyFile string
	// Cert and Key are the contents of the files, and Roots a pool with Cert.
	Cert, Key []byte
	Roots     *x509.CertPool
}

// NewAuthority creates a certificate for 127.0.0.1, localhost and names. The
// files are in a temporary folder of the test. The validity starts an hour ago,
// to tolerate a skewed clock.
func NewAuthority(t *testing.T, names ...string) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "platform"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true, DNSNames: append([]string{"localhost"}, names...), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	private, keyErr := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(err, keyErr); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	made := &Authority{
		CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"), Roots: x509.NewCertPool(),
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
	made.Roots.AppendCertsFromPEM(made.Cert)
	if err := errors.Join(os.WriteFile(made.CertFile, made.Cert, 0o600), os.WriteFile(made.KeyFile, made.Key, 0o600)); err != nil {
		t.Fatal(err)
	}
	return made
}
