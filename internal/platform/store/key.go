package store

import (
	"context"
	"strconv"
	"time"
)

// OperatorScope marks a key that an operator created on the platform's
// machine for a user.
const OperatorScope = "operator"

// Key is an API key. Only the hash of its secret is stored.
type Key struct {
	ID, AccountID, UserID, Name, Prefix string
	// ParentID is the key that this one was created with; empty for a key
	// that was created with a session or by an operator.
	ParentID                                    string
	Hash                                        []byte
	Scopes                                      []string
	CreatedAt, ExpiresAt, LastUsedAt, RevokedAt time.Time // zero means never
}

// KeyFilter selects keys.
type KeyFilter struct {
	UserID         string // empty matches all users of the account
	IncludeRevoked bool
}

const keyColumns = "id, account_id, user_id, name, prefix, hash, scopes, created_at, expires_at, last_used_at, revoked_at, parent_id"

func scanKey(r row) (k Key, err error) {
	return k, r.Scan(&k.ID, &k.AccountID, &k.UserID, &k.Name, &k.Prefix, blobColumn{&k.Hash}, jsonColumn{&k.Scopes},
		timeColumn{&k.CreatedAt}, timeColumn{&k.ExpiresAt}, timeColumn{&k.LastUsedAt}, timeColumn{&k.RevokedAt}, &k.ParentID)
}

// CreateKey stores a key of a user of the account and sets ID and time if
// they are empty.
func (s *Store) CreateKey(ctx context.Context, key Key) (Key, error) {
	if len(key.Hash) == 0 {
		return Key{}, invalid("a key needs a hash")
	}
	s.setDefaults(&key.ID, &key.CreatedAt)
	err := s.write(ctx, func(c *call) error {
		// The foreign key does not include the account, so the user's account
		// is checked here.
		if _, err := queryOne(c, scanText, "SELECT id FROM users WHERE account_id = $1 AND id = $2", key.AccountID, key.UserID); err != nil {
			return err
		}
		_, err := c.exec("INSERT INTO api_keys ("+keyColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
			key.ID, key.AccountID, key.UserID, key.Name, key.Prefix, key.Hash, jsonText(key.Scopes),
			micros(key.CreatedAt), micros(key.ExpiresAt), micros(key.LastUsedAt), micros(key.RevokedAt), key.ParentID)
		return orConflict(err, "a key with the ID %s", key.ID)
	})
	return key, err
}

// KeyByID returns a key of any account, including revoked and expired ones.
func (s *Store) KeyByID(ctx context.Context, id string) (Key, error) {
	return readOne(ctx, s, scanKey, "SELECT "+keyColumns+" FROM api_keys WHERE id = $1", id)
}

// Keys lists the keys of an account, the newest first.
func (s *Store) Keys(ctx context.Context, accountID string, filter KeyFilter, page Page) (keys []Key, next string, err error) {
	list := newListID("keys", accountID, filter)
	var where condition
	where.add("account_id = ?", accountID)
	where.addText("user_id = ?", filter.UserID)
	if !filter.IncludeRevoked {
		where.add("revoked_at = 0")
	}
	if err := where.beyond(list, page.Token, "(created_at, id) <"); err != nil {
		return nil, "", err
	}
	query := page.query("SELECT "+keyColumns+" FROM api_keys", where, "created_at DESC, id DESC")
	return readPage(ctx, s, query, scanKey, func(last Key) string {
		return list.token(strconv.FormatInt(micros(last.CreatedAt), 10), last.ID)
	})
}

// TouchKey updates when a key was last used.
func (s *Store) TouchKey(ctx context.Context, id string, at time.Time) error {
	return orNotFound(s.exec(ctx, "UPDATE api_keys SET last_used_at = $1 WHERE id = $2", micros(at), id))
}

// RevokeKey permanently revokes a key and all keys that descend from it: a
// stolen key must not leave a successor behind. It is idempotent and keeps the
// first time.
func (s *Store) RevokeKey(ctx context.Context, accountID, id string) error {
	// UNION, unlike UNION ALL, ends even if damaged rows form a cycle.
	return orNotFound(s.exec(ctx, `WITH RECURSIVE family (id) AS (
			SELECT id FROM api_keys WHERE account_id = $1 AND id = $2
			UNION SELECT child.id FROM api_keys child JOIN family ON child.parent_id = family.id AND child.parent_id <> ''
		)
		UPDATE api_keys SET revoked_at = CASE revoked_at WHEN 0 THEN $3 ELSE revoked_at END WHERE id IN (SELECT id FROM family)`,
		accountID, id, micros(s.timestamp())))
}
