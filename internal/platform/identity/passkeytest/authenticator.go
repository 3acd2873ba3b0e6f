// Package passkeytest is a security key and the browser that it is plugged
// into, for tests. It signs with a real key what a browser would send, so that
// the platform verifies it as in production. Tests change its fields to send
// what the two never would.
package passkeytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/url"
	"testing"
)

// Flags of the authenticator data.
const (
	userPresent    = 0x01
	attestedInside = 0x40
)

// Authenticator is a security key with one passkey. Copies have the same one.
type Authenticator struct {
	t   testing.TB
	key *ecdsa.PrivateKey

	// ID is the one of the passkey.
	ID []byte
	// Counter is the number of signatures.
	Counter uint32
	// Origin and RPID are of the page that uses it.
	Origin, RPID string
	// Flags are those of the authenticator data.
	Flags byte
	// CrossOrigin is set in a frame of another page.
	CrossOrigin bool
	// Type is the one of the client data. Empty is the correct one.
	Type string
}

// New returns an authenticator with a passkey, for the platform at a URL.
func New(t testing.TB, platform string) *Authenticator {
	t.Helper()
	at, err := url.Parse(platform)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := make([]byte, 32)
	_, _ = rand.Read(id) // never fails, as its documentation says
	return &Authenticator{t: t, key: key, ID: id, Counter: 7, Origin: platform, RPID: at.Hostname(), Flags: userPresent}
}

// Text is the ID as browsers write it.
func (a *Authenticator) Text() string { return encode(a.ID) }

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// Create is navigator.credentials.create, with options and result as JSON.
func (a *Authenticator) Create(options string) string {
	a.t.Helper()
	client := a.clientData("webauthn.create", options)
	point, err := a.key.PublicKey.Bytes()
	if err != nil {
		a.t.Fatal(err)
	}
	attested := make([]byte, 16) // no AAGUID
	attested = append(binary.BigEndian.AppendUint16(attested, uint16(len(a.ID))), a.ID...)
	// COSE: EC2, ES256, P-256, x and y.
	attested = append(attested, 0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32)
	attested = append(append(append(attested, point[1:33]...), 0x22, 0x58, 32), point[33:]...)
	data := a.authenticatorData(a.Flags|attestedInside, attested...)
	// CBOR: {"fmt": "none", "attStmt": {}, "authData": data}
	object := append([]byte("\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58"), byte(len(data)))
	return a.response(map[string]any{"clientDataJSON": encode(client), "attestationObject": encode(append(object, data...))})
}

// Get is navigator.credentials.get, with options and result as JSON.
func (a *Authenticator) Get(options string) string {
	a.t.Helper()
	client, data := a.clientData("webauthn.get", options), a.authenticatorData(a.Flags)
	hashed := sha256.Sum256(client)
	signed := sha256.Sum256(append(data, hashed[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, a.key, signed[:])
	if err != nil {
		a.t.Fatal(err)
	}
	return a.response(map[string]any{"clientDataJSON": encode(client), "authenticatorData": encode(data), "signature": encode(signature)})
}

// clientData is what the browser writes, with the challenge of the options.
func (a *Authenticator) clientData(kind, options string) []byte {
	a.t.Helper()
	var given struct{ Challenge string }
	if err := json.Unmarshal([]byte(options), &given); err != nil {
		a.t.Fatalf("the options %q: %v", options, err)
	}
	if a.Type != "" {
		kind = a.Type
	}
	text, err := json.Marshal(map[string]any{"type": kind, "challenge": given.Challenge, "origin": a.Origin, "crossOrigin": a.CrossOrigin})
	if err != nil {
		a.t.Fatal(err)
	}
	return text
}

// authenticatorData is what the authenticator signs, with more after the
// counter.
func (a *Authenticator) authenticatorData(flags byte, more ...byte) []byte {
	sum := sha256.Sum256([]byte(a.RPID))
	a.Counter++
	return append(binary.BigEndian.AppendUint32(append(sum[:], flags), a.Counter), more...)
}

// response is the credential that a page gets, as JSON. Password managers return
// credProps also if it was not requested.
func (a *Authenticator) response(of map[string]any) string {
	a.t.Helper()
	text, err := json.Marshal(map[string]any{
		"id": encode(a.ID), "rawId": encode(a.ID), "type": "public-key", "response": of,
		"clientExtensionResults": map[string]any{"credProps": map[string]bool{"rk": false}},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return string(text)
}
