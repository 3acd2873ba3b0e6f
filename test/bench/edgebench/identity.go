package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// identity is the server certificate that all proxies use, created for one run.
// Its key is ECDSA P-256, so that every proxy pays for the same signature
// algorithm.
type identity struct {
	chainFile string
	keyFile   string
	bothFile  string         // the two in one, as HAProxy reads them
	trust     *x509.CertPool // for clients that verify it
}

// newIdentity creates a self-signed certificate for localhost and writes it to
// dir, which the caller removes.
func newIdentity(dir string) (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: "localhost"},
		DNSNames:     []string{"localhost"},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	chainText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyText := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	made := &identity{
		chainFile: filepath.Join(dir, "chain.pem"),
		keyFile:   filepath.Join(dir, "key.pem"),
		bothFile:  filepath.Join(dir, "both.pem"),
		trust:     x509.NewCertPool(),
	}
	made.trust.AddCert(certificate)
	for file, text := range map[string][]byte{
		made.chainFile: chainText, made.keyFile: keyText, made.bothFile: append(chainText, keyText...),
	} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, err
		}
	}
	return made, nil
}
