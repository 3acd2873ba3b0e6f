// Package filetable reads a routing table from a file, YAML or JSON, and watches it
// for changes.
//
// A file is applied as a whole or not at all: one that cannot be read, decoded or
// applied is reported once, and the table before it stays live. The file's identity,
// size and time are polled instead of watching kernel events, so it follows files
// that are replaced, links that are moved (as Kubernetes moves them for a ConfigMap)
// and files on network filesystems alike.
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

// pollPeriod is how often the file is checked.
const pollPeriod = 500 * time.Millisecond

// File is a routes file that was read and can be watched.
type File struct{ watch watched }

// Open reads a table from a file. The state of the file is taken before it is read,
// so that Follow misses no change. After an error there is no table, and Follow waits
// for a valid one.
func Open(path string) (*File, *route.Table, error) {
	file := &File{watch: watched{path: path, seen: stat(path)}}
	table, err := read(path)
	return file, table, err
}

// read reads a table. The error names the file and lists all errors of its form.
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

// decode decodes YAML, of which JSON is a subset.
func decode(r io.Reader) (*route.Table, error) {
	text, err := io.ReadAll(io.LimitReader(r, route.MaxTableBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > route.MaxTableBytes {
		return nil, fmt.Errorf("the file is larger than %d MiB", route.MaxTableBytes>>20)
	}
	documents := yaml.NewDecoder(bytes.NewReader(text))
	var content map[string]any
	switch err := documents.Decode(&content); {
	case errors.Is(err, io.EOF):
		// An empty file is an empty table, and no error.
	case err != nil:
		return nil, err
	}
	if err := documents.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has more than one document; keep one")
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

// Follow calls apply with the table whenever the file has changed, until ctx is done.
// Errors are logged, once for each change.
func (f *File) Follow(ctx context.Context, apply func(*route.Table) error, log *slog.Logger) {
	tick := time.NewTicker(pollPeriod)
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

// reload applies the file. On an error the table before it stays live.
func reload(path string, apply func(*route.Table) error, log *slog.Logger) {
	table, err := read(path)
	if err == nil {
		err = apply(table)
	}
	if err != nil {
		log.Error("reload of routes file failed, keeping the last routes", "file", path, "error", err)
		return
	}
	log.Info("reloaded routes file", "file", path, "rules", len(table.Rules))
}

// watched is a file that is polled.
type watched struct {
	path string
	seen fileState
}

// changed reports whether the file has changed since the last call.
func (w *watched) changed() bool {
	now := stat(w.path)
	if now.same(w.seen) {
		return false
	}
	w.seen = now
	return true
}

// fileState is the observed state of a file; nil when it does not exist.
type fileState struct{ info os.FileInfo }

// stat returns the current state.
func stat(path string) fileState {
	info, err := os.Stat(path)
	if err != nil {
		return fileState{}
	}
	return fileState{info}
}

func (s fileState) same(other fileState) bool {
	if s.info == nil || other.info == nil {
		return s.info == other.info
	}
	return os.SameFile(s.info, other.info) && s.info.Size() == other.info.Size() && s.info.ModTime().Equal(other.info.ModTime())
}
