// Package sharedtls is TLS between two programs that share a secret, and need no
// authority: each derives the keys of both sides from the secret, shows its own
// and accepts only the other's.
//
// It promises that nobody without the secret is talked to, on either side, and
// that the secret itself is never sent. It refuses secrets that are too short to
// be good ones, and versions of TLS before 1.3. Whoever has the secret can be
// either side: it is for programs that trust each other.
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

// The sides of a connection, as keys are derived for.
const (
	serverSide = "server"
	clientSide = "client"
)

// validity is how long a certificate says that it is good. What counts is its key:
// clocks are not asked.
const validity = 100 * 365 * 24 * time.Hour

var errStranger = errors.New("the other side does not have the same secret")

// Server is for who listens.
func Server(secret []byte, purpose string) (*tls.Config, error) {
	return configFor(secret, purpose, serverSide, clientSide)
}

// Client is for who connects.
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
		// No authority vouches for the other side: VerifyConnection compares its key.
		InsecureSkipVerify: true,
		// A session that is resumed shows no certificate.
		SessionTicketsDisabled: true,
		VerifyConnection:       func(state tls.ConnectionState) error { return expect(state, wanted) },
	}, nil
}

// derive makes the key of one side.
func derive(secret []byte, purpose, side string) (ed25519.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, secret, nil, "slipway shared tls "+purpose+" "+side, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// expect accepts the key that the secret gives the other side, and no other.
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
