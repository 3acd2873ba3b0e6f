package signing

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/platform/store"
)

const (
	// rotateAfter is the age of the newest key at which the next one is
	// created.
	rotateAfter = 30 * 24 * time.Hour
	// keyLifetime is the lifetime of a key; it exceeds that of its last
	// token.
	keyLifetime = 45 * 24 * time.Hour
	// prepublish is how long a new key is published before it signs. Agents
	// receive keys with each heartbeat.
	prepublish = time.Hour
	// reloadTimeout bounds a read of the store.
	reloadTimeout = 5 * time.Second
	// reloadInterval is the minimum time between two reloads for tokens with
	// unknown keys, which unauthenticated clients can send.
	reloadInterval = 2 * time.Second
	// maintainInterval is how often keys are rotated and reloaded.
	maintainInterval = time.Minute
)

// keyringKey is one decrypted key.
type keyringKey struct {
	id                string
	created, notAfter time.Time
	private           ed25519.PrivateKey
}

// keyring is an immutable snapshot of the stored keys, the oldest first.
// Reloads replace it as a whole.
type keyring struct {
	keys   []keyringKey
	public string // as JSON Web Key Set
}

// signing returns the newest key that has been published long enough;
// otherwise the oldest valid one.
func (r keyring) signing(now time.Time) *keyringKey {
	var chosen *keyringKey
	for i := range r.keys {
		key := &r.keys[i]
		if !now.Before(key.notAfter) {
			continue
		}
		if chosen == nil || !now.Before(key.created.Add(prepublish)) {
			chosen = key
		}
	}
	return chosen
}

// find returns the public key with an ID if it has not expired.
func (r keyring) find(id string, now time.Time) ed25519.PublicKey {
	for _, key := range r.keys {
		if key.id == id && now.Before(key.notAfter) {
			return key.private.Public().(ed25519.PublicKey)
		}
	}
	return nil
}

// Run maintains the keys until the context is done: it creates the next key,
// deletes expired ones, and loads those of other replicas. rotated is called
// after it has created a key.
func (s *Signer) Run(ctx context.Context, rotated func(), failed func(error)) error {
	for backoff.Sleep(ctx, maintainInterval) == nil {
		created, err := s.Maintain(ctx)
		if created {
			rotated()
		}
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
	return nil
}

// Maintain reloads the keys, deletes expired ones, and creates one if the
// newest is too old or there is none, which it reports. Replicas may create
// keys concurrently; extra keys are harmless.
func (s *Signer) Maintain(ctx context.Context) (created bool, err error) {
	if err := s.reload(ctx); err != nil {
		return false, err
	}
	s.mu.RLock()
	// The lock is not held during store calls.
	keys := slices.Clone(s.keyring.keys)
	s.mu.RUnlock()
	now, newest, deleted := s.now(), time.Time{}, false
	for _, key := range keys {
		if !now.Before(key.notAfter) {
			if err := s.store.DeleteSigningKey(ctx, key.id); err != nil {
				return false, fmt.Errorf("delete expired signing key: %w", err)
			}
			deleted = true
			continue
		}
		newest = key.created
	}
	if newest.IsZero() || now.Sub(newest) >= rotateAfter {
		if err := s.add(ctx); err != nil {
			return false, err
		}
		created = true
	}
	if created || deleted {
		return created, s.reload(ctx)
	}
	return false, nil
}

// Rotate creates a new key. With revoke all others are deleted and their
// tokens become invalid at once: for a key that may have leaked. Without it,
// the new key signs after the prepublish period, and nothing is interrupted.
func (s *Signer) Rotate(ctx context.Context, revoke bool) error {
	if err := s.reload(ctx); err != nil {
		return err
	}
	s.mu.RLock()
	old := slices.Clone(s.keyring.keys)
	s.mu.RUnlock()
	if err := s.add(ctx); err != nil {
		return err
	}
	// Keys are deleted after the new one is stored, so that there is always
	// one to sign with.
	for _, key := range old {
		if !revoke {
			break
		}
		if err := s.store.DeleteSigningKey(ctx, key.id); err != nil {
			return fmt.Errorf("delete expired signing key: %w", err)
		}
	}
	return s.reload(ctx)
}

// add creates and stores a key.
func (s *Signer) add(ctx context.Context) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("generate signing key: %w", err)
	}
	// The ID is random, so that replicas never create the same one.
	id, now := rand.Text(), s.now().UTC()
	key := store.SigningKey{ID: id, Private: s.sealer.Seal(private.Seed(), id), CreatedAt: now, NotAfter: now.Add(keyLifetime)}
	if err := s.store.AddSigningKey(ctx, key); err != nil {
		return fmt.Errorf("store signing key: %w", err)
	}
	return nil
}

// reloadOnce reloads unless that was done within reloadInterval.
func (s *Signer) reloadOnce(ctx context.Context) error {
	s.mu.Lock()
	now := s.now()
	if now.Sub(s.reloaded) < reloadInterval {
		s.mu.Unlock()
		return nil
	}
	s.reloaded = now
	s.mu.Unlock()
	return s.reload(ctx)
}

// reload reads and decrypts the keys of the store, then replaces the keyring.
// An error keeps the current one.
func (s *Signer) reload(ctx context.Context) error {
	stored, err := s.store.SigningKeys(ctx)
	if err != nil {
		return fmt.Errorf("read signing keys: %w", err)
	}
	var fresh keyring
	for _, key := range stored {
		seed, err := s.sealer.Open(key.Private, key.ID)
		if err != nil || len(seed) != ed25519.SeedSize {
			return errWrongKey
		}
		fresh.keys = append(fresh.keys, keyringKey{
			id: key.ID, created: key.CreatedAt, notAfter: key.NotAfter, private: ed25519.NewKeyFromSeed(seed),
		})
	}
	// A deterministic order makes all replicas choose the same signing key.
	slices.SortFunc(fresh.keys, func(a, b keyringKey) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.id, b.id))
	})
	if fresh.public, err = publicSet(fresh.keys, s.now()); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keyring = fresh
	return nil
}

// publicSet returns the JSON Web Key Set (RFC 7517) of the valid keys.
func publicSet(keys []keyringKey, now time.Time) (string, error) {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, key := range keys {
		if now.Before(key.notAfter) {
			set.Keys = append(set.Keys, jose.JSONWebKey{
				Key: key.private.Public(), KeyID: key.id, Algorithm: string(jose.EdDSA), Use: "sig",
			})
		}
	}
	text, err := json.Marshal(set)
	if err != nil {
		return "", fmt.Errorf("encode public keys: %w", err)
	}
	return string(text), nil
}
