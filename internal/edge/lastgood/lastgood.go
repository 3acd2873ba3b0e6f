// Package lastgood saves the last table that was served on disk, so that an
// edge that starts while its source of routes is unavailable serves the same
// routes as before.
//
// It promises that a table is written atomically: a new file is written beside
// the old one, synced, and replaces it with one rename. A digest at the end of
// the file detects a file that was truncated or edited. The format is that of a
// routes file, with one element of the table on a line, so it can be read by
// people and served with providers.file.filename.
//
// The file has private keys and decides where traffic goes. So a directory or
// file that belongs to another user, or that others can read or write, is
// refused, and links out of the directory are never followed. The package does
// not validate the table: the edge does when it applies it.
package lastgood

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"slipway.dev/slipway/internal/route"
)

const (
	// FileName is the name of the file in its directory.
	FileName = "last-good.yaml"

	headLine   = "# The last good routing table of slipway edge, with private keys. It is written by the edge.\n"
	digestMark = "# sha256 "

	tempPrefix = ".draft-"
	// tempAge is the age of a temporary file that a killed process must have
	// left behind.
	tempAge = 10 * time.Minute
)

// ErrNone is the error of Load when no table was saved. It is fs.ErrNotExist
// too.
var ErrNone = fmt.Errorf("there is no last-good table: %w", fs.ErrNotExist)

// ErrDamaged is the error of Load when the file is not what was saved.
var ErrDamaged = errors.New("the file was truncated or edited after it was written; remove it, or serve it with providers.file.filename if the edit was intended")

// Save writes the table to disk, with its secrets. The entry points are left
// out: they are options of the edge, and may be others when it starts again.
// The directory is created if it is missing.
func Save(dir string, table *route.Table) error {
	if err := save(dir, table); err != nil {
		return fmt.Errorf("save the last-good table in %s: %w", dir, err)
	}
	return nil
}

// save writes a temporary file and renames it. A temporary file of a failed
// save is removed, and those of killed processes are removed here later.
func save(dir string, table *route.Table) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := open(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	removeTemps(root, time.Now().Add(-tempAge))
	name := tempPrefix + randomName()
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = root.Remove(name) // err is what the caller needs
		}
	}()
	if err = write(file, table); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err = root.Rename(name, FileName); err != nil {
		return err
	}
	return syncDir(root)
}

// write writes the head line, the table and the digest.
func write(w io.Writer, table *route.Table) error {
	sum := sha256.New()
	buffered := bufio.NewWriterSize(io.MultiWriter(w, sum), 64<<10)
	saved := *table
	saved.EntryPoints = nil
	lines := &elementLines{w: buffered}
	_, err := buffered.WriteString(headLine)
	if err == nil {
		err = route.Encode(lines, &saved)
	}
	if err = errors.Join(err, buffered.Flush()); err != nil {
		return err
	}
	_, err = io.WriteString(w, digestMark+digestOf(sum)+"\n")
	return err
}

func digestOf(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)) }

// Load reads the table that was saved last. It fails with ErrNone when there is
// none, with ErrDamaged when the file is not what was saved, and with another
// error when other users could have written or read it.
func Load(dir string) (*route.Table, error) {
	table, err := load(dir)
	if err != nil {
		return nil, fmt.Errorf("load the last-good table from %s: %w", dir, err)
	}
	return table, nil
}

// load checks the digest before it decodes, so that a truncated file is
// reported as damaged and not as a syntax error.
func load(dir string) (*route.Table, error) {
	root, err := open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	text, err := read(root)
	if err != nil {
		return nil, err
	}
	body, ok := verify(text)
	if !ok {
		return nil, ErrDamaged
	}
	return route.Decode(bytes.NewReader(body))
}

// read returns the content of the file, which has to be a regular, private one.
func read(root *os.Root) ([]byte, error) {
	file, err := root.OpenFile(FileName, os.O_RDONLY|nonBlocking, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file; remove it", FileName)
	}
	if err := checkPrivate(info, "file "+FileName, "chmod 600"); err != nil {
		return nil, err
	}
	// The line breaks and the digest come on top of the table.
	const most = route.MaxTableBytes + 1<<20
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("%s is larger than %d MiB", FileName, most>>20)
	}
	return text, err
}

// verify returns the part of a file between its first and its last line, if the
// digest in the last line is that of everything before it.
func verify(text []byte) ([]byte, bool) {
	rest, ok := bytes.CutSuffix(text, []byte("\n"))
	if !ok {
		return nil, false
	}
	at := bytes.LastIndexByte(rest, '\n') + 1
	digest, ok := strings.CutPrefix(string(rest[at:]), digestMark)
	if !ok {
		return nil, false
	}
	sum := sha256.New()
	sum.Write(text[:at])
	if digest != digestOf(sum) {
		return nil, false
	}
	return bytes.CutPrefix(text[:at], []byte(headLine))
}
