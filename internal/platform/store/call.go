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
	// Timeouts and retries of transactions. writeAttempts bounds the retries
	// after serialization failures.
	readTimeout   = 15 * time.Second
	writeTimeout  = 30 * time.Second
	writeAttempts = 12
)

// collisionBackoff is the backoff after a serialization failure. The jitter
// covers the full range, so that transactions that conflicted once do not
// conflict again.
var collisionBackoff = backoff.Policy{First: 2 * time.Millisecond, Longest: 256 * time.Millisecond, JitterDown: 1}

// querier is a connection, a pool or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// call is the state of one method call. It must not outlive the method.
type call struct {
	ctx     context.Context
	querier querier
	engine  engine
	now     time.Time
	changes []Change // published after the commit
}

// exec runs a statement and returns the number of affected rows.
func (c *call) exec(query string, args ...any) (int, error) {
	result, err := c.querier.ExecContext(c.ctx, query, sanitized(args)...)
	if err != nil {
		return 0, c.engine.explain(err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return 0, c.engine.explain(err)
	}
	return int(n), nil
}

// row is one row of a result.
type row interface{ Scan(dest ...any) error }

// query runs a query and calls each for every row.
func (c *call) query(each func(row) error, query string, args ...any) error {
	rows, err := c.querier.QueryContext(c.ctx, query, sanitized(args)...)
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

// queryOne returns the only row, or ErrNotFound.
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

// queryAll returns all rows; the query itself must bound them.
func queryAll[T any](c *call, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	var all []T
	err := c.query(func(r row) error {
		one, err := scan(r)
		if err != nil {
			return fmt.Errorf("scan row: %w", err)
		}
		all = append(all, one)
		return nil
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// readOne is queryOne outside of a transaction.
func readOne[T any](ctx context.Context, s *Store, scan func(row) (T, error), query string, args ...any) (T, error) {
	return readValue(ctx, s, func(c *call) (T, error) { return queryOne(c, scan, query, args...) })
}

// readAll is queryAll outside of a transaction.
func readAll[T any](ctx context.Context, s *Store, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	return readValue(ctx, s, func(c *call) ([]T, error) { return queryAll(c, scan, query, args...) })
}

// readValue returns the result of a callback that reads without a
// transaction.
func readValue[T any](ctx context.Context, s *Store, fn func(*call) (T, error)) (value T, err error) {
	err = s.read(ctx, func(c *call) error {
		value, err = fn(c)
		return err
	})
	return value, err
}

// exec runs one statement as a transaction of its own and returns the number
// of affected rows.
func (s *Store) exec(ctx context.Context, query string, args ...any) (rows int, err error) {
	err = s.write(ctx, func(c *call) error {
		rows, err = c.exec(query, args...)
		return err
	})
	return rows, err
}

// scanNumber and scanText scan rows with a single column.
func scanNumber(r row) (n int64, err error)   { return n, r.Scan(&n) }
func scanText(r row) (text string, err error) { return text, r.Scan(&text) }

// changed queues a change to be published after the commit.
func (c *call) changed(change Change) { c.changes = append(c.changes, change) }

// read runs a callback that reads without a transaction: each statement sees
// its own snapshot.
func (s *Store) read(ctx context.Context, fn func(*call) error) error {
	// The timeout is separate from the caller's context, so that
	// preferContextError can distinguish the two.
	inner, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return preferContextError(ctx, fn(&call{ctx: inner, querier: s.readers, engine: s.engine, now: s.timestamp()}))
}

// snapshot runs a callback whose reads all see one snapshot.
func (s *Store) snapshot(ctx context.Context, fn func(*call) error) error {
	tx, err := s.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: s.engine.snapshotIsolation()})
	if err != nil {
		return preferContextError(ctx, s.engine.explain(err))
	}
	defer func() { _ = tx.Rollback() }() // read-only
	return preferContextError(ctx, fn(&call{ctx: ctx, querier: tx, engine: s.engine, now: s.timestamp()}))
}

// write runs a callback in one transaction and publishes its changes after
// the commit. The callback is retried with jittered backoff after a
// serialization failure, so it must be idempotent and reset its results.
func (s *Store) write(ctx context.Context, change func(*call) error) error {
	inner, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := s.writeOnce(inner, s.engine.writeIsolation(), change)
		// Only serialization failures are retried. Other errors would repeat.
		if !errors.Is(err, errCollision) {
			return preferContextError(ctx, err)
		}
		if attempt == writeAttempts {
			return &unavailableError{advice: "too many writers at once; try again", cause: err}
		}
		if err := backoff.Sleep(inner, collisionBackoff.Delay(attempt)); err != nil {
			return preferContextError(ctx, s.engine.explain(err))
		}
	}
}

// writeOnce runs a callback in one transaction, without retry. With a
// broadcasting engine the changes come back through the database, also to
// this replica.
func (s *Store) writeOnce(ctx context.Context, isolation sql.IsolationLevel, change func(*call) error) error {
	tx, err := s.writer.BeginTx(ctx, &sql.TxOptions{Isolation: isolation})
	if err != nil {
		return s.engine.explain(err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	c := &call{ctx: ctx, querier: tx, engine: s.engine, now: s.timestamp()}
	if err := change(c); err != nil {
		return err
	}
	// The broadcast is part of the transaction: it is delivered if and only
	// if the commit succeeds.
	announced := deduplicate(c.changes)
	if err := s.engine.broadcast(c, announced); err != nil {
		return err
	}
	if err := s.engine.commit(tx); err != nil {
		return err
	}
	if !s.engine.broadcasts() {
		s.subscribers.publish(announced)
	}
	return nil
}

// preferContextError returns the context's error if the caller has given up;
// otherwise err.
func preferContextError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// sanitized makes arguments storable in both databases: PostgreSQL accepts
// neither zero bytes nor invalid UTF-8 in text.
func sanitized(args []any) []any {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
		}
	}
	return args
}
