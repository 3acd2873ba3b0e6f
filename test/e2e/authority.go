package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"time"
)

// certificateLife is the validity of every certificate. A run takes minutes.
const certificateLife = 24 * time.Hour

// authority is the CA of the run. It signs the certificates of the platform,
// the Git server and the application.
type authority struct {
	// pem is the CA certificate, and file a copy of it on disk for programs
	// that take a --ca-file.
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
	file        string
}

// newAuthority creates a self-signed CA and writes its certificate to file. The
// key stays in memory.
func newAuthority(file string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := template("Slipway end-to-end test")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &authority{certificate, key, text, file}, os.WriteFile(file, text, 0o644)
}

// template returns the fields that all certificates share. The serial number is
// the time, so that clients that cache by issuer and serial see no duplicate.
// NotBefore is in the past to tolerate a skewed clock.
func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(certificateLife),
	}
}

// issue returns a new server certificate for hosts and its key, both as PEM.
// The first host is also the common name.
func (a *authority) issue(hosts ...string) (certificate, key []byte, err error) {
	made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	leaf := template(hosts[0])
	leaf.DNSNames, leaf.KeyUsage, leaf.ExtKeyUsage = hosts, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.certificate, made.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(made)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}

// serving returns a certificate for a TLS listener of this process.
func (a *authority) serving(host string) (tls.Certificate, error) {
	certificate, key, err := a.issue(host)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, key)
}
