// Package filetable reads a routing table from a file, YAML or JSON, and
// follows its changes.
//
// It promises that a file is taken as a whole or not at all: what cannot be
// read, decoded or put in place is reported once, and the table before it goes
// on serving. It looks at the file's identity, size and time instead of asking
// the kernel for events, so it follows files that are replaced, links that are
// moved (as Kubernetes moves them for a ConfigMap) and files on network
// filesystems alike.
package filetable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"go.yaml.in/yaml/v3"

	"slipway.dev/slipway/internal/route"
)

// lookPeriod is how often the file is looked at.
const lookPeriod = 500 * time.Millisecond

// File is a routes file that was read and can be followed.
type File struct{ watch watched }

// Open reads a table from a file. The file is looked at before it is read, so
// that Follow misses no change. After an error there is no table, and the File
// can be followed until it is good.
func Open(path string) (*File, *route.Table, error) {
	file := &File{watch: watched{path: path, seen: look(path)}}
	table, err := read(path)
	return file, table, err
}

// read reads a table. The error names the file and everything that is wrong
// with its form.
func read(path string) (*route.Table, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("routes file: %w", err)
	}
	defer file.Close()
	table, err := decode(file)
	if err != nil {
		return nil, fmt.Errorf("routes file %s: %w", path, err)
	}
	return table, nil
}

// decode takes YAML, of which JSON is a part.
func decode(r io.Reader) (*route.Table, error) {
	text, err := io.ReadAll(io.LimitReader(r, route.MaxTableBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > route.MaxTableBytes {
		return nil, fmt.Errorf("it is larger than %d MiB", route.MaxTableBytes>>20)
	}
	documents := yaml.NewDecoder(bytes.NewReader(text))
	var content map[string]any
	switch err := documents.Decode(&content); {
	case errors.Is(err, io.EOF):
		// An empty file is an empty table, not a mistake.
	case err != nil:
		return nil, err
	}
	if err := documents.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document; keep one")
	}
	plain, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("a key is not text: %w", err)
	}
	if content == nil {
		plain = []byte("{}")
	}
	return route.Decode(bytes.NewReader(plain))
}

// Follow calls apply with the table whenever the file has changed, until ctx is
// done. What cannot be read or applied is logged, once for each change.
func (f *File) Follow(ctx context.Context, apply func(*route.Table) error, log *slog.Logger) {
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if f.watch.changed() {
				reload(f.watch.path, apply, log)
			}
		}
	}
}

func reload(path string, apply func(*route.Table) error, log *slog.Logger) {
	table, err := read(path)
	if err == nil {
		err = apply(table)
	}
	if err != nil {
		log.Error("the routes file changed and cannot be used; the routes before it stay", "file", path, "error", err)
		return
	}
	log.Info("the routes file changed; its routes are live", "file", path, "rules", len(table.Rules))
}

// watched is a file that is looked at now and then.
type watched struct {
	path string
	seen sight
}

// changed reports whether the file is another one than at the last look.
func (w *watched) changed() bool {
	now := look(w.path)
	if now.same(w.seen) {
		return false
	}
	w.seen = now
	return true
}

// sight is what a file looks like from outside; nil when it is not there.
type sight struct{ info os.FileInfo }

func look(path string) sight {
	info, err := os.Stat(path)
	if err != nil {
		return sight{}
	}
	return sight{info}
}

func (s sight) same(other sight) bool {
	if s.info == nil || other.info == nil {
		return s.info == other.info
	}
	return os.SameFile(s.info, other.info) && s.info.Size() == other.info.Size() && s.info.ModTime().Equal(other.info.ModTime())
}
