package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"golang.org/x/crypto/nacl/secretbox"
	"golang.org/x/crypto/scrypt"
)

// mostCost bounds the memory that the key derivation may use: 128 N r bytes.
// cosign uses N = 65536 and r = 8, which are 64 MB.
const mostCost = 1 << 20

// readKey reads a private key of the curve P-256, the one that cosign uses with
// SHA-256.
func readKey(name, password string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s has no key in PEM", name)
	}
	der := block.Bytes
	switch block.Type {
	case "PRIVATE KEY":
	case "EC PRIVATE KEY":
		key, err := x509.ParseECPrivateKey(der)
		return onCurve(name, key, err)
	case "ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY":
		if der, err = decrypt(block.Bytes, password); err != nil {
			return nil, fmt.Errorf("decrypt %s: %w", name, err)
		}
	default:
		return nil, fmt.Errorf("%s has a PEM block %q: give a private key in PKCS #8 or of cosign", name, block.Type)
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	return onCurve(name, key, err)
}

// onCurve returns the key if it is of the curve P-256.
func onCurve(name string, key any, err error) (*ecdsa.PrivateKey, error) {
	if err != nil {
		return nil, fmt.Errorf("read the key %s: %w", name, err)
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%s is no ECDSA key of the curve P-256: create one with cosign generate-key-pair", name)
	}
	return private, nil
}

// decrypt opens the container of cosign's keys, which is that of
// go-securesystemslib: a secretbox with a key derived by scrypt.
func decrypt(text []byte, password string) ([]byte, error) {
	var box struct {
		KDF struct {
			Name   string
			Params struct{ N, R, P int }
			Salt   []byte
		}
		Cipher struct {
			Name  string
			Nonce []byte
		}
		Ciphertext []byte
	}
	if err := json.Unmarshal(text, &box); err != nil {
		return nil, err
	}
	cost := box.KDF.Params
	if box.KDF.Name != "scrypt" || box.Cipher.Name != "nacl/secretbox" || len(box.Cipher.Nonce) != 24 {
		return nil, fmt.Errorf("unknown encryption %q with %q", box.KDF.Name, box.Cipher.Name)
	}
	if cost.N > mostCost || cost.R > 8 || cost.P > 8 {
		return nil, errors.New("the parameters of scrypt are above the limit")
	}
	derived, err := scrypt.Key([]byte(password), box.KDF.Salt, cost.N, cost.R, cost.P, 32)
	if err != nil {
		return nil, err
	}
	opened, ok := secretbox.Open(nil, box.Ciphertext, (*[24]byte)(box.Cipher.Nonce), (*[32]byte)(derived))
	if !ok {
		return nil, errors.New("wrong password: set COSIGN_PASSWORD")
	}
	return opened, nil
}
