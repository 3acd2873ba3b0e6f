package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	// postgresConnections is for one replica; a server has 100 by default.
	postgresConnections = 16
	postgresIdle        = 4
	connectTimeout      = 10 * time.Second
	// migrationLock is the key of the advisory lock. It only has to be ours.
	migrationLock = 7345019822671
)

// postgresEngine is PostgreSQL. Writing transactions are serializable, so that they
// behave as SQLite's; those that collide are run again.
type postgresEngine struct{ config *pgx.ConnConfig }

func (s *Store) connectPostgreSQL(ctx context.Context, location string) error {
	config, err := pgx.ParseConfig(location)
	if err != nil {
		// The error repeats the URL.
		return invalid("the URL of the PostgreSQL database cannot be understood: it must be postgres://user:password@host:port/database?sslmode=verify-full")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	for name, value := range map[string]string{
		"application_name":                    "slipway platform",
		"statement_timeout":                   "30s",
		"lock_timeout":                        "20s",
		"idle_in_transaction_session_timeout": "60s",
		// Reading a whole table makes a serializable transaction collide with everybody
		// who writes to it; an index is there for everything that is asked.
		"enable_seqscan": "off",
	} {
		if config.RuntimeParams[name] == "" {
			config.RuntimeParams[name] = value
		}
	}
	s.engine = postgresEngine{config: config}
	s.readers = stdlib.OpenDB(*config)
	s.readers.SetMaxOpenConns(postgresConnections)
	s.readers.SetMaxIdleConns(postgresIdle)
	s.readers.SetConnMaxIdleTime(5 * time.Minute)
	s.readers.SetConnMaxLifetime(time.Hour) // so that a moved database is found again
	s.writer = s.readers

	inner, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := s.readers.PingContext(inner); err != nil {
		return ended(ctx, s.engine.explain(err))
	}
	return nil
}

func (e postgresEngine) explain(err error) error {
	if err == nil {
		return nil
	}
	where := fmt.Sprintf("PostgreSQL at %s", e.config.Host)
	var failure *pgconn.PgError
	if !errors.As(err, &failure) {
		return &unavailableError{advice: where + " does not answer; see that it runs and can be reached", cause: err}
	}
	switch failure.Code {
	case "23505": // unique_violation
		return fmt.Errorf("%w (%w)", errUnique, err)
	case "23503": // foreign_key_violation
		return fmt.Errorf("what this belongs to is %w", ErrNotFound)
	case "40001", "40P01": // serialization_failure, deadlock_detected
		return fmt.Errorf("%w (%w)", errCollision, err)
	case "53100": // disk_full
		return &unavailableError{advice: "the disk of " + where + " is full; make room there, and it goes on by itself", cause: err}
	case "25006": // read_only_sql_transaction
		return &unavailableError{advice: where + " only reads; give the address of the primary", cause: err}
	}
	switch failure.Code[:2] {
	case "28", "3D": // authorization, no such database
		return &unavailableError{advice: where + " refuses the user, the password or the database of the URL", cause: err}
	case "08", "53", "55", "57", "58": // connection, resources, state, operator, system
		return &unavailableError{advice: where + " cannot answer; look at its log and its limits", cause: err}
	}
	return fmt.Errorf("the database refuses: %w", err)
}

func (postgresEngine) writeIsolation() sql.IsolationLevel    { return sql.LevelSerializable }
func (postgresEngine) snapshotIsolation() sql.IsolationLevel { return sql.LevelRepeatableRead }
func (postgresEngine) aloneIsolation() sql.IsolationLevel    { return sql.LevelReadCommitted }
func (postgresEngine) announces() bool                       { return true }
func (postgresEngine) name() string                          { return "postgres" }

// announce sends each change to all replicas when the transaction is stored. A
// message has at most 8000 bytes; one change is far smaller.
func (postgresEngine) announce(c *call, changes []Change) error {
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

func (e postgresEngine) exclusive(c *call) error {
	if err := e.unlimited(c); err != nil {
		return err
	}
	_, err := c.exec("SELECT pg_advisory_xact_lock($1)", int64(migrationLock))
	return err
}

func (postgresEngine) unlimited(c *call) error {
	_, err := c.exec("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0")
	return err
}

var textType = regexp.MustCompile(`\bTEXT\b`)

// spelling gives text the order of its bytes, whatever the database was made with.
func (postgresEngine) spelling(text string) string {
	return textType.ReplaceAllString(text, `TEXT COLLATE "C"`)
}

func (postgresEngine) tables(c *call) ([]string, error) {
	return queryAll(c, scanText, "SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' ORDER BY 1")
}
