package integration

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The Secret with the key that encrypts the tokens of users.
const (
	keySecret = "slipway-git-key"
	keyField  = "key"
	keyBytes  = 32
)

// The format of a sealed text: the version, the first bytes of a hash of the
// key, so that a lost key is distinguished from a damaged token, a nonce, and
// the ciphertext of AES-256-GCM.
const (
	sealVersion = 1
	keyIDBytes  = 4
)

var (
	// Errors of open. They contain no part of the token and are shown to users,
	// with the fix.
	errOtherKey = errors.New("the token was encrypted with another key than the one in the Secret " + keySecret + ": register it again")
	errSeal     = errors.New("the stored token is damaged, or is not of this user and provider: register it again")
)

// sealer encrypts and decrypts with one key.
type sealer struct {
	aead cipher.AEAD
	id   []byte
}

// sealer returns the sealer of this cluster. The key is created on first use.
// Of two concurrent creations one wins, and both use its key. It is not cached:
// a deleted key must not stay in use in one replica.
func (s *Service) sealer(ctx context.Context) (*sealer, error) {
	found, err := s.secrets().Get(ctx, keySecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		key := make([]byte, keyBytes)
		_, _ = rand.Read(key) // it never fails: it ends the program instead
		found, err = s.secrets().Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: keySecret, Labels: labels("key")},
			Data:       map[string][]byte{keyField: key},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			found, err = s.secrets().Get(ctx, keySecret, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, storeError("read the Secret", keySecret, err)
	}
	return newSealer(found.Data[keyField])
}

// newSealer returns a sealer for a key of 32 bytes.
func newSealer(key []byte) (*sealer, error) {
	if len(key) != keyBytes {
		return nil, errors.New("the Secret " + keySecret + " has no key of 32 bytes: delete it, and register the tokens of users again")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	// The prefix separates this hash from any other use of the key.
	hash := sha256.Sum256(append([]byte("slipway git key id:"), key...))
	return &sealer{aead: aead, id: hash[:keyIDBytes]}, nil
}

// binding is the context that a sealed text belongs to. It is the additional
// data of the encryption, so that the text cannot be opened in another context,
// such as the field of another user.
type binding struct {
	Purpose     string `json:"purpose"`
	Integration string `json:"integration,omitempty"`
	User        string `json:"user"`
	Provider    string `json:"provider,omitempty"`
	APIURL      string `json:"apiURL,omitempty"`
	Flow        string `json:"flow,omitempty"`
}

// bytes encodes the binding. The order of fields is fixed.
func (b binding) bytes() []byte {
	text, err := json.Marshal(b) // texts only: it cannot fail
	if err != nil {
		return nil
	}
	return text
}

// seal encrypts a text for a binding. Each call uses a random nonce; with 96
// bits and few tokens a repetition is not a concern.
func (s *sealer) seal(plain []byte, to binding) []byte {
	out := append([]byte{sealVersion}, s.id...)
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce)
	out = append(out, nonce...)
	return s.aead.Seal(out, nonce, plain, to.bytes())
}

// open decrypts a sealed text. It fails for any other binding.
func (s *sealer) open(sealed []byte, to binding) ([]byte, error) {
	head := 1 + keyIDBytes
	if len(sealed) < head+s.aead.NonceSize() || sealed[0] != sealVersion {
		return nil, errSeal
	}
	// Another key is a different problem than a damaged token, with a different
	// fix.
	if string(sealed[1:head]) != string(s.id) {
		return nil, errOtherKey
	}
	nonce, rest := sealed[head:head+s.aead.NonceSize()], sealed[head+s.aead.NonceSize():]
	plain, err := s.aead.Open(nil, nonce, rest, to.bytes())
	if err != nil {
		return nil, errSeal
	}
	return plain, nil
}
