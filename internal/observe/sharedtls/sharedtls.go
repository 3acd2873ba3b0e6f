// Package sharedtls is mutual TLS between two programs that share a secret, without
// a certificate authority: each derives the keys of both sides from the secret,
// presents its own and accepts only the other's.
//
// It promises that neither side completes a handshake without the secret, and that
// the secret itself is never sent. It refuses short secrets, and versions of TLS
// before 1.3. A holder of the secret can be either side, so it is for programs that
// trust each other.
package sharedtls

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// MinSecret is the least length of a secret, in bytes.
const MinSecret = 32

// The sides of a connection; each has its own key.
const (
	serverSide = "server"
	clientSide = "client"
)

// validity is the lifetime in the certificates. Only the key is compared, so wrong
// clocks do no harm.
const validity = 100 * 365 * 24 * time.Hour

var errStranger = errors.New("the other side does not have the same secret")

// Server returns the configuration of the listening side.
func Server(secret []byte, purpose string) (*tls.Config, error) {
	return configFor(secret, purpose, serverSide, clientSide)
}

// Client returns the configuration of the connecting side.
func Client(secret []byte, purpose string) (*tls.Config, error) {
	return configFor(secret, purpose, clientSide, serverSide)
}

func configFor(secret []byte, purpose, own, other string) (*tls.Config, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("the secret has %d bytes: it needs at least %d", len(secret), MinSecret)
	}
	key, err := derive(secret, purpose, own)
	if err != nil {
		return nil, err
	}
	wanted, err := derive(secret, purpose, other)
	if err != nil {
		return nil, err
	}
	certificate, err := selfSigned(key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{certificate},
		ClientAuth:   tls.RequireAnyClientCert,
		// There is no authority to verify with: VerifyConnection compares the key.
		InsecureSkipVerify: true,
		// A resumed session would present no certificate to compare.
		SessionTicketsDisabled: true,
		VerifyConnection:       func(state tls.ConnectionState) error { return expect(state, wanted) },
	}, nil
}

// derive returns the key of one side.
func derive(secret []byte, purpose, side string) (ed25519.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, secret, nil, "slipway shared tls "+purpose+" "+side, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// expect accepts only the key that is derived for the other side.
func expect(state tls.ConnectionState, wanted ed25519.PrivateKey) error {
	if len(state.PeerCertificates) != 1 {
		return errStranger
	}
	shown, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok || !bytes.Equal(shown, wanted.Public().(ed25519.PublicKey)) {
		return errStranger
	}
	return nil
}

func selfSigned(key ed25519.PrivateKey) (tls.Certificate, error) {
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "slipway"},
		NotBefore: now.Add(-validity), NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
