package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"slipway.dev/slipway/internal/platform/store/pgtest"
)

// kinds are the databases, for tests that look inside.
func kinds() map[string]func(testing.TB) string {
	return map[string]func(testing.TB) string{
		"SQLite":     func(t testing.TB) string { return "sqlite://" + filepath.Join(t.TempDir(), "platform.db") },
		"PostgreSQL": pgtest.URL,
	}
}

// eachKind runs a test against an empty database of every kind.
func eachKind(t *testing.T, test func(t *testing.T, url string)) {
	for name, url := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, url(t))
		})
	}
}

func connected(t testing.TB, url string) *Store {
	t.Helper()
	s, err := connect(t.Context(), Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // some tests close it earlier
	return s
}

// twoSteps is a history in which the second step changes tables and rows of the
// first, in its own way for each database.
func twoSteps() fstest.MapFS {
	return fstest.MapFS{
		"0001_ships.sql":         {Data: []byte("CREATE TABLE ships (id BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL);\nCREATE INDEX ships_by_name ON ships (name);")},
		"0002_flag.sqlite.sql":   {Data: []byte("ALTER TABLE ships ADD COLUMN flag TEXT NOT NULL DEFAULT ''; UPDATE ships SET flag = 'sqlite ' || name;")},
		"0002_flag.postgres.sql": {Data: []byte("ALTER TABLE ships ADD COLUMN flag TEXT NOT NULL DEFAULT ''; UPDATE ships SET flag = 'postgres ' || name;")},
	}
}

func only(files fstest.MapFS, names ...string) fstest.MapFS {
	some := fstest.MapFS{}
	for _, name := range names {
		some[name] = files[name]
	}
	return some
}

// A database of every older version is brought up to date with its rows.
func TestMigrationsFromEveryVersion(t *testing.T) {
	t.Parallel()
	all := twoSteps()
	for version, older := range []fstest.MapFS{{}, only(all, "0001_ships.sql"), all} {
		t.Run(fmt.Sprint("from ", version), func(t *testing.T) {
			t.Parallel()
			eachKind(t, func(t *testing.T, url string) {
				s := connected(t, url)
				must(t, s.migrate(t.Context(), older))
				want := ""
				if version == 1 {
					must(t, s.write(t.Context(), func(c *call) error {
						_, err := c.exec("INSERT INTO ships (id, name) VALUES (1, 'Ariel')")
						return err
					}))
					want = s.engine.name() + " Ariel"
				}
				for range 2 { // the second time there is nothing to do
					must(t, s.migrate(t.Context(), all))
				}
				must(t, s.read(t.Context(), func(c *call) error {
					flags, err := queryAll(c, scanText, "SELECT flag FROM ships")
					if got := strings.Join(flags, ","); got != want {
						t.Errorf("flags %q, want %q", got, want)
					}
					return err
				}))
			})
		})
	}
}

// firstAuditColumns are the columns of an audit entry in the first version.
const firstAuditColumns = "id, account_id, at, actor, actor_kind, action, target, outcome, detail, address"

// Audit entries of the first version are read as they were written.
func TestOldAuditEntries(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, url string) {
		old := connected(t, url)
		steps, err := loadMigrations(shippedMigrations(), old.engine)
		must(t, err)
		must(t, old.exclusively(t.Context(), func(c *call) error { return old.migrateTo(c, steps, 2) }))
		must(t, old.write(t.Context(), func(c *call) error {
			if _, err := c.exec("INSERT INTO accounts (id, name, created_at) VALUES ('a', 'Harbour', 1)"); err != nil {
				return err
			}
			_, err := c.exec("INSERT INTO audit_entries (" + firstAuditColumns +
				") VALUES ('1', 'a', 5, 'ada (key ci)', 'key', 'application.sync', 'runtime/prod', 'ok', 'x', '192.0.2.1')")
			return err
		}))
		must(t, old.Close())
		s, err := Open(t.Context(), Options{URL: url})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		entries, _, err := s.AuditEntries(t.Context(), "a", AuditFilter{}, Page{})
		must(t, err)
		want := AuditEntry{
			ID: "1", AccountID: "a", At: time.UnixMicro(5).UTC(), Actor: "ada (key ci)", ActorKind: "key",
			Action: "application.sync", Target: "runtime/prod", Outcome: "ok", Detail: "x", Address: "192.0.2.1",
		}
		if len(entries) != 1 || entries[0] != want {
			t.Errorf("got %+v, want %+v", entries, want)
		}
	})
}

// A step that fails leaves the database as it was.
func TestMigrationFailure(t *testing.T) {
	t.Parallel()
	broken := only(twoSteps(), "0001_ships.sql")
	broken["0002_broken.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE boats (id BIGINT); INSERT INTO nowhere VALUES (1)")}
	eachKind(t, func(t *testing.T, url string) {
		s := connected(t, url)
		if err := s.migrate(t.Context(), broken); err == nil || !strings.Contains(err.Error(), "migration 2 broken") {
			t.Fatalf("got %v", err)
		}
		must(t, s.read(t.Context(), func(c *call) error {
			tables, err := s.engine.tables(c)
			if len(tables) != 0 {
				t.Errorf("there are tables: %v", tables)
			}
			return err
		}))
		must(t, s.migrate(t.Context(), twoSteps()))
	})
}

// A database of a newer program is refused with what to do, and so is one whose
// history is not ours.
func TestMigrationRefusals(t *testing.T) {
	t.Parallel()
	newer := twoSteps()
	newer["0003_no_flag.sql"] = &fstest.MapFile{Data: []byte("-- contract: programs from schema 2\nALTER TABLE ships DROP COLUMN flag")}
	other := twoSteps()
	other["0001_ships.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE ships (id BIGINT)")}
	eachKind(t, func(t *testing.T, url string) {
		s := connected(t, url)
		must(t, s.migrate(t.Context(), newer))
		for want, files := range map[string]fs.FS{
			"it belongs to a newer Slipway; start that version": only(twoSteps(), "0001_ships.sql"),
			"another checksum than in this program":             other,
		} {
			if err := s.migrate(t.Context(), files); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		must(t, s.migrate(t.Context(), twoSteps())) // which has a flag, and can do without it
		// Programs before the table of compatibility left nothing in it.
		_, err := s.exec(t.Context(), "DELETE FROM schema_compatibility")
		must(t, err)
		if err := s.migrate(t.Context(), twoSteps()); err == nil || !strings.Contains(err.Error(), "it belongs to a newer Slipway") {
			t.Errorf("got %v", err)
		}
	})
}

func TestMigrationNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"0002_second.sql": "must have the number 0001",
		"1_first.sql":     "must be named as",
		"0001-first.sql":  "must be named as",
		"0001_first.sql":  "must name an earlier schema version",
	} {
		_, err := loadMigrations(fstest.MapFS{name: {Data: []byte("-- contract: programs from schema 1\nSELECT 1")}}, sqliteEngine{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

// A user of the first versions is an operator.
func TestUsersBecomeOperators(t *testing.T) {
	t.Parallel()
	older := fstest.MapFS{}
	for _, name := range []string{"0001_first.sql", "0002_key_parents.sql"} {
		text, err := fs.ReadFile(shippedMigrations(), name)
		must(t, err)
		older[name] = &fstest.MapFile{Data: text}
	}
	eachKind(t, func(t *testing.T, url string) {
		s := connected(t, url)
		must(t, s.migrate(t.Context(), older))
		must(t, s.write(t.Context(), func(c *call) error {
			_, err := c.exec(`INSERT INTO accounts (id, name, created_at) VALUES ('a', 'A', 0);
				INSERT INTO users (id, account_id, email, name, role, password_hash, must_change_password, disabled, subject, created_at, last_sign_in_at, email_folded) VALUES
				('1', 'a', 'ada@example.org', '', 'user', '', false, false, '', 0, 0, 'ada@example.org'),
				('2', 'a', 'bob@example.org', '', 'admin', '', false, false, '', 0, 0, 'bob@example.org')`)
			return err
		}))
		must(t, s.migrate(t.Context(), shippedMigrations()))
		for id, want := range map[string]Role{"1": RoleOperator, "2": RoleAdmin} {
			if user, err := s.User(t.Context(), "a", id); err != nil || user.Role != want {
				t.Errorf("user %s is %q, %v", id, user.Role, err)
			}
		}
	})
}

// Replicas that start together on an empty database migrate it once.
func TestConcurrentMigration(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			s, err := Open(t.Context(), Options{URL: url})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// What is backed up and what is not covers all tables.
func TestBackupCoversTables(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, url string) {
		s := connected(t, url)
		must(t, s.migrate(t.Context(), shippedMigrations()))
		known := map[string]bool{"schema_migrations": true, "schema_compatibility": true, "sessions": true, "sign_in_attempts": true, "replicas": true, "connections": true, "maintenance_tasks": true, "traffic_edges": true}
		for _, table := range backupTables() {
			known[table] = true
		}
		must(t, s.read(t.Context(), func(c *call) error {
			tables, err := s.engine.tables(c)
			if len(tables) != len(known) {
				t.Errorf("%d tables, %d known", len(tables), len(known))
			}
			for _, table := range tables {
				if !known[table] {
					t.Errorf("table %s is neither backed up nor left out on purpose", table)
				}
			}
			return err
		}))
	})
}

// A caller that gives up gets its own reason, and the store goes on.
func TestCancelled(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, url string) {
		s := connected(t, url)
		must(t, s.migrate(t.Context(), shippedMigrations()))
		ctx, cancel := context.WithCancel(t.Context())
		err := s.write(ctx, func(c *call) error {
			if _, err := c.exec("INSERT INTO accounts (id, name, created_at) VALUES ('a', '', 0)"); err != nil {
				return err
			}
			cancel()
			_, err := c.exec("INSERT INTO accounts (id, name, created_at) VALUES ('b', '', 0)")
			return err
		})
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		if accounts, err := s.Accounts(t.Context()); err != nil || len(accounts) != 0 {
			t.Errorf("got %v, %v", accounts, err)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
