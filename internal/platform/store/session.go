package store

import (
	"context"
	"time"
)

// Session is the session of a browser.
type Session struct {
	Hash                         []byte // SHA-256 of the cookie's secret; the primary key
	UserID, AccountID            string
	CSRFHash                     []byte
	CreatedAt, ExpiresAt, SeenAt time.Time
	Address, Agent               string // shown to the user; truncated
}

// maxAddress and maxAgent bound values that come from a request.
const (
	maxAddress = 128
	maxAgent   = 512
)

// OpenSession changes the user of a session as ChangeUser does, and stores the
// session in the same transaction: a user who is disabled or gets another
// password or factor at the same time has no session left from before.
func (s *Store) OpenSession(ctx context.Context, session Session, change func(*User) (Ending, error)) (user User, err error) {
	// An empty hash would be found by any request without a cookie.
	if len(session.Hash) == 0 {
		return User{}, invalid("a session needs a hash")
	}
	err = s.write(ctx, func(c *call) error {
		if user, err = changeUser(c, session.AccountID, session.UserID, change); err != nil {
			return err
		}
		_, err := c.exec(`INSERT INTO sessions (hash, user_id, account_id, csrf_hash, created_at, expires_at, seen_at, address, agent)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			session.Hash, session.UserID, session.AccountID, blob(session.CSRFHash), micros(session.CreatedAt), micros(session.ExpiresAt),
			micros(session.SeenAt), truncate(session.Address, maxAddress), truncate(session.Agent, maxAgent))
		return orConflict(err, "a session with the same secret")
	})
	return user, err
}

// Session returns a session. The caller checks whether it has expired.
func (s *Store) Session(ctx context.Context, hash []byte) (Session, error) {
	scan := func(r row) (n Session, err error) {
		return n, r.Scan(blobColumn{&n.Hash}, &n.UserID, &n.AccountID, blobColumn{&n.CSRFHash},
			timeColumn{&n.CreatedAt}, timeColumn{&n.ExpiresAt}, timeColumn{&n.SeenAt}, &n.Address, &n.Agent)
	}
	return readOne(ctx, s, scan, `SELECT hash, user_id, account_id, csrf_hash, created_at, expires_at, seen_at, address, agent
		FROM sessions WHERE hash = $1`, blob(hash))
}

// TouchSession updates when a session was last used and when it expires.
func (s *Store) TouchSession(ctx context.Context, hash []byte, seenAt, expiresAt time.Time) error {
	return orNotFound(s.exec(ctx, "UPDATE sessions SET seen_at = $1, expires_at = $2 WHERE hash = $3", micros(seenAt), micros(expiresAt), blob(hash)))
}

// DeleteSession deletes a session. It is idempotent.
func (s *Store) DeleteSession(ctx context.Context, hash []byte) error {
	_, err := s.exec(ctx, "DELETE FROM sessions WHERE hash = $1", blob(hash))
	return err
}

// ExpireSessions deletes expired sessions and returns their number.
func (s *Store) ExpireSessions(ctx context.Context) (removed int, err error) {
	return s.exec(ctx, "DELETE FROM sessions WHERE expires_at <= $1", micros(s.timestamp()))
}
