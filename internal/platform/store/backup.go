package store

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"
)

// A backup is gzipped JSON lines, the same for both databases: a header, then
// for each table a line with its columns and one line per row, then a trailer
// with the number of rows and the SHA-256 of all preceding lines.
const (
	backupFormat  = "slipway-backup"
	backupVersion = 1
)

// backupHeader is the first line.
type backupHeader struct {
	Format    string    `json:"format"`
	Version   int       `json:"version"`
	Schema    int64     `json:"schema"` // schema version of the tables
	CreatedAt time.Time `json:"createdAt"`
}

// backupTable precedes the rows of a table.
type backupTable struct {
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
	Kinds   []string `json:"kinds"`
}

// backupEnd is the trailer. Without it the backup is truncated.
type backupEnd struct {
	End    bool   `json:"end"`
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"`
}

// Kinds of columns.
const (
	kindText   = "text"
	kindNumber = "number"
	kindFlag   = "flag"
	kindBytes  = "bytes" // base64
)

// backupTables returns the tables of a backup, each after those that it
// references. Sessions, failed sign-ins, replicas, connections, tasks and counts
// of edges are excluded: they are transient, and a restored session could be one that has
// been ended since.
func backupTables() []string {
	return []string{
		"accounts", "users", "second_factors", "recovery_codes", "api_keys", "audit_entries", "git_settings", "runtimes", "runtime_credentials", "spent_refresh_tokens",
		"report_cursors", "applications", "application_labels", "deployments", "traffic_sums", "signing_keys",
	}
}

// Backup writes all durable tables to w, as of one snapshot, without blocking
// writers. It contains password hashes and encrypted keys, so access to it
// must be restricted; the key that encrypts the signing keys is not included.
// A runtime that renewed its credentials after a backup must be registered
// again when that backup is restored.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	return s.snapshot(ctx, func(c *call) error {
		// A large database takes longer than a statement timeout.
		if err := s.engine.disableTimeouts(c); err != nil {
			return err
		}
		steps, err := history(c)
		if err != nil {
			return err
		}
		shipped, err := loadMigrations(shippedMigrations(), s.engine)
		if err != nil {
			return err
		}
		// A newer program may have tables that this one would leave out.
		if len(steps) > len(shipped) {
			return fmt.Errorf("the database has schema version %d and this program supports %d: make the backup with the newer version", len(steps), len(shipped))
		}
		out := newBackupWriter(w)
		if err := out.line(backupHeader{Format: backupFormat, Version: backupVersion, Schema: int64(len(steps)), CreatedAt: c.now}); err != nil {
			return err
		}
		for _, table := range backupTables() {
			if err := out.table(c, table); err != nil {
				return fmt.Errorf("back up %s: %w", table, err)
			}
		}
		return out.end()
	})
}

// backupWriter writes lines to gzip and to the checksum.
type backupWriter struct {
	packed *gzip.Writer
	out    *bufio.Writer
	sum    hash.Hash
	rows   int64
}

// newBackupWriter computes the checksum over the uncompressed lines: it does
// not depend on the gzip implementation.
func newBackupWriter(w io.Writer) *backupWriter {
	packed := gzip.NewWriter(w)
	sum := sha256.New()
	return &backupWriter{packed: packed, sum: sum, out: bufio.NewWriterSize(io.MultiWriter(packed, sum), 64<<10)}
}

func (b *backupWriter) line(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = b.out.Write(append(text, '\n'))
	return err
}

// end writes the trailer, which is not part of its own checksum.
func (b *backupWriter) end() error {
	// The buffered lines must reach the hash before the checksum is read.
	if err := b.out.Flush(); err != nil {
		return err
	}
	sum := hex.EncodeToString(b.sum.Sum(nil))
	if err := b.line(backupEnd{End: true, Rows: b.rows, SHA256: sum}); err != nil {
		return err
	}
	if err := b.out.Flush(); err != nil {
		return err
	}
	return b.packed.Close()
}

// table writes the head and the rows of a table. Rows are streamed: memory
// does not grow with the table.
func (b *backupWriter) table(c *call, table string) error {
	rows, err := c.querier.QueryContext(c.ctx, "SELECT * FROM "+table)
	if err != nil {
		return c.engine.explain(err)
	}
	defer rows.Close()
	columns, err := rows.ColumnTypes()
	if err != nil {
		return err
	}
	head := backupTable{Table: table}
	cells := make([]any, len(columns))
	for i, column := range columns {
		kind, cell, err := backupCell(column.DatabaseTypeName())
		if err != nil {
			return fmt.Errorf("%s: %w", column.Name(), err)
		}
		head.Columns, head.Kinds, cells[i] = append(head.Columns, column.Name()), append(head.Kinds, kind), cell
	}
	if err := b.line(head); err != nil {
		return err
	}
	for rows.Next() {
		if err := rows.Scan(cells...); err != nil {
			return err
		}
		// NULL bytes are written as empty ones, as the store itself writes
		// them.
		for _, cell := range cells {
			if bytes, ok := cell.(*[]byte); ok {
				*bytes = blob(*bytes)
			}
		}
		if err := b.line(cells); err != nil {
			return err
		}
		b.rows++
	}
	return c.engine.explain(rows.Err())
}

// backupCell returns the kind and scan target of a column, by the name of its
// type in either database.
func backupCell(typeName string) (kind string, cell any, err error) {
	switch strings.ToUpper(typeName) {
	case "TEXT":
		return kindText, new(string), nil
	case "BIGINT", "INT8":
		return kindNumber, new(int64), nil
	case "BOOLEAN", "BOOL":
		return kindFlag, new(bool), nil
	case "BYTEA":
		return kindBytes, new([]byte), nil
	}
	return "", nil, fmt.Errorf("a backup cannot have the type %s", typeName)
}
