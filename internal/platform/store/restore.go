package store

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxBackupLine bounds a line; it exceeds the largest row.
const maxBackupLine = 8 << 20

// Restore writes a backup into an empty database, which it creates if it is a
// file. The backup is spooled and verified completely first, so a damaged one
// is rejected before any write. Then all rows are written in one transaction.
func Restore(ctx context.Context, options Options, r io.Reader) (err error) {
	spool, err := os.CreateTemp("", "slipway-restore-")
	if err != nil {
		return fmt.Errorf("create temporary file for the backup: %w", err)
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	// The spool contains password hashes. The unlinked file is not visible to
	// others and disappears with the process.
	if err := os.Remove(spool.Name()); err != nil {
		return err
	}
	// The input may be a pipe, which can be read only once; verification and
	// loading need two passes.
	if _, err := io.Copy(spool, contextReader{ctx, r}); err != nil {
		return fmt.Errorf("read backup: %w", err)
	}
	header, err := checkBackup(ctx, spool)
	if err != nil {
		return fmt.Errorf("the backup is invalid, nothing was written: %w", err)
	}
	s, err := connect(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.restore(ctx, header, spool)
}

// contextReader is a reader that fails when the context is done.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (u contextReader) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// checkBackup reads a backup to its end without using its rows.
func checkBackup(ctx context.Context, spool io.ReadSeeker) (backupHeader, error) {
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return backupHeader{}, err
	}
	return readBackup(contextReader{ctx, spool}, backupVisitor{
		table: func(backupTable) error { return nil },
		row:   func(backupTable, []any) error { return nil },
	})
}

// restore migrates to the backup's schema version, loads the rows, and then
// migrates to the current version: older backups stay usable.
func (s *Store) restore(ctx context.Context, header backupHeader, spool io.ReadSeeker) error {
	steps, err := loadMigrations(shippedMigrations(), s.engine)
	if err != nil {
		return err
	}
	// Newer columns would be lost silently, so a newer backup is rejected.
	if header.Schema > int64(len(steps)) {
		return fmt.Errorf("the backup has schema version %d and this program supports %d: it belongs to a newer Slipway; restore it with that version", header.Schema, len(steps))
	}
	return s.exclusively(ctx, func(c *call) error {
		// Both checks run under the migration lock: no replica can start in
		// between.
		if err := requireEmpty(c); err != nil {
			return err
		}
		if err := s.migrateTo(c, steps, header.Schema); err != nil {
			return err
		}
		applied, err := history(c)
		if err != nil {
			return err
		}
		if int64(len(applied)) != header.Schema {
			return fmt.Errorf("the backup has schema version %d and the database %d: use a database without tables", header.Schema, len(applied))
		}
		if err := loadRows(c, spool); err != nil {
			return err
		}
		return s.migrateTo(c, steps, int64(len(steps)))
	})
}

// requireEmpty rejects a database with rows.
func requireEmpty(c *call) error {
	tables, err := c.engine.tables(c)
	if err != nil {
		return err
	}
	for _, table := range tables {
		if table == "schema_migrations" || table == "schema_compatibility" {
			continue
		}
		// The names come from the database's catalog and may be arbitrary.
		quoted := `"` + strings.ReplaceAll(table, `"`, `""`) + `"`
		any, err := queryAll(c, scanNumber, "SELECT 1 FROM "+quoted+" LIMIT 1")
		if err != nil {
			return err
		}
		if len(any) > 0 {
			return fmt.Errorf("the database is not empty, %s has rows: restore into a new one", table)
		}
	}
	return nil
}

// loadRows writes the rows of a verified backup.
func loadRows(c *call, spool io.ReadSeeker) error {
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	statement := ""
	_, err := readBackup(contextReader{c.ctx, spool}, backupVisitor{
		table: func(table backupTable) error {
			// Names were validated by sqlName; values are bound as
			// parameters.
			places := make([]string, len(table.Columns))
			for i := range places {
				places[i] = "$" + strconv.Itoa(i+1)
			}
			statement = "INSERT INTO " + table.Table + " (" + strings.Join(table.Columns, ", ") + ") VALUES (" + strings.Join(places, ", ") + ")"
			return nil
		},
		row: func(table backupTable, values []any) error {
			if _, err := c.exec(statement, values...); err != nil {
				return fmt.Errorf("restore %s: %w", table.Table, err)
			}
			return nil
		},
	})
	return err
}

// backupVisitor is called for the tables and rows of a backup, in order.
// Values of a row are string, int64, bool and []byte.
type backupVisitor struct {
	table func(backupTable) error
	row   func(backupTable, []any) error
}

// readBackup reads a backup to its end.
func readBackup(r io.Reader, visitor backupVisitor) (backupHeader, error) {
	unpacked, err := gzip.NewReader(r)
	if err != nil {
		return backupHeader{}, fmt.Errorf("it is not a backup: %w", err)
	}
	return readLines(unpacked, visitor)
}

// readLines parses the uncompressed lines. It validates checksum, number of
// rows, and the form of all names and values.
func readLines(unpacked io.Reader, visitor backupVisitor) (backupHeader, error) {
	lines := bufio.NewScanner(unpacked)
	lines.Buffer(make([]byte, 64<<10), maxBackupLine)
	b := &backupReader{visitor: visitor}
	sum := sha256.New()
	for lines.Scan() {
		line := lines.Bytes()
		if err := b.line(line, func() string { return hex.EncodeToString(sum.Sum(nil)) }); err != nil {
			return backupHeader{}, err
		}
		// The trailer's checksum covers the lines before it, so the line is
		// added after it was parsed.
		sum.Write(line) // never fails
		sum.Write([]byte{'\n'})
	}
	if err := lines.Err(); err != nil {
		return backupHeader{}, fmt.Errorf("it is damaged or cut off: %w", err)
	}
	if !b.ended {
		return backupHeader{}, errors.New("it is cut off")
	}
	return b.header, nil
}

// backupReader is the parser's state: header, tables with rows, trailer.
type backupReader struct {
	visitor backupVisitor
	header  backupHeader
	begun   bool
	ended   bool
	current backupTable
	seen    []string
	rows    int64
}

// line parses one line. sum returns the checksum of all lines before it.
func (b *backupReader) line(line []byte, sum func() string) error {
	switch {
	case b.ended:
		return errors.New("there is something after its end")
	case !b.begun:
		b.begun = true
		return b.readHeader(line)
	// The first byte distinguishes rows, which are arrays, from tables and
	// the trailer, which are objects.
	case bytes.HasPrefix(line, []byte("[")):
		return b.readRow(line)
	case bytes.HasPrefix(line, []byte(`{"table":`)):
		return b.readTable(line)
	}
	var end backupEnd
	if err := strictJSON(line, &end); err != nil || !end.End {
		return errors.New("it is damaged: a line is neither a table, nor a row, nor the end")
	}
	if end.Rows != b.rows || end.SHA256 != sum() {
		return errors.New("it is damaged: its sum is not the one that it has")
	}
	b.ended = true
	return nil
}

// readHeader checks format and version. Unknown fields are ignored here, so
// that a newer version is reported as such.
func (b *backupReader) readHeader(line []byte) error {
	var header backupHeader
	if err := json.Unmarshal(line, &header); err != nil || header.Format != backupFormat {
		return errors.New("it is not a backup of Slipway")
	}
	if header.Version != backupVersion || header.Schema < 1 {
		return fmt.Errorf("its format has version %d and this program knows %d: restore it with the Slipway that made it", header.Version, backupVersion)
	}
	b.header = header
	return nil
}

// sqlName matches the names of tables and columns. Names become part of SQL
// statements, so nothing else is accepted.
var sqlName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// readTable validates a table. Each table occurs once, and the migration
// history is never restored from a backup.
func (b *backupReader) readTable(line []byte) error {
	var table backupTable
	if err := strictJSON(line, &table); err != nil {
		return fmt.Errorf("it is damaged: %w", err)
	}
	if !sqlName.MatchString(table.Table) || slices.Contains(b.seen, table.Table) || table.Table == "schema_migrations" {
		return fmt.Errorf("it is damaged: unexpected table %.80q", table.Table)
	}
	if len(table.Columns) == 0 || len(table.Columns) > 100 || len(table.Kinds) != len(table.Columns) {
		return fmt.Errorf("it is damaged: the columns of %s are wrong", table.Table)
	}
	for i, column := range table.Columns {
		known := slices.Contains([]string{kindText, kindNumber, kindFlag, kindBytes}, table.Kinds[i])
		if !sqlName.MatchString(column) || !known {
			return fmt.Errorf("it is damaged: table %s has the column %.80q of kind %.80q", table.Table, column, table.Kinds[i])
		}
	}
	b.current, b.seen = table, append(b.seen, table.Table)
	return b.visitor.table(table)
}

// readRow decodes a row by the kinds of its table's columns.
func (b *backupReader) readRow(line []byte) error {
	var cells []json.RawMessage
	if err := json.Unmarshal(line, &cells); err != nil || len(cells) == 0 || len(cells) != len(b.current.Columns) {
		return fmt.Errorf("it is damaged: a row of %s has not its columns", b.current.Table)
	}
	values := make([]any, len(cells))
	for i, cell := range cells {
		value, err := backupValue(b.current.Kinds[i], cell)
		if err != nil {
			return fmt.Errorf("it is damaged: column %s of %s: %w", b.current.Columns[i], b.current.Table, err)
		}
		values[i] = value
	}
	b.rows++
	return b.visitor.row(b.current, values)
}

// backupValue decodes a cell by the kind of its column.
func backupValue(kind string, cell json.RawMessage) (any, error) {
	if string(cell) == "null" {
		return nil, errors.New("it has no value")
	}
	switch kind {
	case kindText:
		return decode[string](cell)
	case kindNumber:
		return decode[int64](cell)
	case kindFlag:
		return decode[bool](cell)
	}
	text, err := decode[string](cell)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(text)
}

// decode decodes a JSON value of one type.
func decode[T any](cell json.RawMessage) (value T, err error) {
	if json.Unmarshal(cell, &value) != nil {
		return value, fmt.Errorf("it is not a %T", value) // the original error contains the value
	}
	return value, nil
}

// strictJSON decodes a line that must have no unknown fields and no trailing
// data.
func strictJSON(line []byte, to any) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(to); err != nil {
		return errors.New("a line is not as a backup has it")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("a line has more than it should")
	}
	return nil
}
