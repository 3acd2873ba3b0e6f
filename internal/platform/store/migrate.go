package store

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"time"

	"slipway.dev/slipway/internal/backoff"
)

//go:embed migrations/*.sql
var shippedFiles embed.FS

// shippedMigrations returns the migrations of this program. A released file
// never changes, because databases store its checksum; a schema change is a
// new file.
//
// Replicas of the version before use the schema of this one during an upgrade.
// So a step adds what they can ignore: tables, indexes, and columns with
// defaults. What no program uses any more is removed by a step of a later
// version, which names the oldest program that can do without it.
func shippedMigrations() fs.FS {
	files, err := fs.Sub(shippedFiles, "migrations")
	if err != nil {
		panic("store: " + err.Error()) // the folder is embedded
	}
	return files
}

// migration is one step of the schema's history.
type migration struct {
	version  int64
	name     string
	text     string
	checksum string
	// oldest is the schema version of the oldest program that can use the
	// database after this step. It is 0 for a step that only adds.
	oldest int64
}

var (
	migrationName = regexp.MustCompile(`^([0-9]{4})_([a-z][a-z0-9_]*)(\.[a-z]+)?\.sql$`)
	// contractMark names the oldest program that works without what the step
	// removes or changes.
	contractMark = regexp.MustCompile(`(?m)^-- contract: programs from schema ([0-9]+)$`)
)

// lockBackoff is the time between attempts to lock a table for a migration.
// Requests of running replicas proceed in between.
var lockBackoff = backoff.Policy{First: time.Second, Longest: 5 * time.Second, JitterDown: 0.5}

// loadMigrations reads the steps for a database, in order. A file
// 0002_name.sql is for both databases; 0002_name.sqlite.sql and
// 0002_name.postgres.sql are for one each.
func loadMigrations(files fs.FS, e engine) ([]migration, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var steps []migration
	for _, name := range names {
		parts := migrationName.FindStringSubmatch(path.Base(name))
		if parts == nil {
			return nil, fmt.Errorf("the migration %s must be named as 0001_name.sql or 0001_name.sqlite.sql", name)
		}
		// A file with the suffix of the other database is not part of this
		// history.
		if parts[3] != "" && parts[3] != "."+e.name() {
			continue
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		version, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil {
			return nil, err
		}
		// Numbers are consecutive, so a gap or a duplicate is an error of the
		// build, not of the database.
		if version != int64(len(steps)+1) {
			return nil, fmt.Errorf("the migration %s must have the number %04d", name, len(steps)+1)
		}
		sum := sha256.Sum256(text)
		step := migration{version: version, name: parts[2], text: string(text), checksum: hex.EncodeToString(sum[:])}
		if mark := contractMark.FindStringSubmatch(step.text); mark != nil {
			if step.oldest, err = strconv.ParseInt(mark[1], 10, 64); err != nil || step.oldest >= version {
				return nil, fmt.Errorf("the migration %s must name an earlier schema version as its oldest program", name)
			}
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// migrate applies all missing steps in one transaction. Replicas that start
// together wait for each other.
func (s *Store) migrate(ctx context.Context, files fs.FS) error {
	steps, err := loadMigrations(files, s.engine)
	if err != nil {
		return err
	}
	return s.exclusively(ctx, func(c *call) error { return s.migrateTo(c, steps, int64(len(steps))) })
}

// exclusively runs a callback in a transaction that excludes other migrations
// and has no timeout: a step may rewrite large tables.
//
// Running replicas use the tables meanwhile. A lock on a table that waits for a
// long transaction, such as a backup, would block them all, so it is given up
// after a moment and the transaction is tried again.
func (s *Store) exclusively(ctx context.Context, change func(*call) error) error {
	collisions := 0
	for attempt := 1; ; attempt++ {
		// Read committed isolation sees the history that another replica
		// committed while this one waited for the lock.
		err := s.writeOnce(ctx, s.engine.exclusiveIsolation(), func(c *call) error {
			if err := s.engine.exclusive(c); err != nil {
				return err
			}
			return change(c)
		})
		switch {
		case errors.Is(err, errCollision):
			if collisions++; collisions == writeAttempts {
				return &unavailableError{advice: "too many replicas are starting; retry later", cause: errCollision}
			}
		case errors.Is(err, errLocked):
			s.log.Warn("a table is in use by a long transaction; the migration is tried again", "attempt", attempt, "error", err)
			if err := backoff.Sleep(ctx, lockBackoff.Delay(attempt)); err != nil {
				return err
			}
		default:
			return preferContextError(ctx, err)
		}
	}
}

// migrateTo applies the missing steps up to a version. It fails if the
// history of the database is not a prefix of the shipped steps, except for
// steps of a newer program that this one can do without.
func (s *Store) migrateTo(c *call, steps []migration, version int64) error {
	if err := createHistory(c); err != nil {
		return err
	}
	applied, err := history(c)
	if err != nil {
		return err
	}
	if len(applied) > len(steps) {
		if err := s.checkNewer(c, applied, int64(len(steps))); err != nil {
			return err
		}
		applied = applied[:len(steps)]
		version = 0 // there is nothing to apply
	}
	// A changed checksum means that the database was created by a development
	// build, whose schema may differ.
	for i, step := range applied {
		if step.version != int64(i+1) || step.checksum != steps[i].checksum {
			return fmt.Errorf("migration %d %q of the database has another checksum than in this program: use a released version of Slipway", step.version, step.name)
		}
	}
	// The loop runs in the transaction of the caller: PostgreSQL and SQLite
	// both support transactional DDL, so a failed step leaves no trace.
	for _, step := range steps[len(applied):max(int64(len(applied)), version)] {
		if _, err := c.exec(s.engine.dialect(step.text)); err != nil {
			return fmt.Errorf("migration %d %s: %w", step.version, step.name, err)
		}
		_, err := c.exec("INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES ($1, $2, $3, $4)",
			step.version, step.name, step.checksum, micros(c.now))
		if err != nil {
			return err
		}
		if _, err := c.exec("INSERT INTO schema_compatibility (version, oldest) VALUES ($1, $2)", step.version, step.oldest); err != nil {
			return err
		}
		s.log.Info("migrated the database", "version", step.version, "name", step.name)
	}
	return nil
}

// checkNewer accepts a database that a newer program has migrated, as during
// an upgrade of several replicas and after going back, if each of its steps
// allows programs with this schema version. Steps from before the table of
// compatibility are not in it.
func (s *Store) checkNewer(c *call, applied []migration, supported int64) error {
	allowed, err := queryAll(c, scanNumber, "SELECT version FROM schema_compatibility WHERE version > $1 AND oldest <= $1", supported)
	if err != nil {
		return err
	}
	if len(allowed) < len(applied)-int(supported) {
		return fmt.Errorf("the database has schema version %d and this program supports %d: it belongs to a newer Slipway; start that version, or restore a backup that was made before the upgrade",
			len(applied), supported)
	}
	s.log.Warn("the database belongs to a newer version, whose schema this one can use", "schema", len(applied), "supported", supported)
	return nil
}

// createHistory creates the tables of applied migrations, and of the programs
// that can use the database after each. The second is a table of its own,
// because programs without it have the first.
func createHistory(c *call) error {
	for _, table := range []string{`CREATE TABLE IF NOT EXISTS schema_migrations (
		version BIGINT NOT NULL PRIMARY KEY,
		name TEXT NOT NULL,
		checksum TEXT NOT NULL,
		applied_at BIGINT NOT NULL
	)`, `CREATE TABLE IF NOT EXISTS schema_compatibility (
		version BIGINT NOT NULL PRIMARY KEY,
		oldest BIGINT NOT NULL
	)`} {
		if _, err := c.exec(c.engine.dialect(table)); err != nil {
			return err
		}
	}
	return nil
}

// history returns the applied migrations in order.
func history(c *call) ([]migration, error) {
	return queryAll(c, func(r row) (m migration, err error) {
		return m, r.Scan(&m.version, &m.name, &m.checksum)
	}, "SELECT version, name, checksum FROM schema_migrations ORDER BY version")
}
