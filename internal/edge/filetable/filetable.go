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

// Read reads a table. The error names the file and everything that is wrong
// with its form.
func Read(path string) (*route.Table, error) {
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

// Follow puts the table in place again whenever the file changes, until ctx is
// done. The first reading is the caller's.
func Follow(ctx context.Context, path string, apply func(*route.Table) error, log *slog.Logger) {
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	follow(ctx, path, tick.C, func() {
		table, err := Read(path)
		if err == nil {
			err = apply(table)
		}
		if err != nil {
			log.Error("the routes file changed and cannot be used; the routes before it stay", "file", path, "error", err)
			return
		}
		log.Info("the routes file changed; its routes are live", "file", path, "rules", len(table.Rules))
	})
}

// follow calls changed after each tick that finds another file than before.
func follow(ctx context.Context, path string, ticks <-chan time.Time, changed func()) {
	seen := look(path)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			if now := look(path); !now.same(seen) {
				seen = now
				changed()
			}
		}
	}
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
