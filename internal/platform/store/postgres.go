package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	// postgresConnections is the pool size of one replica; a server accepts
	// 100 connections by default.
	postgresConnections = 16
	postgresIdle        = 4
	connectTimeout      = 10 * time.Second
	// migrationLock is the key of the advisory lock of migrations, an
	// arbitrary constant.
	migrationLock = 7345019822671
)

// postgresEngine is PostgreSQL. Writing transactions are serializable, as
// SQLite's are; serialization failures are retried.
type postgresEngine struct {
	config *pgx.ConnConfig
	// unconfirmed counts commits that no standby confirmed although the
	// primary waited for one.
	unconfirmed *atomic.Uint64
}

// connectPostgreSQL opens the connection pool. Session parameters of the URL
// take precedence over the defaults.
func (s *Store) connectPostgreSQL(ctx context.Context, location string) error {
	config, err := pgx.ParseConfig(location)
	if err != nil {
		// The error of the driver repeats the URL with its password.
		return invalid("the URL of the PostgreSQL database cannot be understood: it must be postgres://user:password@host:port/database?sslmode=verify-full")
	}
	unconfirmed := &atomic.Uint64{}
	followPrimary(config, unconfirmed)
	for name, value := range map[string]string{
		"application_name":                    "slipway platform",
		"statement_timeout":                   "30s",
		"lock_timeout":                        "20s",
		"idle_in_transaction_session_timeout": "60s",
		// A sequential scan takes a predicate lock on the whole table, so a
		// serializable transaction would conflict with every writer. All
		// queries have an index.
		"enable_seqscan": "off",
	} {
		if config.RuntimeParams[name] == "" {
			config.RuntimeParams[name] = value
		}
	}
	// Readers and writers share one pool: PostgreSQL coordinates them itself.
	s.engine = postgresEngine{config: config, unconfirmed: unconfirmed}
	s.readers = stdlib.OpenDB(*config)
	s.readers.SetMaxOpenConns(postgresConnections)
	s.readers.SetMaxIdleConns(postgresIdle)
	s.readers.SetConnMaxIdleTime(5 * time.Minute)
	s.readers.SetConnMaxLifetime(time.Hour) // follows a database that failed over to another address
	s.writer = s.readers

	// sql.OpenDB does not connect. A ping reports a wrong URL at startup
	// instead of at the first request.
	inner, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := s.readers.PingContext(inner); err != nil {
		return preferContextError(ctx, s.engine.explain(err))
	}
	return nil
}

// explain classifies errors by SQLSTATE. An error without one comes from the
// connection.
func (e postgresEngine) explain(err error) error {
	if err == nil {
		return nil
	}
	where := "PostgreSQL at " + strings.Join(databaseHosts(e.config), ", ")
	if errors.Is(err, pgconn.ErrReadOnlyConnection) {
		return &unavailableError{advice: "no host of " + where + " accepts writes; promote a standby, or use the address of the primary", cause: err}
	}
	// Errors without SQLSTATE never reached the server or lost the
	// connection.
	var failure *pgconn.PgError
	if !errors.As(err, &failure) {
		return &unavailableError{advice: where + " does not respond; check that it runs and is reachable", cause: err}
	}
	switch failure.Code {
	case "23505": // unique_violation
		return fmt.Errorf("%w (%w)", errUnique, err)
	case "23503": // foreign_key_violation
		return fmt.Errorf("what this belongs to is %w", ErrNotFound)
	case "40001", "40P01": // serialization_failure, deadlock_detected
		return fmt.Errorf("%w (%w)", errCollision, err)
	case "55P03": // lock_not_available
		return &unavailableError{advice: "another transaction holds a lock for long; retry later", cause: fmt.Errorf("%w (%w)", errLocked, err)}
	case "53100": // disk_full
		return &unavailableError{advice: "the disk of " + where + " is full; free space there, no restart is needed", cause: err}
	case readOnlyState:
		return &unavailableError{advice: where + " is read-only; use the address of the primary", cause: err}
	}
	switch failure.Code[:2] {
	case "28", "3D": // authorization, no such database
		return &unavailableError{advice: where + " rejects the user, the password or the database of the URL", cause: err}
	case "08", "53", "55", "57", "58": // connection, resources, state, operator, system
		return &unavailableError{advice: where + " cannot serve the request; check its log and limits", cause: err}
	}
	return fmt.Errorf("database error: %w", err)
}

// Serializable transactions give both databases the same semantics, so that
// methods need no engine-specific locking.
func (postgresEngine) writeIsolation() sql.IsolationLevel     { return sql.LevelSerializable }
func (postgresEngine) snapshotIsolation() sql.IsolationLevel  { return sql.LevelRepeatableRead }
func (postgresEngine) exclusiveIsolation() sql.IsolationLevel { return sql.LevelReadCommitted }
func (postgresEngine) broadcasts() bool                       { return true }
func (postgresEngine) name() string                           { return "postgres" }

// commit commits a transaction. Without the confirmation of a standby that the
// primary waits for, the commit counts as failed: it is lost if the primary is.
// The counter is that of all connections, so a concurrent commit may count as
// failed too; both may be retried.
func (e postgresEngine) commit(tx *sql.Tx) error {
	before := e.unconfirmed.Load()
	if err := tx.Commit(); err != nil {
		return e.explain(err)
	}
	if e.unconfirmed.Load() != before {
		return &unavailableError{advice: "check that the standbys of synchronous_standby_names run, and retry", cause: errUnconfirmed}
	}
	return nil
}

// broadcast sends each change to all replicas with the commit (NOTIFY). The
// payload limit is 8000 bytes; a change is far smaller.
func (postgresEngine) broadcast(c *call, changes []Change) error {
	for _, change := range changes {
		text, err := json.Marshal(change)
		if err != nil {
			return err
		}
		if _, err := c.exec("SELECT pg_notify($1, $2)", changeChannel, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// exclusive takes an advisory lock that is released with the transaction. The
// locks of tables have a timeout, because requests queue behind a lock that
// waits.
func (e postgresEngine) exclusive(c *call) error {
	if err := e.disableTimeouts(c); err != nil {
		return err
	}
	if _, err := c.exec("SELECT pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
		return err
	}
	_, err := c.exec("SET LOCAL lock_timeout = '2s'")
	return err
}

// disableTimeouts uses SET LOCAL, which ends with the transaction.
func (postgresEngine) disableTimeouts(c *call) error {
	_, err := c.exec("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0")
	return err
}

var textType = regexp.MustCompile(`\bTEXT\b`)

// dialect gives text columns the C collation, so that order and page tokens
// do not depend on the locale of the database.
func (postgresEngine) dialect(text string) string {
	return textType.ReplaceAllString(text, `TEXT COLLATE "C"`)
}

// tables lists the base tables of the current schema.
func (postgresEngine) tables(c *call) ([]string, error) {
	return queryAll(c, scanText, "SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' ORDER BY 1")
}
