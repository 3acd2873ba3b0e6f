package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteReaders is the number of concurrent readers besides the one writer
// (WAL mode).
const sqliteReaders = 4

// sqliteEngine is SQLite in a file. A pool of one connection serializes the
// writers, so a transaction never conflicts.
type sqliteEngine struct{ path string }

// connectSQLite locks, creates and opens the file. The lock is taken first:
// the integrity check of a file in use would be unreliable.
func (s *Store) connectSQLite(ctx context.Context, location *url.URL) error {
	if location.Host != "" || !filepath.IsAbs(location.Path) || location.RawQuery != "" || location.User != nil {
		return invalid("the URL of a SQLite database must be sqlite:///path/file.db, with three slashes and nothing after the path")
	}
	path := filepath.Clean(location.Path)
	s.engine = sqliteEngine{path: path}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("create the folder of the database: %w", err)
	}
	release, err := lockFile(path)
	if err != nil {
		return err
	}
	s.release = release
	if err := createPrivateFile(path); err != nil {
		return err
	}
	// The writer's pool has one connection: SQLite allows a single writer,
	// and queueing in database/sql avoids SQLITE_BUSY.
	if s.writer, err = openSQLite(path, 1, "query_only(0)"); err != nil {
		return err
	}
	// query_only protects against a write through the wrong pool.
	if s.readers, err = openSQLite(path, sqliteReaders, "query_only(1)"); err != nil {
		return err
	}
	return s.checkIntegrity(ctx)
}

// openSQLite opens a connection pool. synchronous=FULL makes a commit wait
// for the disk, also with the write-ahead log.
func openSQLite(path string, connections int, access string) (*sql.DB, error) {
	// BEGIN IMMEDIATE takes the write lock at once: upgrading a read lock
	// later could deadlock. Defensive mode and untrusted schemas limit what a
	// manipulated file can do.
	options := url.Values{
		"_txlock":    {"immediate"},
		"_defensive": {"1"},
		"_dqs":       {"0"},
		"_pragma": {
			"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
			"temp_store(MEMORY)", "trusted_schema(0)", "journal_size_limit(67108864)", access,
		},
	}
	name := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: options.Encode()}
	connector, err := sqlite.NewConnector(name.String())
	if err != nil {
		return nil, fmt.Errorf("the database %s cannot be opened: %w", path, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// lockFile excludes a second process. The lock is a file of its own, because
// SQLite uses locks on the database file. The kernel releases it when the
// process ends, even after a crash.
func lockFile(path string) (release func() error, err error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create the lock file of the database: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("the database %s is open in another process: stop it first, or use PostgreSQL for several replicas", path), lock.Close())
	}
	// A child process that was forked and has not yet executed its program
	// shares the lock, so closing the file would not release it at once.
	return func() error {
		return errors.Join(unix.Flock(int(lock.Fd()), unix.LOCK_UN), lock.Close())
	}, nil
}

// createPrivateFile creates the file if it does not exist and restricts it to
// its owner. SQLite gives its other files (WAL, shared memory) the same mode.
func createPrivateFile(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("the database cannot be opened: %w", err)
	}
	return errors.Join(file.Chmod(0o600), file.Close())
}

// checkIntegrity rejects a damaged file before it is written to.
func (s *Store) checkIntegrity(ctx context.Context) error {
	path := s.engine.(sqliteEngine).path
	c := &call{ctx: ctx, querier: s.writer, engine: s.engine}
	// The check stops after five problems: one is enough to reject the file.
	found, err := queryAll(c, scanText, "PRAGMA integrity_check(5)")
	if err != nil {
		return fmt.Errorf("the database %s cannot be read: %w", path, preferContextError(ctx, err))
	}
	if len(found) != 1 || found[0] != "ok" {
		return fmt.Errorf("the database %s is damaged: restore the last backup into a new file (SQLite reports: %q)", path, found)
	}
	broken := 0
	err = c.query(func(row) error { broken++; return nil }, "PRAGMA foreign_key_check")
	if err == nil && broken > 0 {
		err = fmt.Errorf("the database %s is damaged: %d rows belong to nothing; restore the last backup into a new file", path, broken)
	}
	return err
}

// explain classifies errors by SQLite's primary and extended result codes.
func (e sqliteEngine) explain(err error) error {
	if err == nil {
		return nil
	}
	// Errors of database/sql and contexts have no result code.
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return &unavailableError{advice: "it did not respond in time, or is closed; retry later", cause: err}
	}
	switch failure.Code() {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return fmt.Errorf("%w (%w)", errUnique, err)
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return fmt.Errorf("what this belongs to is %w", ErrNotFound)
	}
	// The primary result code is in the low byte; the extended code refines
	// it.
	folder := filepath.Dir(e.path)
	advice := ""
	switch failure.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		advice = fmt.Sprintf("the disk of %s is full; free space there, no restart is needed", folder)
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		advice = fmt.Sprintf("%s cannot be read or written; check its disk, free space and permissions", folder)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		advice = fmt.Sprintf("another process locks %s; stop it", e.path)
	case sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_NOMEM:
		advice = "it did not respond in time or ran out of memory; retry later"
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		advice = fmt.Sprintf("%s is damaged or is not a database; restore the last backup into a new file", e.path)
	default:
		return fmt.Errorf("database error: %w", err)
	}
	return &unavailableError{advice: advice, cause: err}
}

func (e sqliteEngine) commit(tx *sql.Tx) error { return e.explain(tx.Commit()) }

func (sqliteEngine) writeIsolation() sql.IsolationLevel     { return sql.LevelDefault }
func (sqliteEngine) snapshotIsolation() sql.IsolationLevel  { return sql.LevelDefault }
func (sqliteEngine) exclusiveIsolation() sql.IsolationLevel { return sql.LevelDefault }
func (sqliteEngine) broadcasts() bool                       { return false }
func (sqliteEngine) broadcast(*call, []Change) error        { return nil }
func (sqliteEngine) exclusive(*call) error                  { return nil } // only one connection writes
func (sqliteEngine) disableTimeouts(*call) error            { return nil }
func (sqliteEngine) dialect(text string) string             { return text }
func (sqliteEngine) name() string                           { return "sqlite" }

func (sqliteEngine) tables(c *call) ([]string, error) {
	return queryAll(c, scanText, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name")
}
