// Package signing makes and checks the tokens of the platform: those that agents
// show to it, those with which it asks something of a runtime, and those between
// its replicas.
//
// It promises that a token is good for one purpose and for minutes, that private
// keys are in the store only encrypted, with a key that is not in the store, and
// that a new key is told to runtimes well before it is used. It refuses every
// algorithm but Ed25519, and a store whose keys were encrypted with another key.
//
// The platform's server is its caller.
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
	// AccessLifetime is how long an agent's access token is good.
	AccessLifetime = 10 * time.Minute
	// peerLifetime is how long a token between replicas is good.
	peerLifetime = time.Minute
	// leeway is how far the clocks of two replicas may be apart.
	leeway = 30 * time.Second
	// maxToken bounds what is parsed.
	maxToken = 8 << 10
)

// Kinds of tokens. They are in the header typ, so that one is never taken for
// another.
const (
	typeAccess  = "slipway-access+jwt"
	typeRequest = "slipway-request+jwt"
	typePeer    = "slipway-peer+jwt"
)

// ErrToken is any token that is not good. Which part of it is wrong is not told.
var ErrToken = errors.New("the token is not valid, or has expired")

// RuntimeIdentity is what an access token says of the agent that shows it.
type RuntimeIdentity struct {
	RuntimeID, AccountID, Name string
	// Generation is that of the credential; the caller compares it with the store's.
	Generation int64
	Expires    time.Time
}

// KeyStore is what the signer needs of the store.
type KeyStore interface {
	SigningKeys(ctx context.Context) ([]store.SigningKey, error)
	AddSigningKey(ctx context.Context, key store.SigningKey) error
	DeleteSigningKey(ctx context.Context, id string) error
}

// Signer makes and checks tokens. It is safe for concurrent use.
type Signer struct {
	store KeyStore
	box   box
	now   func() time.Time

	mu       sync.RWMutex
	ring     ring
	reloaded time.Time
}

// New reads the keys of the store, and makes the first one if there is none. The
// key encrypts them; it has to be the same on all replicas.
func New(ctx context.Context, keys KeyStore, key secret.Text, now func() time.Time) (*Signer, error) {
	sealed, err := newBox(key)
	if err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	s := &Signer{store: keys, box: sealed, now: now}
	if err := s.Maintain(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// accessClaims is what an access token says.
type accessClaims struct {
	RuntimeID  string `json:"sub"`
	AccountID  string `json:"account"`
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
	IssuedAt   int64  `json:"iat"`
	ExpiresAt  int64  `json:"exp"`
	ID         string `json:"jti"`
}

// RuntimeAccess makes the token that an agent shows to the platform.
func (s *Signer) RuntimeAccess(runtime store.Runtime, generation int64) (token string, expires time.Time, err error) {
	now := s.now()
	expires = now.Add(AccessLifetime).Truncate(time.Second)
	token, err = s.sign(typeAccess, accessClaims{
		RuntimeID: runtime.ID, AccountID: runtime.AccountID, Name: runtime.Name, Generation: generation,
		IssuedAt: now.Unix(), ExpiresAt: expires.Unix(), ID: rand.Text(),
	})
	return token, expires, err
}

// VerifyRuntimeAccess checks signature and expiry of an agent's token.
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

// Request makes the token with which the platform asks something of one runtime.
// The times and the ID are set here.
func (s *Signer) Request(claims wire.RuntimeClaims) (string, error) {
	if claims.RuntimeID == "" || claims.Prefix == "" {
		return "", errors.New("a token for a runtime needs the runtime and the path that it is for")
	}
	now := s.now()
	claims.IssuedAt, claims.ExpiresAt = now.Unix(), now.Add(wire.RequestTokenLifetime).Unix()
	claims.ID = rand.Text()
	return s.sign(typeRequest, claims)
}

// peerClaims is what a token between replicas says.
type peerClaims struct {
	ReplicaID string `json:"sub"`
	IssuedAt  int64  `json:"iat"`
	ExpiresAt int64  `json:"exp"`
}

// Peer makes the token that a replica shows to another.
func (s *Signer) Peer(replicaID string) (string, error) {
	now := s.now()
	return s.sign(typePeer, peerClaims{ReplicaID: replicaID, IssuedAt: now.Unix(), ExpiresAt: now.Add(peerLifetime).Unix()})
}

// VerifyPeer says which replica made the token.
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

// PublicKeys is the JSON Web Key Set that runtimes check requests with.
func (s *Signer) PublicKeys() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.ring.public
}

// current says whether now is within the times of a token.
func (s *Signer) current(issued, expires int64) bool {
	now := s.now()
	return now.Before(time.Unix(expires, 0)) && !now.Add(leeway).Before(time.Unix(issued, 0))
}

func (s *Signer) sign(kind string, claims any) (string, error) {
	s.mu.RLock()
	key := s.ring.signing(s.now())
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

// verify checks the signature of a token of one kind and reads its claims.
func (s *Signer) verify(ctx context.Context, kind, token string, claims any) error {
	if len(token) > maxToken {
		return ErrToken
	}
	parsed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(parsed.Signatures) != 1 {
		return ErrToken
	}
	header := parsed.Signatures[0].Protected
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

// public finds a key. One that is not known may be another replica's new one.
func (s *Signer) public(ctx context.Context, id string) (ed25519.PublicKey, error) {
	if key := s.known(id); key != nil {
		return key, nil
	}
	if err := s.reloadOnce(ctx); err != nil {
		return nil, err
	}
	if key := s.known(id); key != nil {
		return key, nil
	}
	return nil, ErrToken
}

func (s *Signer) known(id string) ed25519.PublicKey {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.ring.find(id, s.now())
}
