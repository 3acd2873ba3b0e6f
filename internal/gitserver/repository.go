package gitserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Branch is the branch that a new repository has.
const Branch = "main"

// Create makes a bare repository with a first commit of these files, by their
// paths. A repository that is there stays as it is.
func (g Git) Create(ctx context.Context, dir string, files map[string][]byte) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A rename is all or nothing: half a repository never looks like a whole one.
	draft := dir + ".new"
	if err := os.RemoveAll(draft); err != nil {
		return fmt.Errorf("make the repository: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(draft), 0o700); err != nil {
		return fmt.Errorf("make the repository: %w", err)
	}
	parent := filepath.Dir(draft)
	if _, err := g.run(ctx, parent, nil, "init", "--quiet", "--bare", "--template=", "--initial-branch="+Branch, draft); err != nil {
		return fmt.Errorf("make the repository: %w", err)
	}
	if _, err := g.run(ctx, draft, firstCommit(files, time.Now()), "fast-import", "--quiet"); err != nil {
		return fmt.Errorf("fill the repository: %w", err)
	}
	if err := os.Rename(draft, dir); err != nil {
		return fmt.Errorf("make the repository: %w", err)
	}
	return nil
}

// firstCommit is a commit as git fast-import reads it.
func firstCommit(files map[string][]byte, at time.Time) *bytes.Buffer {
	const message = "The demo\n"
	var stream bytes.Buffer
	fmt.Fprintf(&stream, "commit refs/heads/%s\ncommitter slipway <slipway@localhost> %d +0000\ndata %d\n%s", Branch, at.Unix(), len(message), message)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&stream, "M 100644 inline %s\ndata %d\n", path, len(files[path]))
		stream.Write(files[path])
		stream.WriteString("\n")
	}
	return &stream
}

// Change is that of one branch or tag. Before is empty for a new one, After for
// one that was deleted.
type Change struct {
	Ref, Before, After string
}

// references are the commits of all branches and tags.
func (g Git) references(ctx context.Context, dir string) (map[string]string, error) {
	text, err := g.run(ctx, dir, nil, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/", "refs/tags/")
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if id, ref, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			found[ref] = id
		}
	}
	return found, nil
}

// changes compares the references before and after a push.
func changes(before, after map[string]string) []Change {
	var found []Change
	for ref, id := range after {
		if before[ref] != id {
			found = append(found, Change{Ref: ref, Before: before[ref], After: id})
		}
	}
	for ref, id := range before {
		if _, kept := after[ref]; !kept {
			found = append(found, Change{Ref: ref, Before: id})
		}
	}
	slices.SortFunc(found, func(a, b Change) int { return strings.Compare(a.Ref, b.Ref) })
	return found
}
