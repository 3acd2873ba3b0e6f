// Package lastgood keeps the last table that was served on disk, so that an
// edge that starts while its source of routes is away serves what it served
// before.
//
// It promises that a table is on disk as a whole or not at all: a new file is
// written beside the old one, synced, and takes its place with one rename.
// A digest at the end of the file tells a file that was cut or edited. The
// format is that of a routes file, one element of the table on a line, so it
// can be read by people and be served with providers.file.filename.
//
// The file holds private keys and decides where traffic goes. So it refuses a
// directory or a file that belongs to another user or that others can read or
// write, and it never follows a link out of its directory. It does not judge
// the table: whoever applies it does.
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
	// tempAge is when a draft counts as left behind by a process that died.
	tempAge = 10 * time.Minute
)

// ErrNone is what Load fails with when nothing has been saved. It is
// fs.ErrNotExist too.
var ErrNone = fmt.Errorf("there is no last good table: %w", fs.ErrNotExist)

// ErrDamaged is what Load fails with when the file is not what was saved.
var ErrDamaged = errors.New("the file was cut or edited after it was written; remove it, or serve it with providers.file.filename if the edit was meant")

// Save puts the table on disk, with its secrets. The entry points are left out:
// they are options of the edge, and may be others when it starts again. The
// directory is made if it is not there.
func Save(dir string, table *route.Table) error {
	if err := save(dir, table); err != nil {
		return fmt.Errorf("save the last good table in %s: %w", dir, err)
	}
	return nil
}

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
			_ = root.Remove(name) // the error says what matters
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

// write writes head, table and digest, and closes nothing.
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

// Load reads the table that was last saved. It fails with ErrNone when there is
// none, with ErrDamaged when the file is not what was saved, and otherwise when
// others than this user could have written or read it.
func Load(dir string) (*route.Table, error) {
	table, err := load(dir)
	if err != nil {
		return nil, fmt.Errorf("load the last good table from %s: %w", dir, err)
	}
	return table, nil
}

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

// read gives the content of the file. It is opened without waiting, because
// opening a named pipe would wait for its other end.
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
	const most = route.MaxTableBytes + 1<<20
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("%s is larger than %d MiB", FileName, most>>20)
	}
	return text, err
}

// verify gives the part of a file between its first and its last line, if the
// digest in the last line is that of all before it.
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
