package store

import (
	"database/sql"
	"testing"

	"slipway.dev/slipway/internal/platform/store/pgtest"
)

// Every connection has the settings that durability and bounds depend on.
func TestConnectionSettings(t *testing.T) {
	t.Parallel()
	type want map[string]string
	durable := want{"PRAGMA journal_mode": "wal", "PRAGMA synchronous": "2", "PRAGMA foreign_keys": "1", "PRAGMA busy_timeout": "10000"}
	bounded := want{"SHOW statement_timeout": "30s", "SHOW lock_timeout": "20s", "SHOW idle_in_transaction_session_timeout": "1min"}
	file, server := connected(t, kinds()["SQLite"](t)), connected(t, pgtest.URL(t))
	for _, test := range []struct {
		name        string
		store       *Store
		pool        *sql.DB
		connections int
		want        want
	}{
		{"writer", file, file.writer, 1, durable},
		{"readers", file, file.readers, sqliteReaders, durable},
		{"PostgreSQL", server, server.writer, postgresConnections, bounded},
	} {
		if got := test.pool.Stats().MaxOpenConnections; got != test.connections {
			t.Errorf("%s: at most %d connections, want %d", test.name, got, test.connections)
		}
		c := &call{ctx: t.Context(), querier: test.pool, engine: test.store.engine}
		for query, want := range test.want {
			if got, err := queryOne(c, scanText, query); err != nil || got != want {
				t.Errorf("%s: %s is %q, %v; want %s", test.name, query, got, err, want)
			}
		}
	}
	c := &call{ctx: t.Context(), querier: file.readers, engine: file.engine}
	if _, err := c.exec("CREATE TABLE t (id BIGINT)"); err == nil {
		t.Error("a reader writes")
	}
}
