package main

import (
	"crypto/x509"
	"os"
	"path/filepath"

	"slipway.dev/slipway/internal/edge/pkitest"
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
	pair, err := pkitest.Make(pkitest.Certificate{Names: []string{"localhost"}}, nil)
	if err != nil {
		return nil, err
	}
	made := &identity{
		chainFile: filepath.Join(dir, "chain.pem"),
		keyFile:   filepath.Join(dir, "key.pem"),
		bothFile:  filepath.Join(dir, "both.pem"),
		trust:     pair.Pool(),
	}
	for file, text := range map[string]string{made.chainFile: pair.Chain, made.keyFile: pair.Key, made.bothFile: pair.Chain + pair.Key} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return made, nil
}
