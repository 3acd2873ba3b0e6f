package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"slipway.dev/slipway/internal/platform/store/pgtest"
	"slipway.dev/slipway/internal/programs"
)

// firstExpanding is the first migration that the rule holds for.
const firstExpanding = 7

var (
	sqlComment  = regexp.MustCompile(`--[^\n]*`)
	createTable = regexp.MustCompile(`^CREATE TABLE ([a-z_]+) \(`)
	createIndex = regexp.MustCompile(`^CREATE (UNIQUE )?INDEX [a-z_]+ ON ([a-z_]+) `)
	addColumn   = regexp.MustCompile(`^ALTER TABLE [a-z_]+ ADD COLUMN [a-z_]+ [A-Z]+ NOT NULL DEFAULT [^ ]+$`)
	dropIndex   = regexp.MustCompile(`^DROP INDEX [a-z_]+$`)
	insertRows  = regexp.MustCompile(`^INSERT INTO ([a-z_]+) `)
)

// expands returns the first statement of a step that a program of the version
// before may not survive.
func expands(text string) error {
	var created []string
	for statement := range strings.SplitSeq(sqlComment.ReplaceAllString(text, ""), ";") {
		statement = strings.Join(strings.Fields(statement), " ")
		switch {
		case statement == "", addColumn.MatchString(statement), dropIndex.MatchString(statement):
			continue
		case createTable.MatchString(statement):
			created = append(created, createTable.FindStringSubmatch(statement)[1])
			continue
		case createIndex.MatchString(statement):
			// A program that does not know of the constraint would violate it.
			index := createIndex.FindStringSubmatch(statement)
			if index[1] == "" || slices.Contains(created, index[2]) {
				continue
			}
		case insertRows.MatchString(statement) && slices.Contains(created, insertRows.FindStringSubmatch(statement)[1]):
			continue
		}
		return fmt.Errorf("%s", statement)
	}
	return nil
}

// Steps add what programs of the version before can ignore. Others name the
// oldest program that can use the database after them.
func TestMigrationsExpand(t *testing.T) {
	t.Parallel()
	for _, e := range []engine{sqliteEngine{}, postgresEngine{}} {
		steps, err := loadMigrations(shippedMigrations(), e)
		must(t, err)
		for _, step := range steps[min(firstExpanding-1, len(steps)):] {
			if err := expands(step.text); err != nil && !contractMark.MatchString(step.text) {
				t.Errorf("migration %d %s would break replicas of the version before: %v\nsee docs/decisions/0079-schema-changes-expand-first.md", step.version, step.name, err)
			}
		}
	}
}

func TestExpands(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"CREATE TABLE boats (\n id TEXT NOT NULL PRIMARY KEY\n);\nCREATE UNIQUE INDEX boats_by_id ON boats (id); INSERT INTO boats SELECT id FROM ships;",
		"-- why; why not\nALTER TABLE ships ADD COLUMN flag TEXT NOT NULL DEFAULT '';\nCREATE INDEX ships_by_flag ON ships (flag);",
		"DROP INDEX ships_by_flag;",
	} {
		must(t, expands(good))
	}
	for _, bad := range []string{
		"DROP TABLE ships", "ALTER TABLE ships DROP COLUMN name", "ALTER TABLE ships RENAME COLUMN name TO title",
		"ALTER TABLE ships ADD COLUMN flag TEXT NOT NULL", "ALTER TABLE ships ADD COLUMN flag TEXT NOT NULL DEFAULT '' REFERENCES flags (id)",
		"CREATE UNIQUE INDEX ships_by_name ON ships (name)", "UPDATE users SET role = 'operator'", "DELETE FROM ships",
		"ALTER TABLE ships ALTER COLUMN name TYPE BIGINT", "INSERT INTO ships (id) VALUES (1)",
	} {
		if expands(bad) == nil {
			t.Errorf("%s is allowed", bad)
		}
	}
}

// nextMigrations are those of this program and one of the next version, which
// adds a column to every table.
func nextMigrations(t testing.TB, s *Store) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	names, err := fs.Glob(shippedMigrations(), "*.sql")
	must(t, err)
	for _, name := range names {
		text, err := fs.ReadFile(shippedMigrations(), name)
		must(t, err)
		files[name] = &fstest.MapFile{Data: text}
	}
	steps, err := loadMigrations(shippedMigrations(), s.engine)
	must(t, err)
	var text strings.Builder
	text.WriteString("CREATE TABLE future (id TEXT NOT NULL PRIMARY KEY);\n")
	for _, table := range append(backupTables(), "sessions", "sign_in_attempts", "replicas", "connections", "maintenance_tasks", "traffic_edges") {
		fmt.Fprintf(&text, "ALTER TABLE %s ADD COLUMN future TEXT NOT NULL DEFAULT '';\n", table)
	}
	must(t, expands(text.String()))
	files[fmt.Sprintf("%04d_future.sql", len(steps)+1)] = &fstest.MapFile{Data: []byte(text.String())}
	return files
}

// MigrateToNext gives a database the schema of the next version.
func MigrateToNext(t testing.TB, url string) {
	t.Helper()
	s := connected(t, url)
	must(t, s.migrate(t.Context(), nextMigrations(t, s)))
	must(t, s.Close())
}

// A replica of the next version migrates the database while one of this version
// is under load. No call fails, and this version can start again.
func TestMigrationUnderLoad(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	old, err := Open(t.Context(), Options{URL: url})
	must(t, err)
	account, err := old.CreateAccount(t.Context(), Account{Name: "Harbour"})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var calls atomic.Int64
	for i := range 4 {
		runtime, err := old.CreateRuntime(t.Context(), Runtime{AccountID: account.ID, Name: fmt.Sprint("runtime-", i)})
		must(t, err)
		load.Go(func() {
			for ctx.Err() == nil {
				_, err := old.UpdateRuntime(t.Context(), runtime.ID, func(*Runtime) error { return nil })
				audited := old.AppendAudit(t.Context(), AuditEntry{AccountID: account.ID, Action: "test"})
				_, _, listed := old.Runtimes(t.Context(), account.ID, Page{Size: 10})
				if err := errors.Join(err, audited, listed); err != nil {
					t.Errorf("a call failed: %v", err)
					return
				}
				calls.Add(1)
			}
		})
	}
	enough := func() {
		want := calls.Load() + 50
		programs.Until(t, "calls", func() bool { return calls.Load() > want || t.Failed() })
	}
	enough()
	MigrateToNext(t, url)
	enough()
	again, err := Open(t.Context(), Options{URL: url})
	must(t, err)
	enough()
	stop()
	load.Wait()
	must(t, again.Close())
	must(t, old.Close())
}

// A migration that waits for a long transaction, such as a backup, does not
// block the requests of running replicas.
func TestMigrationLocks(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := connected(t, url)
	must(t, s.migrate(t.Context(), only(twoSteps(), "0001_ships.sql")))
	migrated := make(chan error, 1)
	must(t, s.snapshot(t.Context(), func(c *call) error {
		if _, err := queryAll(c, scanText, "SELECT name FROM ships"); err != nil {
			return err
		}
		go func() {
			other, err := connect(context.WithoutCancel(t.Context()), Options{URL: url})
			if err == nil {
				err = errors.Join(other.migrate(t.Context(), twoSteps()), other.Close())
			}
			migrated <- err
		}()
		programs.Until(t, "the migration waits", func() bool {
			waiting, err := readOne(t.Context(), s, scanNumber, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'ships'::regclass")
			must(t, err)
			return waiting > 0
		})
		_, err := readAll(t.Context(), s, scanText, "SELECT name FROM ships")
		return err
	}))
	must(t, <-migrated)
}

// A backup by the version before would lack tables, so it is refused.
func TestBackupOfNewerSchema(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, url string) {
		MigrateToNext(t, url)
		s, err := Open(t.Context(), Options{URL: url})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		if err := s.Backup(t.Context(), new(strings.Builder)); err == nil || !strings.Contains(err.Error(), "with the newer version") {
			t.Errorf("got %v", err)
		}
	})
}
