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
)

//go:embed migrations/*.sql
var shippedFiles embed.FS

// shippedMigrations returns the migrations of this program. A released file
// never changes, because databases store its checksum; a schema change is a
// new file.
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
}

var migrationName = regexp.MustCompile(`^([0-9]{4})_([a-z][a-z0-9_]*)(\.[a-z]+)?\.sql$`)

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
		steps = append(steps, migration{version: version, name: parts[2], text: string(text), checksum: hex.EncodeToString(sum[:])})
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
func (s *Store) exclusively(ctx context.Context, change func(*call) error) error {
	for range writeAttempts {
		// Read committed isolation sees the history that another replica
		// committed while this one waited for the lock.
		err := s.writeOnce(ctx, s.engine.exclusiveIsolation(), func(c *call) error {
			if err := s.engine.exclusive(c); err != nil {
				return err
			}
			return change(c)
		})
		if !errors.Is(err, errCollision) {
			return preferContextError(ctx, err)
		}
	}
	return &unavailableError{advice: "too many replicas are starting; retry later", cause: errCollision}
}

// migrateTo applies the missing steps up to a version. It fails if the
// history of the database is not a prefix of the shipped steps.
func (s *Store) migrateTo(c *call, steps []migration, version int64) error {
	if err := createHistory(c); err != nil {
		return err
	}
	applied, err := history(c)
	if err != nil {
		return err
	}
	if len(applied) > len(steps) {
		return fmt.Errorf("the database has schema version %d and this program supports %d: it belongs to a newer Slipway; start that version, or restore a backup that was made before the upgrade",
			len(applied), len(steps))
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
		s.log.Info("migrated the database", "version", step.version, "name", step.name)
	}
	return nil
}

// createHistory creates the table of applied migrations.
func createHistory(c *call) error {
	_, err := c.exec(c.engine.dialect(`CREATE TABLE IF NOT EXISTS schema_migrations (
		version BIGINT NOT NULL PRIMARY KEY,
		name TEXT NOT NULL,
		checksum TEXT NOT NULL,
		applied_at BIGINT NOT NULL
	)`))
	return err
}

// history returns the applied migrations in order.
func history(c *call) ([]migration, error) {
	return queryAll(c, func(r row) (m migration, err error) {
		return m, r.Scan(&m.version, &m.name, &m.checksum)
	}, "SELECT version, name, checksum FROM schema_migrations ORDER BY version")
}
