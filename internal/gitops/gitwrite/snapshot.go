package gitwrite

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"slipway.dev/slipway/internal/gitops/source/objects"
	"slipway.dev/slipway/internal/gitops/source/remote"
)

// Limits of a fetch: one commit without history, of files that people write.
const (
	maxRefs        = 20_000
	maxPackBytes   = 128 << 20
	maxObjectBytes = 32 << 20
	maxTotalBytes  = 1 << 30
	maxMemoryBytes = 64 << 20
	maxObjects     = 500_000
)

// firstBranch is the branch of an empty repository if none is named.
const firstBranch = "main"

// branchPrefix is the namespace of branches.
const branchPrefix = "refs/heads/"

// snapshot is a branch at one moment.
type snapshot struct {
	ref string
	// tip is the commit of the branch; zero if the branch does not exist.
	tip objects.ID
	// base is the commit that a change is based on; zero in an empty
	// repository. It differs from tip for a branch that does not exist.
	base objects.ID
	set  *objects.Set // nil in an empty repository
}

// resolveBranch reads the commit of the branch without fetching it.
func (r *Repository) resolveBranch(ctx context.Context, client *remote.Client) (*remote.Advertisement, snapshot, error) {
	advertised, err := client.Refs(ctx)
	if err != nil {
		return nil, snapshot{}, r.explain(err)
	}
	s := snapshot{ref: branchPrefix + r.options.Branch}
	if r.options.Branch == "" {
		s.ref = defaultBranch(advertised)
	}
	s.tip = advertised.Refs[s.ref]
	s.base = s.tip
	if s.base != plumbing.ZeroHash {
		return advertised, s, nil
	}
	// A new branch begins where people would begin it, or at the branch that was
	// named for it.
	start := defaultBranch(advertised)
	if r.options.Base != "" {
		start = branchPrefix + r.options.Base
	}
	s.base = advertised.Refs[start]
	if r.options.Base != "" && s.base == plumbing.ZeroHash {
		return nil, snapshot{}, fmt.Errorf("%s %s has no branch %s", r.options.Name, r.address, r.options.Base)
	}
	return advertised, s, nil
}

// defaultBranch returns the branch of HEAD. An old server advertises only its
// commit.
func defaultBranch(advertised *remote.Advertisement) string {
	head, candidates := advertised.Refs["HEAD"], []string{}
	for _, ref := range slices.Sorted(maps.Keys(advertised.Refs)) {
		if advertised.Can("symref=HEAD:" + ref) {
			return ref
		}
		if strings.HasPrefix(ref, branchPrefix) && head != plumbing.ZeroHash && advertised.Refs[ref] == head {
			candidates = append(candidates, ref)
		}
	}
	for _, usual := range []string{branchPrefix + "main", branchPrefix + "master"} {
		if slices.Contains(candidates, usual) {
			return usual
		}
	}
	if len(candidates) > 0 {
		return candidates[0]
	}
	return branchPrefix + firstBranch
}

// fetch fetches the commit that a change is based on.
func (r *Repository) fetch(ctx context.Context) (snapshot, error) {
	client, err := r.client()
	if err != nil {
		return snapshot{}, err
	}
	defer client.Close()
	advertised, s, err := r.resolveBranch(ctx, client)
	if err != nil || s.base == plumbing.ZeroHash {
		return s, err
	}
	if last := r.last.Load(); last != nil && last.base == s.base {
		s.set = last.set
		return s, nil
	}
	set, remove, err := r.newSet()
	if err != nil {
		return s, err
	}
	defer remove()
	err = client.Fetch(ctx, advertised, remote.Want{IDs: []objects.ID{s.base}, Depth: 1}, func(pack io.Reader) error {
		set, err = set.Receive(ctx, pack, r.limits())
		return err
	})
	if err != nil {
		return s, r.explain(err)
	}
	s.set = set
	r.last.Store(&s)
	return s, nil
}

// files returns the content of the snapshot, for one change.
func (r *Repository) files(s snapshot) (Files, error) {
	root := newFolder()
	if s.set != nil {
		kind, content, err := s.set.Read(s.base, maxTreeBytes)
		if err != nil {
			return Files{}, r.explain(err)
		}
		tree, err := treeOf(kind, content)
		if err != nil {
			return Files{}, r.explain(err)
		}
		root = &folder{id: tree, from: s.set}
	}
	return Files{root: root, prefix: r.options.Path, name: r.options.Name}, nil
}
