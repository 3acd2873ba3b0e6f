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

	"slipway.dev/slipway/internal/platform/store"
)

const (
	// rotateAfter is how old the newest key may get.
	rotateAfter = 30 * 24 * time.Hour
	// keyLifetime is how long a key is good; it outlives its last token.
	keyLifetime = 45 * 24 * time.Hour
	// overlap is how long a new key is told before it signs. Agents hear of keys
	// with each heartbeat.
	overlap = time.Hour
	// reloadTimeout bounds a look into the store.
	reloadTimeout = 5 * time.Second
	// reloadInterval is the least time between two looks that tokens with unknown
	// keys cause: anybody can send those.
	reloadInterval = 2 * time.Second
	// maintainInterval is how often keys are looked after.
	maintainInterval = time.Minute
)

// ringKey is one key, decrypted.
type ringKey struct {
	id                string
	created, notAfter time.Time
	private           ed25519.PrivateKey
}

// ring is the keys of the store at one moment, the oldest first.
type ring struct {
	keys   []ringKey
	public string // as JSON Web Key Set
}

// signing is the newest key that has been told long enough, or else the oldest.
func (r ring) signing(now time.Time) *ringKey {
	var chosen *ringKey
	for i := range r.keys {
		key := &r.keys[i]
		if !now.Before(key.notAfter) {
			continue
		}
		if chosen == nil || !now.Before(key.created.Add(overlap)) {
			chosen = key
		}
	}
	return chosen
}

func (r ring) find(id string, now time.Time) ed25519.PublicKey {
	for _, key := range r.keys {
		if key.id == id && now.Before(key.notAfter) {
			return key.private.Public().(ed25519.PublicKey)
		}
	}
	return nil
}

// Run looks after the keys until the context ends: it makes the next one, removes
// old ones, and learns those of other replicas.
func (s *Signer) Run(ctx context.Context, failed func(error)) error {
	ticks := time.NewTicker(maintainInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			if err := s.Maintain(ctx); err != nil && ctx.Err() == nil {
				failed(err)
			}
		}
	}
}

// Maintain reads the keys, removes those that are over, and makes one when the
// newest is old or there is none.
func (s *Signer) Maintain(ctx context.Context) error {
	if err := s.reload(ctx); err != nil {
		return err
	}
	s.mu.RLock()
	keys := slices.Clone(s.ring.keys)
	s.mu.RUnlock()
	now, newest, changed := s.now(), time.Time{}, false
	for _, key := range keys {
		if !now.Before(key.notAfter) {
			if err := s.store.DeleteSigningKey(ctx, key.id); err != nil {
				return fmt.Errorf("remove an old signing key: %w", err)
			}
			changed = true
			continue
		}
		newest = key.created
	}
	if newest.IsZero() || now.Sub(newest) >= rotateAfter {
		if err := s.add(ctx); err != nil {
			return err
		}
		changed = true
	}
	if changed {
		return s.reload(ctx)
	}
	return nil
}

// Rotate makes a new key. With revoke, all others are removed, and every token
// that they signed is void at once: for when a key may be known to somebody. Without
// it, the new one is used after an hour, and nothing is interrupted.
func (s *Signer) Rotate(ctx context.Context, revoke bool) error {
	if err := s.reload(ctx); err != nil {
		return err
	}
	s.mu.RLock()
	old := slices.Clone(s.ring.keys)
	s.mu.RUnlock()
	if err := s.add(ctx); err != nil {
		return err
	}
	for _, key := range old {
		if !revoke {
			break
		}
		if err := s.store.DeleteSigningKey(ctx, key.id); err != nil {
			return fmt.Errorf("remove an old signing key: %w", err)
		}
	}
	return s.reload(ctx)
}

// add makes a key and stores it.
func (s *Signer) add(ctx context.Context) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("make a signing key: %w", err)
	}
	id, now := rand.Text(), s.now().UTC()
	sealed, err := s.box.seal(private.Seed(), id)
	if err != nil {
		return err
	}
	key := store.SigningKey{ID: id, Private: sealed, CreatedAt: now, NotAfter: now.Add(keyLifetime)}
	if err := s.store.AddSigningKey(ctx, key); err != nil {
		return fmt.Errorf("store a signing key: %w", err)
	}
	return nil
}

// reloadOnce reloads, unless that was done just now.
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

// reload reads the keys of the store.
func (s *Signer) reload(ctx context.Context) error {
	stored, err := s.store.SigningKeys(ctx)
	if err != nil {
		return fmt.Errorf("read the signing keys: %w", err)
	}
	var fresh ring
	for _, key := range stored {
		seed, err := s.box.open(key.Private, key.ID)
		if err != nil {
			return err
		}
		fresh.keys = append(fresh.keys, ringKey{
			id: key.ID, created: key.CreatedAt, notAfter: key.NotAfter, private: ed25519.NewKeyFromSeed(seed),
		})
	}
	slices.SortFunc(fresh.keys, func(a, b ringKey) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.id, b.id))
	})
	if fresh.public, err = publicSet(fresh.keys, s.now()); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring = fresh
	return nil
}

// publicSet is the JSON Web Key Set of keys that are good.
func publicSet(keys []ringKey, now time.Time) (string, error) {
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
		return "", fmt.Errorf("write the public keys: %w", err)
	}
	return string(text), nil
}
