package signing

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"

	"slipway.dev/slipway/internal/secret"
)

// minKeyLength is the minimum length of the text in a key file.
const minKeyLength = 32

// sealerPurpose separates the signing keys from other uses of the key file.
const sealerPurpose = "slipway platform signing keys v1"

// errWrongKey reports a key file that does not belong to the database.
var errWrongKey = errors.New("the signing keys in the database were encrypted with another key: set --database.secretKeyFile to the key file that belongs to this database")

// Sealer encrypts values with AES-256-GCM and random nonces, under a key that
// is derived from the key file.
type Sealer struct{ aead cipher.AEAD }

// NewSealer derives the encryption key of a purpose from the text of the key
// file (HKDF info, RFC 5869): what is sealed for one purpose cannot be opened
// for another.
func NewSealer(key secret.Text, purpose string) (Sealer, error) {
	text := key.Reveal()
	if len(text) < minKeyLength {
		return Sealer{}, fmt.Errorf("the key that encrypts secrets in the database has %d characters: it needs at least %d, such as the output of openssl rand -hex 32", len(text), minKeyLength)
	}
	// The text of the key file may have any form, so a uniform key is
	// derived.
	derived, err := hkdf.Key(sha256.New, []byte(text), nil, purpose, 32)
	if err != nil {
		return Sealer{}, fmt.Errorf("derive a key: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return Sealer{}, fmt.Errorf("derive a key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return Sealer{aead: aead}, err
}

// Seal encrypts a value. The ID is authenticated data, so that two rows of the
// store cannot be swapped.
func (s Sealer) Seal(value []byte, id string) []byte {
	return s.aead.Seal(nil, nil, value, []byte(id))
}

// Open decrypts a value that was sealed with the same ID.
func (s Sealer) Open(sealed []byte, id string) ([]byte, error) {
	return s.aead.Open(nil, nil, sealed, []byte(id))
}
