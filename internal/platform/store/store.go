package store

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/url"
	"sync"
	"time"
)

// Options are what a Store needs.
type Options struct {
	// URL is sqlite:///path/file.db or postgres://user:password@host/database. It
	// may have a password and is never shown.
	URL string
	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // nil: time.Now
}

// Store is an open database. Its methods may be called from many goroutines.
type Store struct {
	log *slog.Logger
	now func() time.Time

	engine  engine
	writer  *sql.DB // the same as readers for PostgreSQL
	readers *sql.DB
	release func() error // the lock of the file

	audience audience
	closing  context.Context
	close    context.CancelFunc
	running  sync.WaitGroup
	closed   sync.Once
}

// engine is what differs between the databases.
type engine interface {
	// explain turns an error of the driver into one of ours.
	explain(err error) error
	writeIsolation() sql.IsolationLevel
	snapshotIsolation() sql.IsolationLevel
	// aloneIsolation sees, after waiting for exclusive, what was stored meanwhile.
	aloneIsolation() sql.IsolationLevel
	// announces says that changes come back from the database, to every replica.
	announces() bool
	// announce sends changes with the transaction.
	announce(c *call, changes []Change) error
	// exclusive keeps others from migrating until the transaction ends, and takes
	// the limit from the time of statements.
	exclusive(c *call) error
	// unlimited takes the limit from the time of statements of the transaction.
	unlimited(c *call) error
	// spelling makes a migration's text one for this database.
	spelling(text string) string
	// name is part of the names of migrations that are for one database only.
	name() string
	// tables lists the tables by name.
	tables(c *call) ([]string, error)
}

// Open opens the database and brings its tables up to date. It refuses a database
// of a newer program, a damaged one, and a file that is open elsewhere. A database
// that is away is ErrUnavailable.
func Open(ctx context.Context, options Options) (*Store, error) {
	s, err := connect(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := s.migrate(ctx, shippedMigrations()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.listen(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// connect opens the database as it is.
func connect(ctx context.Context, options Options) (*Store, error) {
	s := &Store{log: options.Log, now: options.Now, release: func() error { return nil }}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.closing, s.close = context.WithCancel(context.Background())

	const form = "the URL of the database must be sqlite:///path/file.db or postgres://user:password@host/database"
	parsed, err := url.Parse(options.URL)
	if err != nil {
		return nil, invalid(form) // the error has the URL, and that may have a password
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

// Close ends the channels of Changes, waits for what is running and closes the
// database. Closing again does nothing.
func (s *Store) Close() (err error) {
	s.closed.Do(func() {
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

// Ready says whether the database answers.
func (s *Store) Ready(ctx context.Context) error {
	return s.read(ctx, func(c *call) error {
		_, err := queryOne(c, scanNumber, "SELECT count(*) FROM schema_migrations")
		return err
	})
}

// moment is now, as it can be stored.
func (s *Store) moment() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
