package store

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"
)

// RuntimeCredential is the credential of a runtime, as hashes.
type RuntimeCredential struct {
	RuntimeID string
	// Generation is a claim of every access token. Revoking increments it,
	// which invalidates all earlier tokens.
	Generation int64
	// RefreshHash is the hash of the current refresh token. PreviousHash is
	// that of the one before: it stays valid for a grace period after
	// RotatedAt, because the response with the new token may have been lost.
	RefreshHash, PreviousHash []byte
	RotatedAt                 time.Time
	Revoked                   bool
}

// spentRetention is how long a replaced refresh token is recognized as
// reused.
const spentRetention = 7 * 24 * time.Hour

// PutCredential replaces the credential of a runtime. A generation below the
// stored one is a *ConflictError: it would make revoked tokens valid again.
func (s *Store) PutCredential(ctx context.Context, credential RuntimeCredential) error {
	return s.write(ctx, func(c *call) error {
		// The generation is monotonic across registrations, so a replayed
		// token of an earlier registration never becomes valid.
		before, err := credentialOf(c, credential.RuntimeID)
		switch {
		case err == nil && credential.Generation < before.Generation:
			return &ConflictError{What: fmt.Sprintf("the generation %d of the credential: a new one must not be %d", before.Generation, credential.Generation)}
		case err == nil:
			// A token of the old credential that is used later was stolen or
			// forgotten; it must not revoke the new credential.
			if _, err := c.exec("DELETE FROM spent_refresh_tokens WHERE runtime_id = $1", credential.RuntimeID); err != nil {
				return err
			}
		case !errors.Is(err, ErrNotFound):
			return err
		}
		return storeCredential(c, credential)
	})
}

// storeCredential writes a credential and announces the change, so that
// replicas check the runtime's connections.
func storeCredential(c *call, credential RuntimeCredential) error {
	runtime, err := runtimeByID(c, credential.RuntimeID)
	if err != nil {
		return err
	}
	c.changed(Change{Kind: ChangeCredential, AccountID: runtime.AccountID, ID: runtime.ID})
	_, err = c.exec(`INSERT INTO runtime_credentials (runtime_id, generation, refresh_hash, previous_hash, rotated_at, revoked)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (runtime_id) DO UPDATE SET generation = excluded.generation, refresh_hash = excluded.refresh_hash,
			previous_hash = excluded.previous_hash, rotated_at = excluded.rotated_at, revoked = excluded.revoked`,
		credential.RuntimeID, credential.Generation, blob(credential.RefreshHash), blob(credential.PreviousHash),
		micros(credential.RotatedAt), credential.Revoked)
	return err
}

// Credential returns the credential of a runtime.
func (s *Store) Credential(ctx context.Context, runtimeID string) (RuntimeCredential, error) {
	return readValue(ctx, s, func(c *call) (RuntimeCredential, error) { return credentialOf(c, runtimeID) })
}

func credentialOf(c *call, runtimeID string) (RuntimeCredential, error) {
	scan := func(r row) (n RuntimeCredential, err error) {
		return n, r.Scan(&n.RuntimeID, &n.Generation, blobColumn{&n.RefreshHash}, blobColumn{&n.PreviousHash}, timeColumn{&n.RotatedAt}, &n.Revoked)
	}
	return queryOne(c, scan, `SELECT runtime_id, generation, refresh_hash, previous_hash, rotated_at, revoked
		FROM runtime_credentials WHERE runtime_id = $1`, runtimeID)
}

// Rotation is a request to exchange a refresh token.
type Rotation struct {
	RuntimeID          string
	Presented, NewHash []byte
	Now                time.Time
	Grace              time.Duration
}

// RotateCredential replaces the refresh token of a runtime. The presented
// hash must be the current one, or the previous one within the grace period.
// A token that was replaced earlier revokes everything and returns ErrReused.
// An unknown token returns ErrNotFound and changes nothing, so guessing
// cannot disable a runtime. Revoked credentials return ErrRevoked.
func (s *Store) RotateCredential(ctx context.Context, rotation Rotation) (RuntimeCredential, error) {
	if len(rotation.Presented) == 0 || len(rotation.NewHash) == 0 {
		return RuntimeCredential{}, invalid("a rotation needs the hash of the old and of the new refresh token")
	}
	var credential RuntimeCredential
	reused := false
	err := s.write(ctx, func(c *call) (err error) {
		credential, err = credentialOf(c, rotation.RuntimeID)
		if err != nil {
			return err
		}
		if credential.Revoked {
			return ErrRevoked
		}
		// A reused token is committed as a revocation, and reported as an
		// error only after the commit.
		if reused, err = credential.rotate(c, rotation); err != nil {
			return err
		}
		if reused {
			credential.revoke()
		}
		return storeCredential(c, credential)
	})
	switch {
	case err != nil:
		return RuntimeCredential{}, err
	case reused:
		return RuntimeCredential{}, ErrReused
	}
	return credential, nil
}

// rotate updates the hashes, or reports that the presented token was replaced
// before.
func (n *RuntimeCredential) rotate(c *call, rotation Rotation) (reused bool, err error) {
	now := rotation.Now.UTC().Truncate(time.Microsecond)
	switch {
	// The normal case: the current token is exchanged, and the previous one
	// is recorded as spent.
	case equalHash(n.RefreshHash, rotation.Presented):
		replaced := n.PreviousHash
		n.PreviousHash, n.RefreshHash, n.RotatedAt = n.RefreshHash, rotation.NewHash, now
		return false, recordSpent(c, n.RuntimeID, replaced, now)
	case equalHash(n.PreviousHash, rotation.Presented):
		if now.After(n.RotatedAt.Add(rotation.Grace)) {
			return true, nil
		}
		// The response was lost. The grace period is not extended.
		replaced := n.RefreshHash
		n.RefreshHash = rotation.NewHash
		return false, recordSpent(c, n.RuntimeID, replaced, now)
	}
	// A token that was never issued and one that is older than the retention
	// are both unknown.
	_, err = queryOne(c, scanNumber, "SELECT spent_at FROM spent_refresh_tokens WHERE runtime_id = $1 AND hash = $2", n.RuntimeID, rotation.Presented)
	return err == nil, err
}

// recordSpent records a refresh token that is no longer valid and deletes
// expired records.
func recordSpent(c *call, runtimeID string, hash []byte, now time.Time) error {
	if len(hash) == 0 {
		return nil
	}
	if _, err := c.exec("DELETE FROM spent_refresh_tokens WHERE runtime_id = $1 AND spent_at < $2", runtimeID, micros(now.Add(-spentRetention))); err != nil {
		return err
	}
	_, err := c.exec("INSERT INTO spent_refresh_tokens (runtime_id, hash, spent_at) VALUES ($1, $2, $3) ON CONFLICT (runtime_id, hash) DO NOTHING",
		runtimeID, hash, micros(now))
	return err
}

// equalHash compares hashes in constant time; an empty stored hash never
// matches.
func equalHash(stored, presented []byte) bool {
	return len(stored) > 0 && subtle.ConstantTimeCompare(stored, presented) == 1
}

// revoke invalidates all tokens of the credential.
func (n *RuntimeCredential) revoke() {
	n.Generation++
	n.Revoked = true
	n.RefreshHash, n.PreviousHash = nil, nil
}

// RevokeCredential revokes all tokens of a runtime.
func (s *Store) RevokeCredential(ctx context.Context, runtimeID string) error {
	return s.write(ctx, func(c *call) error {
		credential, err := credentialOf(c, runtimeID)
		if err != nil {
			return err
		}
		credential.revoke()
		return storeCredential(c, credential)
	})
}
