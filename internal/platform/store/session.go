package store

import (
	"context"
	"time"
)

// Session is somebody who signed in with a browser.
type Session struct {
	Hash                         []byte // SHA-256 of the cookie's secret; the key
	UserID, AccountID            string
	CSRFHash                     []byte
	CreatedAt, ExpiresAt, SeenAt time.Time
	Address, Agent               string // as shown to the user; cut when long
}

// maxAddress and maxAgent bound what comes from a request.
const (
	maxAddress = 128
	maxAgent   = 512
)

// CreateSession stores a session. It gets a time if it has none.
func (s *Store) CreateSession(ctx context.Context, session Session) error {
	if len(session.Hash) == 0 {
		return invalid("a session needs a hash")
	}
	if session.CreatedAt.IsZero() {
		session.CreatedAt = s.moment()
	}
	return s.write(ctx, func(c *call) error {
		_, err := c.exec(`INSERT INTO sessions (hash, user_id, account_id, csrf_hash, created_at, expires_at, seen_at, address, agent)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			session.Hash, session.UserID, session.AccountID, blob(session.CSRFHash), micros(session.CreatedAt), micros(session.ExpiresAt),
			micros(session.SeenAt), shortened(session.Address, maxAddress), shortened(session.Agent, maxAgent))
		return orConflict(err, "a session with the same secret")
	})
}

// Session finds a session. It may have expired: that is for the caller to see.
func (s *Store) Session(ctx context.Context, hash []byte) (session Session, err error) {
	scan := func(r row) (n Session, err error) {
		return n, r.Scan(blobColumn{&n.Hash}, &n.UserID, &n.AccountID, blobColumn{&n.CSRFHash},
			timeColumn{&n.CreatedAt}, timeColumn{&n.ExpiresAt}, timeColumn{&n.SeenAt}, &n.Address, &n.Agent)
	}
	err = s.read(ctx, func(c *call) error {
		session, err = queryOne(c, scan, `SELECT hash, user_id, account_id, csrf_hash, created_at, expires_at, seen_at, address, agent
			FROM sessions WHERE hash = $1`, blob(hash))
		return err
	})
	return session, err
}

// TouchSession says when a session was last used, and until when it is good.
func (s *Store) TouchSession(ctx context.Context, hash []byte, seenAt, expiresAt time.Time) error {
	return s.write(ctx, func(c *call) error {
		return orNotFound(c.exec("UPDATE sessions SET seen_at = $1, expires_at = $2 WHERE hash = $3", micros(seenAt), micros(expiresAt), blob(hash)))
	})
}

// DeleteSession ends a session. One that is not there is no error.
func (s *Store) DeleteSession(ctx context.Context, hash []byte) error {
	return s.write(ctx, func(c *call) error {
		_, err := c.exec("DELETE FROM sessions WHERE hash = $1", blob(hash))
		return err
	})
}

// DeleteSessionsOf ends all sessions of a user but the one with the hash, which
// may be nil.
func (s *Store) DeleteSessionsOf(ctx context.Context, userID string, except []byte) error {
	return s.write(ctx, func(c *call) error {
		_, err := c.exec("DELETE FROM sessions WHERE user_id = $1 AND hash <> $2", userID, blob(except))
		return err
	})
}

// ExpireSessions removes the sessions that have expired and says how many.
func (s *Store) ExpireSessions(ctx context.Context) (removed int, err error) {
	err = s.write(ctx, func(c *call) error {
		removed, err = c.exec("DELETE FROM sessions WHERE expires_at <= $1", micros(c.now))
		return err
	})
	return removed, err
}
