package store

import (
	"context"
	"time"
)

// SigningKey is a key with which the platform signs tokens.
type SigningKey struct {
	ID                  string
	Private             []byte // encrypted by the caller
	CreatedAt, NotAfter time.Time
}

// maxSigningKeys bounds a list without pages; rotation keeps a few keys.
const maxSigningKeys = 100

// SigningKeys returns all keys, the newest first.
func (s *Store) SigningKeys(ctx context.Context) ([]SigningKey, error) {
	scan := func(r row) (k SigningKey, err error) {
		return k, r.Scan(&k.ID, blobColumn{&k.Private}, timeColumn{&k.CreatedAt}, timeColumn{&k.NotAfter})
	}
	return readAll(ctx, s, scan, "SELECT id, private, created_at, not_after FROM signing_keys ORDER BY created_at DESC, id LIMIT $1", maxSigningKeys)
}

// AddSigningKey stores a key with a new ID.
func (s *Store) AddSigningKey(ctx context.Context, key SigningKey) error {
	if key.ID == "" || len(key.Private) == 0 {
		return invalid("a signing key needs an ID and a private part")
	}
	_, err := s.exec(ctx, "INSERT INTO signing_keys (id, private, created_at, not_after) VALUES ($1, $2, $3, $4)",
		key.ID, key.Private, micros(key.CreatedAt), micros(key.NotAfter))
	return orConflict(err, "a signing key with the ID %s", key.ID)
}

// DeleteSigningKey deletes a key. It is idempotent.
func (s *Store) DeleteSigningKey(ctx context.Context, id string) error {
	_, err := s.exec(ctx, "DELETE FROM signing_keys WHERE id = $1", id)
	return err
}
