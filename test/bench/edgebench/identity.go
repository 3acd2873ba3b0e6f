package main

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"os"
	"path/filepath"

	"slipway.dev/slipway/internal/edge/pkitest"
)

// identity is a server certificate that all proxies use, created for one run, so
// that every proxy pays for the same signature algorithm.
type identity struct {
	chainFile string
	keyFile   string
	bothFile  string         // the two in one, as HAProxy reads them
	trust     *x509.CertPool // for clients that verify it
}

// identities are those of one run.
type identities struct{ ecdsa, rsa *identity }

// newIdentities creates a certificate with a P-256 key and one with an RSA key of
// 2048 bits, and writes them to dir, which the caller removes.
func newIdentities(dir string) (*identities, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	made := &identities{}
	if made.ecdsa, err = newIdentity(dir, "ecdsa", nil); err != nil {
		return nil, err
	}
	made.rsa, err = newIdentity(dir, "rsa", key)
	return made, err
}

// of returns the certificate of a scenario.
func (i *identities) of(s scenario) *identity {
	if s.rsa {
		return i.rsa
	}
	return i.ecdsa
}

// newIdentity creates a self-signed certificate for localhost. A nil key is a new one
// of P-256.
func newIdentity(dir, name string, key crypto.Signer) (*identity, error) {
	pair, err := pkitest.Make(pkitest.Certificate{Names: []string{"localhost"}, Key: key}, nil)
	if err != nil {
		return nil, err
	}
	made := &identity{
		chainFile: filepath.Join(dir, name+"-chain.pem"),
		keyFile:   filepath.Join(dir, name+"-key.pem"),
		bothFile:  filepath.Join(dir, name+"-both.pem"),
		trust:     pair.Pool(),
	}
	for file, text := range map[string]string{made.chainFile: pair.Chain, made.keyFile: pair.Key, made.bothFile: pair.Chain + pair.Key} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return made, nil
}
