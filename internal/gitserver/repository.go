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

// Branch is the default branch of a new repository.
const Branch = "main"

// Create creates a bare repository with one commit of these files, by path.
// An existing repository is not changed.
func (g Git) Create(ctx context.Context, dir string, files map[string][]byte) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The rename at the end is atomic: an interrupted Create never leaves a
	// partial repository under the final name.
	draft := dir + ".new"
	if err := os.RemoveAll(draft); err != nil {
		return fmt.Errorf("create repository: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(draft), 0o700); err != nil {
		return fmt.Errorf("create repository: %w", err)
	}
	parent := filepath.Dir(draft)
	if _, err := g.run(ctx, parent, nil, "init", "--quiet", "--bare", "--template=", "--initial-branch="+Branch, draft); err != nil {
		return fmt.Errorf("create repository: %w", err)
	}
	if _, err := g.run(ctx, draft, commitStream("First files", "", files, time.Now()), "fast-import", "--quiet"); err != nil {
		return fmt.Errorf("import first commit: %w", err)
	}
	if err := os.Rename(draft, dir); err != nil {
		return fmt.Errorf("create repository: %w", err)
	}
	return nil
}

// Update commits these files to the default branch, unless it has them already.
// Other files stay. A branch that does not exist is not created: its owner has
// removed it.
func (g Git) Update(ctx context.Context, dir, message string, files map[string][]byte) error {
	tip, err := g.run(ctx, dir, nil, "for-each-ref", "--format=%(objectname)", "refs/heads/"+Branch)
	if err != nil || strings.TrimSpace(tip) == "" {
		return err
	}
	same := true
	for path, content := range files {
		// A path that does not exist fails, and is written too.
		found, err := g.run(ctx, dir, nil, "cat-file", "blob", strings.TrimSpace(tip)+":"+path)
		same = same && err == nil && found == string(content)
	}
	if same {
		return nil
	}
	_, err = g.run(ctx, dir, commitStream(message, strings.TrimSpace(tip), files, time.Now()), "fast-import", "--quiet")
	return err
}

// commitStream returns a commit in the format of git fast-import. Its parent is
// empty for the first one of a repository.
func commitStream(message, parent string, files map[string][]byte, at time.Time) *bytes.Buffer {
	var stream bytes.Buffer
	fmt.Fprintf(&stream, "commit refs/heads/%s\ncommitter slipway <slipway@localhost> %d +0000\ndata %d\n%s\n", Branch, at.Unix(), len(message), message)
	if parent != "" {
		fmt.Fprintf(&stream, "from %s\n", parent)
	}
	// The sorted order makes the commit reproducible.
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&stream, "M 100644 inline %s\ndata %d\n", path, len(files[path]))
		stream.Write(files[path])
		stream.WriteString("\n")
	}
	return &stream
}

// Change is the change of one branch or tag. Before is empty for a new one,
// After for a deleted one.
type Change struct {
	Ref, Before, After string
}

// references returns the commits of all branches and tags.
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
		if _, spool := after[ref]; !spool {
			found = append(found, Change{Ref: ref, Before: id})
		}
	}
	slices.SortFunc(found, func(a, b Change) int { return strings.Compare(a.Ref, b.Ref) })
	return found
}
