package store

import (
	"context"
	"crypto/sha256"
	"time"
)

// attemptRetention is how long failed sign-ins are kept.
const attemptRetention = time.Hour

// CountAttempts returns the number of failed sign-ins of a key since a time,
// at most an hour ago. The caller chooses the key, such as an email or an
// address; only its hash is stored.
func (s *Store) CountAttempts(ctx context.Context, key string, since time.Time) (int, error) {
	count, err := readOne(ctx, s, scanNumber, "SELECT count(*) FROM sign_in_attempts WHERE key_hash = $1 AND at >= $2", attemptKey(key), micros(since))
	return int(count), err
}

// AddAttempt records a failed sign-in and deletes expired ones, so the table
// needs no cleanup job.
func (s *Store) AddAttempt(ctx context.Context, key string) error {
	return s.write(ctx, func(c *call) error {
		if _, err := c.exec("DELETE FROM sign_in_attempts WHERE at < $1", micros(c.now.Add(-attemptRetention))); err != nil {
			return err
		}
		_, err := c.exec("INSERT INTO sign_in_attempts (id, key_hash, at) VALUES ($1, $2, $3)", newID(), attemptKey(key), micros(c.now))
		return err
	})
}

// ClearAttempts deletes the failed sign-ins of a key.
func (s *Store) ClearAttempts(ctx context.Context, key string) error {
	_, err := s.exec(ctx, "DELETE FROM sign_in_attempts WHERE key_hash = $1", attemptKey(key))
	return err
}

// attemptKey hashes a key: emails and addresses are personal data.
func attemptKey(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}
