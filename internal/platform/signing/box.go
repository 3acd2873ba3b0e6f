package signing

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"

	"slipway.dev/slipway/internal/secret"
)

// leastKey is the least length of the text of a key file.
const leastKey = 32

// boxPurpose binds what is derived from the key file to this use of it.
const boxPurpose = "slipway platform signing keys v1"

// errOtherKey is what a key file that is not the right one causes.
var errOtherKey = errors.New("the signing keys in the database were encrypted with another key: give the key file that belongs to this database with --database.secretKeyFile")

// box encrypts private keys with AES-256-GCM. Each is bound to its ID, so that two
// entries of the store cannot be exchanged.
type box struct{ aead cipher.AEAD }

func newBox(key secret.Text) (box, error) {
	text := key.Reveal()
	if len(text) < leastKey {
		return box{}, fmt.Errorf("the key that encrypts signing keys has %d characters: it needs at least %d, such as the output of openssl rand -hex 32", len(text), leastKey)
	}
	derived, err := hkdf.Key(sha256.New, []byte(text), nil, boxPurpose, 32)
	if err != nil {
		return box{}, fmt.Errorf("derive a key: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return box{}, fmt.Errorf("derive a key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return box{aead: aead}, err
}

func (b box) seal(seed []byte, id string) ([]byte, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, errors.New("a signing key has the wrong length")
	}
	return b.aead.Seal(nil, nil, seed, []byte(id)), nil
}

func (b box) open(sealed []byte, id string) ([]byte, error) {
	seed, err := b.aead.Open(nil, nil, sealed, []byte(id))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, errOtherKey
	}
	return seed, nil
}
