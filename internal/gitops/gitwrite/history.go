package gitwrite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"slipway.dev/slipway/internal/gitops/source/objects"
	"slipway.dev/slipway/internal/gitops/source/remote"
)

// maxCommitBytes bounds a commit that is searched.
const maxCommitBytes = 1 << 20

// searchDepths are how many commits are fetched, one after the other, until enough of
// the history is there. Mostly a handful of commits came behind, and a fetch of the
// whole history of a large repository would take minutes. Without support for partial
// fetches each commit brings the files that it changed.
var searchDepths = [...]int{16, 128, 2048}

// FindCommit searches the branch for a commit whose message has a line, among those that
// came after the commit until. It returns its id, and an empty one if there is none or
// the branch does not exist. A writer that may have been killed after a push finds its
// commit again with a line of its own.
func (r *Repository) FindCommit(ctx context.Context, line, until string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	client, err := r.client()
	if err != nil {
		return "", err
	}
	advertised, s, err := r.resolveBranch(ctx, client)
	client.Close()
	if err != nil || s.tip == plumbing.ZeroHash || s.tip.String() == until {
		return "", err
	}
	for _, depth := range searchDepths {
		found, isComplete, err := r.searchCommits(ctx, advertised, commitSearch{tip: s.tip, depth: depth, line: line, until: until})
		if err != nil || found != "" || isComplete {
			return found, err
		}
	}
	return "", fmt.Errorf("%s %s has more than %d new commits on %s: the one of before cannot be searched for", r.options.Name, r.address, searchDepths[len(searchDepths)-1], s.ref)
}

// commitSearch is one attempt to find a commit.
type commitSearch struct {
	tip   objects.ID
	depth int
	// line is a whole line of the message, and until the commit that ends the search.
	line, until string
}

// searchCommits fetches the newest commits of a branch and searches them, in the order
// of their distance from the tip. isComplete is false if a commit was reached that is
// beyond the depth: older ones would have to be searched as well.
func (r *Repository) searchCommits(ctx context.Context, advertised *remote.Advertisement, of commitSearch) (found string, isComplete bool, err error) {
	set, err := r.fetchCommits(ctx, advertised, of.tip, of.depth)
	if err != nil {
		return "", false, err
	}
	isComplete = true
	// All parents of a merge are followed: our commit may have come in by one of them.
	visited, queue := map[objects.ID]bool{}, []objects.ID{of.tip}
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		if visited[id] || id.String() == of.until {
			continue
		}
		visited[id] = true
		kind, content, err := set.Read(id, maxCommitBytes)
		switch {
		case errors.Is(err, objects.ErrMissing):
			isComplete = false
			continue
		case err != nil || kind != objects.Commit:
			return "", false, r.explain(cmp.Or(err, errors.New("a commit of it cannot be read")))
		}
		parents, message := parseCommit(string(content))
		if slices.Contains(strings.Split(message, "\n"), of.line) {
			return id.String(), true, nil
		}
		queue = append(queue, parents...)
	}
	return "", isComplete, nil
}

// fetchCommits fetches the newest commits of a branch into a set of their own. The set
// of the newest commit, which changes are based on, is not extended: it stays small, and
// a search is rare.
func (r *Repository) fetchCommits(ctx context.Context, advertised *remote.Advertisement, tip objects.ID, depth int) (*objects.Set, error) {
	client, err := r.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	set, remove, err := r.newSet()
	if err != nil {
		return nil, err
	}
	defer remove()
	err = client.Fetch(ctx, advertised, remote.Want{IDs: []objects.ID{tip}, Depth: depth}, func(pack io.Reader) error {
		set, err = set.Receive(ctx, pack, r.limits())
		return err
	})
	if err != nil {
		return nil, r.explain(err)
	}
	return set, nil
}

// newSet makes an empty set of objects. Its files stay open, and are gone with the last
// one who reads them; remove takes their folder away.
func (r *Repository) newSet() (set *objects.Set, remove func(), err error) {
	if r.options.Folder != "" {
		if err := os.MkdirAll(r.options.Folder, 0o700); err != nil {
			return nil, nil, fmt.Errorf("make a folder for %s: %w", r.options.Name, err)
		}
	}
	folder, err := os.MkdirTemp(r.options.Folder, "write-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a folder for %s: %w", r.options.Name, err)
	}
	remove = func() { _ = os.RemoveAll(folder) }
	if set, err = objects.Create(folder, maxMemoryBytes); err != nil {
		remove()
		return nil, nil, fmt.Errorf("make a folder for %s: %w", r.options.Name, err)
	}
	return set, remove, nil
}

// limits bounds a fetch.
func (r *Repository) limits() objects.Limits {
	return objects.Limits{
		Bytes: cmp.Or(r.options.MaxPackBytes, maxPackBytes), ObjectBytes: maxObjectBytes, TotalBytes: maxTotalBytes, MemoryBytes: maxMemoryBytes, Objects: maxObjects,
	}
}

// parseCommit returns the parents and the message of a commit. Lines of the header that
// continue another, such as those of a signature, begin with a space and are skipped. A
// malformed id is that of no object, which ends the search there.
func parseCommit(text string) (parents []objects.ID, message string) {
	head, message, _ := strings.Cut(text, "\n\n")
	for line := range strings.SplitSeq(head, "\n") {
		if id, is := strings.CutPrefix(line, "parent "); is {
			parents = append(parents, plumbing.NewHash(id))
		}
	}
	return parents, message
}
