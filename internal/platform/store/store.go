package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/url"
	"sync"
	"time"
)

// Options configures a Store.
type Options struct {
	// URL is sqlite:///path/file.db or
	// postgres://user:password@host/database, with several hosts for a primary
	// and its standbys. It may contain a password, so it is never logged or
	// part of an error.
	URL string
	Log *slog.Logger     // nil discards
	Now func() time.Time // nil means time.Now
	// Audited receives every audit entry after it is stored, for an export. It
	// must not block.
	Audited func(AuditEntry)
}

// Store is an open database. It is safe for concurrent use.
type Store struct {
	log     *slog.Logger
	now     func() time.Time
	audited func(AuditEntry)

	engine  engine
	writer  *sql.DB // one connection for SQLite; same as readers for PostgreSQL
	readers *sql.DB
	release func() error // unlocks the SQLite file

	subscribers subscribers
	closing     context.Context
	close       context.CancelFunc
	running     sync.WaitGroup
	closed      sync.Once
}

// engine abstracts the differences between the databases.
type engine interface {
	// explain converts an error of the driver to one of this package.
	explain(err error) error
	// commit commits a transaction; its errors are explained.
	commit(tx *sql.Tx) error
	writeIsolation() sql.IsolationLevel
	snapshotIsolation() sql.IsolationLevel
	// aloneIsolation sees, after waiting for exclusive, what was stored
	// meanwhile.
	exclusiveIsolation() sql.IsolationLevel
	// broadcasts reports whether the database delivers changes to every
	// replica, this one included. Otherwise the writer publishes them in this
	// process.
	broadcasts() bool
	// broadcast sends changes as part of the transaction.
	broadcast(c *call, changes []Change) error
	// exclusive blocks other migrations until the transaction ends, and
	// disables statement timeouts.
	exclusive(c *call) error
	// disableTimeouts disables the timeouts of statements in the transaction.
	disableTimeouts(c *call) error
	// dialect adapts the text of a migration to this database.
	dialect(text string) string
	// name is the suffix of migrations that are for this database only.
	name() string
	// tables lists the tables by name.
	tables(c *call) ([]string, error)
}

// Open opens the database and migrates its schema. It rejects a database of a
// newer program, a damaged one, and a file that another process has open. An
// unreachable database is ErrUnavailable.
func Open(ctx context.Context, options Options) (*Store, error) {
	s, err := connect(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := s.migrate(ctx, shippedMigrations()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	// Listening starts after the migration: an older schema may lack the
	// columns that subscribers read.
	if err := s.listen(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// connect opens the database without migrating it.
func connect(ctx context.Context, options Options) (*Store, error) {
	s := &Store{log: options.Log, now: options.Now, audited: options.Audited, release: func() error { return nil }}
	s.log = cmp.Or(s.log, slog.New(slog.DiscardHandler))
	if s.now == nil {
		s.now = time.Now
	}
	// closing outlives the context of Open, which only bounds opening. It
	// ends the goroutines of Changes and listen.
	s.closing, s.close = context.WithCancel(context.Background())

	const form = "the URL of the database must be sqlite:///path/file.db or postgres://user:password@host/database"
	parsed, err := url.Parse(options.URL)
	if err != nil {
		return nil, invalid(form) // err contains the URL and with it the password
	}
	switch parsed.Scheme {
	case "sqlite":
		err = s.connectSQLite(ctx, parsed)
	case "postgres", "postgresql":
		err = s.connectPostgreSQL(ctx, options.URL)
	default:
		err = invalid(form)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close closes the channels of Changes, waits for running goroutines and
// closes the database. It is idempotent.
func (s *Store) Close() (err error) {
	s.closed.Do(func() {
		// Goroutines end before the pools are closed, so that none of them
		// reports a closed database as a failure.
		s.close()
		s.running.Wait()
		var errs []error
		if s.readers != nil {
			errs = append(errs, s.readers.Close())
		}
		if s.writer != nil && s.writer != s.readers {
			errs = append(errs, s.writer.Close())
		}
		err = errors.Join(append(errs, s.release())...)
	})
	return err
}

// Ready returns an error if the database does not respond.
func (s *Store) Ready(ctx context.Context) error {
	// The table always exists after a migration, and counting its few rows is
	// cheap.
	_, err := readOne(ctx, s, scanNumber, "SELECT count(*) FROM schema_migrations")
	return err
}

// timestamp returns the current time with the precision of the database.
func (s *Store) timestamp() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
