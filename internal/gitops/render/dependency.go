package render

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/tree"
)

// MaxDependencies bounds what one request reads of elsewhere. It also ends
// charts that depend on ever more charts.
const MaxDependencies = 64

// maxDependencyBytes bounds how much of unpacked charts is in memory for one
// request.
const maxDependencyBytes = 128 << 20

// Dependency names files of elsewhere that a source needs: a chart of a Helm
// repository or a registry, a Git repository at a revision, one file at an
// address, a file that Git LFS keeps, or what a config management plugin
// generates.
type Dependency = job.Dependency

// DependencyFiles is a dependency with its files.
type DependencyFiles struct {
	Dependency
	Store tree.Store
}

// ErrPending is the error of Request.Resolve for a dependency that is being
// fetched.
var ErrPending = errors.New("it is being fetched")

// Render renders a request. Where a source needs what the request does not
// have, the worker reports all of it and is released; what it needs is resolved
// and the render is repeated. So a worker never waits for a server, and the time
// of a fetch is not that of a render. An error is an *[Error], that of
// Request.Resolve or that of the context.
func (r *Renderer) Render(ctx context.Context, request Request) (*Result, error) {
	request.Dependencies = slices.Clip(request.Dependencies) // the caller's array stays as it is
	for {
		if err := request.checkBytes(); err != nil {
			return nil, err
		}
		result, err := r.renderOnce(ctx, &request)
		missing := missingOf(err)
		if missing == nil || request.Resolve == nil {
			return result, err
		}
		if err := request.resolve(ctx, missing); err != nil {
			return nil, err
		}
	}
}

// missingOf is the dependencies that a render lacked; nil after other errors.
func missingOf(err error) []job.MissingDependency {
	if problem, ok := errors.AsType[*Error](err); ok {
		return problem.missing
	}
	return nil
}

// resolve adds dependencies. The worker is untrusted: what it reports is bounded
// here, and Resolve decides whether the project allows it.
func (r *Request) resolve(ctx context.Context, missing []job.MissingDependency) error {
	var pending error
	before, count := len(r.Dependencies), len(r.Dependencies)
	for _, one := range missing {
		by := job.Shorten(one.By)
		if r.has(one.Dependency) {
			continue // two sources need it
		}
		// Those that are being fetched count too, or a chart could request any
		// number of them.
		if count++; count > MaxDependencies {
			return &Error{Kind: Refused, Source: -1, Message: fmt.Sprintf("%s, and more than %d charts, repositories and files of elsewhere are not read for one Application: "+
				"put some of them into the repository, or use several Applications", by, MaxDependencies)}
		}
		store, err := r.Resolve(ctx, one.Dependency)
		switch {
		case errors.Is(err, ErrPending):
			pending = err
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", by, err)
		}
		r.Dependencies = append(r.Dependencies, DependencyFiles{one.Dependency, store})
	}
	if pending == nil && len(r.Dependencies) == before {
		return &Error{Kind: WorkerDied, Source: -1, Message: "the worker needs what it has; it is tried again"}
	}
	return pending
}

// checkBytes refuses more dependencies than fit into memory.
func (r *Request) checkBytes() error {
	size := int64(0)
	for _, one := range r.Dependencies {
		if size += tree.BytesInMemory(one.Store); size > maxDependencyBytes {
			return &Error{Kind: Refused, Source: -1, Message: fmt.Sprintf("the charts and files that the sources depend on have more than %d bytes together, with %s of %s: use several Applications",
				maxDependencyBytes, cmp.Or(one.Chart, "a file"), one.RepoURL)}
		}
	}
	return nil
}

// has reports whether a dependency is there.
func (r *Request) has(wanted Dependency) bool { return r.storeOf(wanted) != nil }

// storeOf is the files of a dependency; nil if the request does not have it.
func (r *Request) storeOf(wanted Dependency) tree.Store {
	for i := range r.Dependencies {
		if r.Dependencies[i].Dependency == wanted {
			return r.Dependencies[i].Store
		}
	}
	return nil
}

// dependencyReads is what was read of a dependency.
type dependencyReads struct {
	Dependency
	reads tree.Reads
}

// same reports whether a request has the dependency with the same content.
func (d *dependencyReads) same(request *Request) bool {
	store := request.storeOf(d.Dependency)
	return store != nil && d.reads.Same(store)
}
