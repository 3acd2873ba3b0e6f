// Package signing issues and verifies the tokens of the platform: access
// tokens of agents, tokens of requests to runtimes, and tokens between
// replicas.
//
// It guarantees that a token is valid for one purpose and for minutes, that
// private keys are stored encrypted with a key that is not in the store, and
// that a new key is published to runtimes well before it is used. It rejects
// every algorithm but Ed25519, and a store whose keys were encrypted with
// another key.
package signing

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
)

const (
	// AccessLifetime is the lifetime of an agent's access token.
	AccessLifetime = 10 * time.Minute
	// peerLifetime is the lifetime of a token between replicas.
	peerLifetime = time.Minute
	// leeway is the accepted clock skew between replicas.
	leeway = 30 * time.Second
	// maxToken bounds a token before it is parsed.
	maxToken = 8 << 10
)

// Types of tokens. They are in the typ header, so that a token of one type is
// never accepted as another (RFC 8725, section 3.11).
const (
	typeAccess = "slipway-access+jwt"
	typePeer   = "slipway-peer+jwt"
)

// ErrToken reports an invalid token. The reason is not disclosed.
var ErrToken = errors.New("the token is not valid, or has expired")

// RuntimeIdentity holds the claims of an access token.
type RuntimeIdentity struct {
	RuntimeID, AccountID, Name string
	// Generation is the generation of the credential; the caller compares it
	// with the stored one.
	Generation int64
	Expires    time.Time
}

// KeyStore is the part of the store that the signer uses.
type KeyStore interface {
	SigningKeys(ctx context.Context) ([]store.SigningKey, error)
	AddSigningKey(ctx context.Context, key store.SigningKey) error
	DeleteSigningKey(ctx context.Context, id string) error
}

// Signer issues and verifies tokens. It is safe for concurrent use; mu guards
// keyring and reloaded.
type Signer struct {
	store  KeyStore
	sealer Sealer
	now    func() time.Time

	mu       sync.RWMutex
	keyring  keyring
	reloaded time.Time
}

// New loads the keys of the store and creates the first one if there is none.
// key encrypts them and must be the same on all replicas.
func New(ctx context.Context, keys KeyStore, key secret.Text, now func() time.Time) (*Signer, error) {
	sealed, err := NewSealer(key, sealerPurpose)
	if err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	s := &Signer{store: keys, sealer: sealed, now: now}
	if _, err := s.Maintain(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// accessClaims are the claims of an access token.
type accessClaims struct {
	RuntimeID  string `json:"sub"`
	AccountID  string `json:"account"`
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
	IssuedAt   int64  `json:"iat"`
	ExpiresAt  int64  `json:"exp"`
	ID         string `json:"jti"`
}

// RuntimeAccess issues an access token for an agent.
func (s *Signer) RuntimeAccess(runtime store.Runtime, generation int64) (token string, expires time.Time, err error) {
	now := s.now()
	expires = now.Add(AccessLifetime).Truncate(time.Second)
	token, err = s.sign(typeAccess, accessClaims{
		RuntimeID: runtime.ID, AccountID: runtime.AccountID, Name: runtime.Name, Generation: generation,
		IssuedAt: now.Unix(), ExpiresAt: expires.Unix(), ID: rand.Text(),
	})
	return token, expires, err
}

// VerifyRuntimeAccess verifies signature and expiry of an access token. It
// does not check for revocation.
func (s *Signer) VerifyRuntimeAccess(ctx context.Context, token string) (RuntimeIdentity, error) {
	var claims accessClaims
	if err := s.verify(ctx, typeAccess, token, &claims); err != nil {
		return RuntimeIdentity{}, err
	}
	if !s.current(claims.IssuedAt, claims.ExpiresAt) || claims.RuntimeID == "" {
		return RuntimeIdentity{}, ErrToken
	}
	return RuntimeIdentity{
		RuntimeID: claims.RuntimeID, AccountID: claims.AccountID, Name: claims.Name,
		Generation: claims.Generation, Expires: time.Unix(claims.ExpiresAt, 0).UTC(),
	}, nil
}

// Request issues a token for a request to one runtime. Times and ID are set
// here.
func (s *Signer) Request(claims wire.RuntimeClaims) (string, error) {
	if claims.RuntimeID == "" || claims.Prefix == "" {
		return "", errors.New("a token for a runtime needs the runtime and the path that it is for")
	}
	now := s.now()
	claims.IssuedAt, claims.ExpiresAt = now.Unix(), now.Add(wire.RequestTokenLifetime).Unix()
	claims.ID = rand.Text()
	return s.sign(wire.RequestTokenType, claims)
}

// peerClaims are the claims of a token between replicas.
type peerClaims struct {
	ReplicaID string `json:"sub"`
	IssuedAt  int64  `json:"iat"`
	ExpiresAt int64  `json:"exp"`
}

// Peer issues a token for requests of a replica to another.
func (s *Signer) Peer(replicaID string) (string, error) {
	now := s.now()
	return s.sign(typePeer, peerClaims{ReplicaID: replicaID, IssuedAt: now.Unix(), ExpiresAt: now.Add(peerLifetime).Unix()})
}

// VerifyPeer returns the replica that issued the token.
func (s *Signer) VerifyPeer(token string) (replicaID string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), reloadTimeout)
	defer cancel()
	var claims peerClaims
	if err := s.verify(ctx, typePeer, token, &claims); err != nil {
		return "", err
	}
	if !s.current(claims.IssuedAt, claims.ExpiresAt) || claims.ReplicaID == "" {
		return "", ErrToken
	}
	return claims.ReplicaID, nil
}

// PublicKeys returns the JSON Web Key Set with which runtimes verify
// requests.
func (s *Signer) PublicKeys() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keyring.public
}

// current reports whether now is within the validity of a token.
func (s *Signer) current(issued, expires int64) bool {
	now := s.now()
	return now.Before(time.Unix(expires, 0)) && !now.Add(leeway).Before(time.Unix(issued, 0))
}

// sign serializes and signs claims with the current key.
func (s *Signer) sign(kind string, claims any) (string, error) {
	s.mu.RLock()
	key := s.keyring.signing(s.now())
	s.mu.RUnlock()
	if key == nil {
		return "", errors.New("the platform has no key to sign with")
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: key.private, KeyID: key.id}},
		(&jose.SignerOptions{}).WithType(jose.ContentType(kind)),
	)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return signed.CompactSerialize()
}

// verify checks type and signature of a token and decodes its claims.
func (s *Signer) verify(ctx context.Context, kind, token string, claims any) error {
	// The length is checked before base64 and JSON are decoded.
	if len(token) > maxToken {
		return ErrToken
	}
	parsed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(parsed.Signatures) != 1 {
		return ErrToken
	}
	header := parsed.Signatures[0].Protected
	// The type is compared before the signature, which is cheaper.
	if header.ExtraHeaders[jose.HeaderType] != kind {
		return ErrToken
	}
	public, err := s.public(ctx, header.KeyID)
	if err != nil {
		return err
	}
	payload, err := parsed.Verify(public)
	if err != nil || json.Unmarshal(payload, claims) != nil {
		return ErrToken
	}
	return nil
}

// public returns the key with an ID. An unknown one may be a new key of
// another replica, so the keys are reloaded once.
func (s *Signer) public(ctx context.Context, id string) (ed25519.PublicKey, error) {
	if key := s.cached(id); key != nil {
		return key, nil
	}
	if err := s.reloadOnce(ctx); err != nil {
		return nil, err
	}
	if key := s.cached(id); key != nil {
		return key, nil
	}
	return nil, ErrToken
}

// cached returns a key of the current keyring.
func (s *Signer) cached(id string) ed25519.PublicKey {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keyring.find(id, s.now())
}
