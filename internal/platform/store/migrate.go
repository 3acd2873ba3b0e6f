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

// shippedMigrations are the migrations of this program. A file is never changed
// once a release has it; what changes is a new file.
func shippedMigrations() fs.FS {
	files, err := fs.Sub(shippedFiles, "migrations")
	if err != nil {
		panic("store: " + err.Error()) // the folder is embedded
	}
	return files
}

// migration is one step of the history of the tables.
type migration struct {
	version  int64
	name     string
	text     string
	checksum string
}

var migrationName = regexp.MustCompile(`^([0-9]{4})_([a-z][a-z0-9_]*)(\.[a-z]+)?\.sql$`)

// loadMigrations reads the steps for a database, in order. A file 0002_name.sql is
// for both; 0002_name.sqlite.sql and 0002_name.postgres.sql are for one each.
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
		if version != int64(len(steps)+1) {
			return nil, fmt.Errorf("the migration %s must have the number %04d", name, len(steps)+1)
		}
		sum := sha256.Sum256(text)
		steps = append(steps, migration{version: version, name: parts[2], text: string(text), checksum: hex.EncodeToString(sum[:])})
	}
	return steps, nil
}

// migrate brings the tables up to date, all steps or none. Replicas that start
// together wait for each other.
func (s *Store) migrate(ctx context.Context, files fs.FS) error {
	steps, err := loadMigrations(files, s.engine)
	if err != nil {
		return err
	}
	return s.alone(ctx, func(c *call) error { return s.migrateTo(c, steps, int64(len(steps))) })
}

// alone runs change in a transaction that excludes other migrations, without a
// limit of time.
func (s *Store) alone(ctx context.Context, change func(*call) error) error {
	for range writeAttempts {
		err := s.writeOnce(ctx, s.engine.aloneIsolation(), func(c *call) error {
			if err := s.engine.exclusive(c); err != nil {
				return err
			}
			return change(c)
		})
		if !errors.Is(err, errCollision) {
			return ended(ctx, err)
		}
	}
	return &unavailableError{advice: "too many replicas start at once; try again", cause: errCollision}
}

// migrateTo runs the steps up to a version that the database lacks.
func (s *Store) migrateTo(c *call, steps []migration, version int64) error {
	if err := createHistory(c); err != nil {
		return err
	}
	applied, err := history(c)
	if err != nil {
		return err
	}
	if len(applied) > len(steps) {
		return fmt.Errorf("the database has version %d and this program knows %d: it is of a newer Slipway; start that version, or restore a backup that was made before the upgrade",
			len(applied), len(steps))
	}
	for i, step := range applied {
		if step.version != int64(i+1) || step.checksum != steps[i].checksum {
			return fmt.Errorf("the database was made by migration %d %q in another form than this program has: use a released version of Slipway with it", step.version, step.name)
		}
	}
	for _, step := range steps[len(applied):max(int64(len(applied)), version)] {
		if _, err := c.exec(s.engine.spelling(step.text)); err != nil {
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

func createHistory(c *call) error {
	_, err := c.exec(c.engine.spelling(`CREATE TABLE IF NOT EXISTS schema_migrations (
		version BIGINT NOT NULL PRIMARY KEY,
		name TEXT NOT NULL,
		checksum TEXT NOT NULL,
		applied_at BIGINT NOT NULL
	)`))
	return err
}

// history is the steps that a database has taken.
func history(c *call) ([]migration, error) {
	return queryAll(c, func(r row) (m migration, err error) {
		return m, r.Scan(&m.version, &m.name, &m.checksum)
	}, "SELECT version, name, checksum FROM schema_migrations ORDER BY version")
}
