package main

import (
	"crypto/tls"
	"os"

	"slipway.dev/slipway/internal/edge/pkitest"
)

// authority is the CA of the run. It signs the certificates of the platform,
// the Git server and the application.
type authority struct {
	*pkitest.Authority
	// pem is the CA certificate, and file a copy of it on disk for programs
	// that take a --ca-file.
	pem  []byte
	file string
}

// newAuthority creates a self-signed CA and writes its certificate to file. The
// key stays in memory.
func newAuthority(file string) (*authority, error) {
	made, err := pkitest.MakeAuthority("Slipway end-to-end test")
	if err != nil {
		return nil, err
	}
	text := []byte(made.PEM)
	return &authority{made, text, file}, os.WriteFile(file, text, 0o644)
}

// issue returns a new server certificate for hosts and its key, both as PEM.
// The first host is also the common name.
func (a *authority) issue(hosts ...string) (certificate, key []byte, err error) {
	pair, err := pkitest.Make(pkitest.Certificate{Names: hosts}, a.Authority)
	return []byte(pair.Chain), []byte(pair.Key), err
}

// serving returns a certificate for a TLS listener of this process.
func (a *authority) serving(host string) (tls.Certificate, error) {
	certificate, key, err := a.issue(host)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, key)
}
