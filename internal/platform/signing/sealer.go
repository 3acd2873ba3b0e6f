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

// minKeyLength is the minimum length of the text in a key file.
const minKeyLength = 32

// sealerPurpose separates this use of the key file from others (HKDF info,
// RFC 5869).
const sealerPurpose = "slipway platform signing keys v1"

// errWrongKey reports a key file that does not belong to the database.
var errWrongKey = errors.New("the signing keys in the database were encrypted with another key: set --database.secretKeyFile to the key file that belongs to this database")

// sealer encrypts private keys with AES-256-GCM. The ID of a key is
// authenticated data, so that two rows of the store cannot be swapped.
type sealer struct{ aead cipher.AEAD }

// newSealer derives the encryption key from the text of the key file.
func newSealer(key secret.Text) (sealer, error) {
	text := key.Reveal()
	if len(text) < minKeyLength {
		return sealer{}, fmt.Errorf("the key that encrypts signing keys has %d characters: it needs at least %d, such as the output of openssl rand -hex 32", len(text), minKeyLength)
	}
	// The text of the key file may have any form, so a uniform key is
	// derived.
	derived, err := hkdf.Key(sha256.New, []byte(text), nil, sealerPurpose, 32)
	if err != nil {
		return sealer{}, fmt.Errorf("derive a key: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return sealer{}, fmt.Errorf("derive a key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return sealer{aead: aead}, err
}

func (b sealer) seal(seed []byte, id string) ([]byte, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, errors.New("a signing key has the wrong length")
	}
	return b.aead.Seal(nil, nil, seed, []byte(id)), nil
}

// open decrypts the seed of a key.
func (b sealer) open(sealed []byte, id string) ([]byte, error) {
	seed, err := b.aead.Open(nil, nil, sealed, []byte(id))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, errWrongKey
	}
	return seed, nil
}
