package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"slipway.dev/slipway/internal/backoff"
)

const (
	readTimeout   = 15 * time.Second
	writeTimeout  = 30 * time.Second
	writeAttempts = 12 // when transactions collide
)

// collisionBackoff is for transactions that collided. All of it is random: those
// that collided once should not meet again.
var collisionBackoff = backoff.Policy{First: 2 * time.Millisecond, Longest: 256 * time.Millisecond, JitterDown: 1}

// asker is a connection, a pool or a transaction.
type asker interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// call is one method of the Store at work. It lives as long as that.
type call struct {
	ctx     context.Context
	asker   asker
	engine  engine
	now     time.Time
	changes []Change // to tell when the transaction is stored
}

// exec runs a statement and says how many rows it touched.
func (c *call) exec(query string, args ...any) (int, error) {
	result, err := c.asker.ExecContext(c.ctx, query, cleaned(args)...)
	if err != nil {
		return 0, c.engine.explain(err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return 0, c.engine.explain(err)
	}
	return int(n), nil
}

// row is one row of an answer.
type row interface{ Scan(dest ...any) error }

// query reads rows one after the other.
func (c *call) query(each func(row) error, query string, args ...any) error {
	rows, err := c.asker.QueryContext(c.ctx, query, cleaned(args)...)
	if err != nil {
		return c.engine.explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return c.engine.explain(rows.Err())
}

// queryOne reads the only row, or is ErrNotFound.
func queryOne[T any](c *call, scan func(row) (T, error), query string, args ...any) (T, error) {
	all, err := queryAll(c, scan, query, args...)
	if err == nil && len(all) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		var zero T
		return zero, err
	}
	return all[0], nil
}

// queryAll reads all rows. The query bounds them.
func queryAll[T any](c *call, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	var all []T
	err := c.query(func(r row) error {
		one, err := scan(r)
		if err != nil {
			return fmt.Errorf("reading a row: %w", err)
		}
		all = append(all, one)
		return nil
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

func scanNumber(r row) (n int64, err error)   { return n, r.Scan(&n) }
func scanText(r row) (text string, err error) { return text, r.Scan(&text) }

// changed remembers a change to tell.
func (c *call) changed(change Change) { c.changes = append(c.changes, change) }

// read lets ask read, each statement for itself.
func (s *Store) read(ctx context.Context, ask func(*call) error) error {
	inner, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return ended(ctx, ask(&call{ctx: inner, asker: s.readers, engine: s.engine, now: s.moment()}))
}

// snapshot lets ask read several times, as of one moment.
func (s *Store) snapshot(ctx context.Context, ask func(*call) error) error {
	tx, err := s.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: s.engine.snapshotIsolation()})
	if err != nil {
		return ended(ctx, s.engine.explain(err))
	}
	defer func() { _ = tx.Rollback() }() // there is nothing to store
	return ended(ctx, ask(&call{ctx: ctx, asker: tx, engine: s.engine, now: s.moment()}))
}

// write lets change read and write in one transaction, and tells the changes when
// it is stored. change runs again when the transaction collides with another.
func (s *Store) write(ctx context.Context, change func(*call) error) error {
	inner, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := s.writeOnce(inner, s.engine.writeIsolation(), change)
		if !errors.Is(err, errCollision) {
			return ended(ctx, err)
		}
		if attempt == writeAttempts {
			return &unavailableError{advice: "too many writers at once; try again", cause: err}
		}
		if err := backoff.Sleep(inner, collisionBackoff.Delay(attempt)); err != nil {
			return ended(ctx, s.engine.explain(err))
		}
	}
}

func (s *Store) writeOnce(ctx context.Context, isolation sql.IsolationLevel, change func(*call) error) error {
	tx, err := s.writer.BeginTx(ctx, &sql.TxOptions{Isolation: isolation})
	if err != nil {
		return s.engine.explain(err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	c := &call{ctx: ctx, asker: tx, engine: s.engine, now: s.moment()}
	if err := change(c); err != nil {
		return err
	}
	told := summarised(c.changes)
	if err := s.engine.announce(c, told); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return s.engine.explain(err)
	}
	if !s.engine.announces() {
		s.audience.tell(told)
	}
	return nil
}

// ended prefers the reason for which the caller gave up.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// cleaned makes arguments that both databases can hold: PostgreSQL has no text
// with a zero byte or with bytes that are not UTF-8.
func cleaned(args []any) []any {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
		}
	}
	return args
}
