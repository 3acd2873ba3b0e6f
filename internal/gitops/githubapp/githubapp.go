// Package githubapp signs the tokens by which GitHub knows an App.
package githubapp

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"time"

	"slipway.dev/slipway/internal/secret"
)

// ErrKey is the error of a text that is no key of an App.
var ErrKey = errors.New("no RSA key: write the PEM text that GitHub gave")

// ParseKey reads the private key of an App, in either of the forms that GitHub and others write.
func ParseKey(text secret.Text) (*rsa.PrivateKey, error) {
	if block, _ := pem.Decode([]byte(text.Reveal())); block != nil {
		if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
			return key, nil
		}
		if parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if key, ok := parsed.(*rsa.PrivateKey); ok {
				return key, nil
			}
		}
	}
	return nil, ErrKey
}

// Sign returns the JSON Web Token of an App. It begins a minute ago, because clocks differ, and lasts less than the ten
// minutes that GitHub allows.
func Sign(id string, key *rsa.PrivateKey, now time.Time) (string, error) {
	claims, err := json.Marshal(map[string]any{"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(8 * time.Minute).Unix(), "iss": id})
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(claims)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), err
}
