package store

import (
	"context"
	"time"
)

// Kinds of factors.
const (
	// FactorTOTP is an authenticator app; a user has one at most.
	FactorTOTP = "totp"
	// FactorPasskey is a WebAuthn credential.
	FactorPasskey = "passkey"
)

// MaxFactors bounds the factors of a user.
const MaxFactors = 10

// Factor proves a sign-in of a user besides the password.
type Factor struct {
	ID, UserID, Kind, Name string
	Secret                 []byte // encrypted by the caller
	// LastProof is the time step or challenge of the last accepted proof, as a
	// number that grows.
	LastProof             int64
	CreatedAt, LastUsedAt time.Time
}

// Factors returns the factors of a user, the oldest first.
func (s *Store) Factors(ctx context.Context, userID string) ([]Factor, error) {
	scan := func(r row) (f Factor, err error) {
		return f, r.Scan(&f.ID, &f.UserID, &f.Kind, &f.Name, blobColumn{&f.Secret}, &f.LastProof, timeColumn{&f.CreatedAt}, timeColumn{&f.LastUsedAt})
	}
	return readAll(ctx, s, scan, `SELECT id, user_id, kind, name, secret, last_proof, created_at, last_used_at
		FROM second_factors WHERE user_id = $1 ORDER BY created_at, id LIMIT $2`, userID, MaxFactors)
}

// AddFactor stores a factor; an authenticator app replaces the one that the
// user had. With the first factor all sessions of the user end, because they
// were opened without one, and the user gets the recovery codes, which first
// reports.
func (s *Store) AddFactor(ctx context.Context, factor Factor, recovery [][]byte) (first bool, err error) {
	if factor.ID == "" || len(factor.Secret) == 0 {
		return false, invalid("a factor needs an ID and a secret")
	}
	err = s.write(ctx, func(c *call) error {
		had, err := countFactors(c, factor.UserID)
		if err != nil {
			return err
		}
		first = had == 0
		if factor.Kind == FactorTOTP {
			replaced, err := c.exec("DELETE FROM second_factors WHERE user_id = $1 AND kind = $2", factor.UserID, FactorTOTP)
			if err != nil {
				return err
			}
			had -= replaced
		}
		if had >= MaxFactors {
			return invalid("a user has at most %d factors: remove one first", MaxFactors)
		}
		_, err = c.exec(`INSERT INTO second_factors (id, user_id, kind, name, created_at, last_used_at, last_proof, secret)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			factor.ID, factor.UserID, factor.Kind, factor.Name, micros(c.now), micros(c.now), factor.LastProof, factor.Secret)
		if err != nil || !first {
			return orConflict(err, "this second factor")
		}
		if err := endCredentials(c, factor.UserID, EndSessions); err != nil {
			return err
		}
		return replaceRecoveryCodes(c, factor.UserID, recovery)
	})
	return first, err
}

func countFactors(c *call, userID string) (int, error) {
	count, err := queryOne(c, scanNumber, "SELECT count(*) FROM second_factors WHERE user_id = $1", userID)
	return int(count), err
}

// UseFactor records an accepted proof and the secret from now on. It returns
// ErrNotFound if this proof or a later one was accepted before, so that of
// concurrent sign-ins with one proof, at any replica, one succeeds.
func (s *Store) UseFactor(ctx context.Context, id string, proof int64, secret []byte) error {
	return orNotFound(s.exec(ctx, "UPDATE second_factors SET last_proof = $1, last_used_at = $2, secret = $3 WHERE id = $4 AND last_proof < $1",
		proof, micros(s.timestamp()), secret, id))
}

// DeleteFactor deletes a factor of a user, and the recovery codes with the last
// one. With keepOne it returns ErrLastFactor for the last one.
func (s *Store) DeleteFactor(ctx context.Context, userID, id string, keepOne bool) error {
	return s.write(ctx, func(c *call) error {
		if err := orNotFound(c.exec("DELETE FROM second_factors WHERE user_id = $1 AND id = $2", userID, id)); err != nil {
			return err
		}
		left, err := countFactors(c, userID)
		if err != nil || left > 0 {
			return err
		}
		// An error rolls the deletion back.
		if keepOne {
			return ErrLastFactor
		}
		return replaceRecoveryCodes(c, userID, nil)
	})
}

// ResetFactors deletes all factors and recovery codes of a user and ends the
// sessions: the next sign-in needs the password only.
func (s *Store) ResetFactors(ctx context.Context, accountID, userID string) error {
	return s.write(ctx, func(c *call) error {
		if _, err := queryOne(c, scanText, "SELECT id FROM users WHERE account_id = $1 AND id = $2", accountID, userID); err != nil {
			return err
		}
		if _, err := c.exec("DELETE FROM second_factors WHERE user_id = $1", userID); err != nil {
			return err
		}
		if err := replaceRecoveryCodes(c, userID, nil); err != nil {
			return err
		}
		return endCredentials(c, userID, EndSessions)
	})
}

// SetRecoveryCodes replaces the recovery codes of a user, as hashes.
func (s *Store) SetRecoveryCodes(ctx context.Context, userID string, hashes [][]byte) error {
	return s.write(ctx, func(c *call) error { return replaceRecoveryCodes(c, userID, hashes) })
}

func replaceRecoveryCodes(c *call, userID string, hashes [][]byte) error {
	if _, err := c.exec("DELETE FROM recovery_codes WHERE user_id = $1", userID); err != nil {
		return err
	}
	for _, hash := range hashes {
		if _, err := c.exec("INSERT INTO recovery_codes (user_id, hash) VALUES ($1, $2)", userID, hash); err != nil {
			return err
		}
	}
	return nil
}

// UseRecoveryCode deletes a recovery code. It returns ErrNotFound if the user
// has no such code any more.
func (s *Store) UseRecoveryCode(ctx context.Context, userID string, hash []byte) error {
	return orNotFound(s.exec(ctx, "DELETE FROM recovery_codes WHERE user_id = $1 AND hash = $2", userID, blob(hash)))
}

// CountRecoveryCodes returns the number of unused recovery codes of a user.
func (s *Store) CountRecoveryCodes(ctx context.Context, userID string) (int, error) {
	count, err := readOne(ctx, s, scanNumber, "SELECT count(*) FROM recovery_codes WHERE user_id = $1", userID)
	return int(count), err
}
