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

// maxBackupLine is more than the largest row makes.
const maxBackupLine = 8 << 20

// Restore writes a backup into an empty database, which it makes if it is a file.
// The backup is read to its end first: a damaged one is refused before anything is
// written. Then everything is written, or nothing.
func Restore(ctx context.Context, options Options, r io.Reader) (err error) {
	spool, err := os.CreateTemp("", "slipway-restore-")
	if err != nil {
		return fmt.Errorf("there is no place to check the backup: %w", err)
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	// It has hashes of passwords: nobody else finds it, and nothing is left behind.
	if err := os.Remove(spool.Name()); err != nil {
		return err
	}
	if _, err := io.Copy(spool, untilDone{ctx, r}); err != nil {
		return fmt.Errorf("the backup cannot be read: %w", err)
	}
	header, err := checkBackup(ctx, spool)
	if err != nil {
		return fmt.Errorf("the backup is refused, and nothing is written: %w", err)
	}
	s, err := connect(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.restore(ctx, header, spool)
}

// untilDone is a reader that ends with a context.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// checkBackup reads a backup to its end.
func checkBackup(ctx context.Context, spool io.ReadSeeker) (backupHeader, error) {
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return backupHeader{}, err
	}
	return readBackup(untilDone{ctx, spool}, backupVisitor{
		table: func(backupTable) error { return nil },
		row:   func(backupTable, []any) error { return nil },
	})
}

func (s *Store) restore(ctx context.Context, header backupHeader, spool io.ReadSeeker) error {
	steps, err := loadMigrations(shippedMigrations(), s.engine)
	if err != nil {
		return err
	}
	if header.Schema > int64(len(steps)) {
		return fmt.Errorf("the backup has version %d of the tables and this program knows %d: it is of a newer Slipway; restore it with that version", header.Schema, len(steps))
	}
	return s.alone(ctx, func(c *call) error {
		if err := checkEmpty(c); err != nil {
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
			return fmt.Errorf("the backup is of version %d of the tables and the database has %d: give a database without any tables", header.Schema, len(applied))
		}
		if err := load(c, spool); err != nil {
			return err
		}
		return s.migrateTo(c, steps, int64(len(steps)))
	})
}

// checkEmpty refuses to write over anything.
func checkEmpty(c *call) error {
	tables, err := c.engine.tables(c)
	if err != nil {
		return err
	}
	for _, table := range tables {
		if table == "schema_migrations" {
			continue
		}
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

// load writes the rows of a backup that was checked.
func load(c *call, spool io.ReadSeeker) error {
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	statement := ""
	_, err := readBackup(untilDone{c.ctx, spool}, backupVisitor{
		table: func(table backupTable) error {
			places := make([]string, len(table.Columns))
			for i := range places {
				places[i] = "$" + strconv.Itoa(i+1)
			}
			statement = "INSERT INTO " + table.Table + " (" + strings.Join(table.Columns, ", ") + ") VALUES (" + strings.Join(places, ", ") + ")"
			return nil
		},
		row: func(table backupTable, values []any) error {
			if _, err := c.exec(statement, values...); err != nil {
				return fmt.Errorf("restoring %s: %w", table.Table, err)
			}
			return nil
		},
	})
	return err
}

// backupVisitor is called for what a backup has, in order. A row's values are
// string, int64, bool and []byte.
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

// readLines reads what was packed. It only trusts what it has checked: the sum, the
// number of rows, and the forms of names and values.
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

// backupReader reads line after line: the header, tables with rows, the end.
type backupReader struct {
	visitor backupVisitor
	header  backupHeader
	begun   bool
	ended   bool
	current backupTable
	seen    []string
	rows    int64
}

func (b *backupReader) line(line []byte, sum func() string) error {
	switch {
	case b.ended:
		return errors.New("there is something after its end")
	case !b.begun:
		b.begun = true
		return b.readHeader(line)
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

// sqlName is the form of our tables and columns; nothing else becomes part of a
// statement.
var sqlName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

func (b *backupReader) readTable(line []byte) error {
	var table backupTable
	if err := strictJSON(line, &table); err != nil {
		return fmt.Errorf("it is damaged: %w", err)
	}
	if !sqlName.MatchString(table.Table) || slices.Contains(b.seen, table.Table) || table.Table == "schema_migrations" {
		return fmt.Errorf("it is damaged: it has no right to the table %.80q", table.Table)
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

func backupValue(kind string, cell json.RawMessage) (any, error) {
	if string(cell) == "null" {
		return nil, errors.New("it has no value")
	}
	switch kind {
	case kindText:
		return decoded[string](cell)
	case kindNumber:
		return decoded[int64](cell)
	case kindFlag:
		return decoded[bool](cell)
	}
	text, err := decoded[string](cell)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(text)
}

func decoded[T any](cell json.RawMessage) (value T, err error) {
	if json.Unmarshal(cell, &value) != nil {
		return value, fmt.Errorf("it is not a %T", value) // the error would have the value
	}
	return value, nil
}

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
