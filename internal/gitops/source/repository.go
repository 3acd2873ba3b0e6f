package source

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/objects"
	"slipway.dev/slipway/internal/gitops/source/remote"
)

// repository is one Git repository: its requests for refs, and the commits on the
// disk.
//
// At most one request for refs is in flight; all callers wait for it. Fetches
// are serialized by fetchLock. Neither is done while mu is held.
type repository struct {
	sources *Sources
	key     cacheKey
	address address.Address // as it was written first
	name    string
	folder  string
	entry   string // the name of the folder in the quota

	fetchLock chan struct{} // holds one: the right to fetch, and to change the disk
	// The holder of fetchLock has what it receives, and the last target that did
	// not fit.
	reception *reception
	refused   refusedFetch

	mu         sync.Mutex
	failed     *refsRequest // the last request, if it failed
	inFlight   *refsRequest
	generation int // how often it was invalidated
	disk       *disk
	lastUsed   time.Time
}

// cachedRefs is the last ref advertisement of the server, with its age.
type cachedRefs struct {
	*remote.Advertisement
	at         time.Time
	generation int
}

// How much memory the refs of all repositories take. Those that were not used for
// longest are dropped, and requested again when they are needed. One repository may
// have half: a larger list is not kept.
const maxRefsBytes = 128 << 20

// bytes estimates the size in memory, with all maps.
func (c *cachedRefs) bytes() (size int64) {
	size = int64(len(c.Tags)) * 60
	for name := range c.Refs {
		size += int64(len(name)) + 120
	}
	return size
}

// refsRequest is a request for the refs that is under way, or was.
type refsRequest struct {
	done       chan struct{}
	generation int
	at         time.Time
	refs       *cachedRefs
	err        error
}

// failureAge is how long a failed request for refs is returned to callers that
// accept cached refs. It keeps a thousand Applications of one unreachable
// server from waiting for a timeout each.
const failureAge = 2 * time.Second

// newRepository returns a repository that nothing was read of yet.
func newRepository(s *Sources, key cacheKey, at address.Address) *repository {
	entry := gitFolder + "/" + key.folder()
	return &repository{
		sources: s, key: key, address: at, name: at.String(),
		folder: filepath.Join(s.options.Folder, entry), entry: entry,
		fetchLock: make(chan struct{}, 1),
	}
}

// client connects with the credential of the repository's key.
func (r *repository) client(ctx context.Context) (*remote.Client, error) {
	access, err := r.sources.access(ctx, r.key, r.address.HostPort())
	if err != nil {
		return nil, err
	}
	return remote.NewClient(r.address, access, r.sources.options.Limits.Refs)
}

// touch marks the repository as used, which keeps it from being swept.
func (r *repository) touch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastUsed = time.Now()
}

// invalidate makes cached refs, and the request that is in flight, too old for
// every caller: after a push, refs that were requested before it prove nothing.
func (r *repository) invalidate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.generation++
}

// resolve returns the commit that a revision names, of versions among the tags
// with a prefix, and its files. Where a
// branch moves between the request for refs and the fetch, it resolves once
// more with fresh refs.
func (r *repository) resolve(ctx context.Context, revision, tagPrefix string, maxAge time.Duration) (*Commit, *commitStore, error) {
	if id, isFull := remote.ParseID(revision); isFull {
		d, err := r.ensureDisk(ctx)
		if err != nil {
			return nil, nil, toError(err, r.name)
		}
		// A full id cannot move, so that a commit on the disk is the result.
		if commit, store, err := r.load(d, id); err == nil && !d.damaged.Load() {
			return commit, store, nil
		}
	}
	commit, store, err := r.resolveOnce(ctx, revision, tagPrefix, maxAge)
	if errors.Is(err, errMoved) {
		commit, store, err = r.resolveOnce(ctx, revision, tagPrefix, 0)
	}
	if err != nil {
		return nil, nil, toError(err, r.name)
	}
	return commit, store, nil
}

// errMoved is returned for a commit that was advertised and is gone when it is
// fetched.
var errMoved = errors.New("a branch moved")

// resolveOnce resolves a revision with one advertisement.
func (r *repository) resolveOnce(ctx context.Context, revision, tagPrefix string, maxAge time.Duration) (*Commit, *commitStore, error) {
	known, err := r.refsFor(ctx, revision, maxAge)
	if err != nil {
		return nil, nil, err
	}
	found, problem := findRevision(revision, tagPrefix, known.Refs)
	if problem != nil {
		return nil, nil, problem
	}
	return r.ensureCommit(ctx, found, known)
}

// refsFor is the refs for a revision. For a full id they are needed only to
// learn the capabilities of the server, and may be old.
func (r *repository) refsFor(ctx context.Context, revision string, maxAge time.Duration) (*cachedRefs, error) {
	id, isFull := remote.ParseID(revision)
	// An hour is safe: the refs only show whether the server allows a want for
	// this id.
	if isFull && maxAge > 0 {
		known, err := r.refs(ctx, max(maxAge, time.Hour))
		if err != nil || known.CanFetch(id) {
			return known, err
		}
	}
	return r.refs(ctx, maxAge)
}

// ensureCommit gives what a revision turned out to be, and fetches it if it is
// not there. Where that is damaged, it is fetched once more. Two fetches are
// the bound: after damage the second one starts with an empty folder, and if
// that is damaged too, the server is the cause.
func (r *repository) ensureCommit(ctx context.Context, wanted target, known *cachedRefs) (*Commit, *commitStore, error) {
	const fetches = 2
	var last error = errorf(Unreachable, r.name, "the server did not send the commit")
	for attempt := range fetches + 1 {
		// Each round starts with the current folder: a refetch of another
		// caller may have replaced it.
		d, err := r.ensureDisk(ctx)
		if err != nil {
			return nil, nil, err
		}
		id, found, err := wanted.in(d.objects())
		if found && !d.damaged.Load() {
			var commit *Commit
			var store *commitStore
			if commit, store, err = r.load(d, id); err == nil {
				return commit, store, nil
			}
		}
		if err != nil {
			if last = err; !isDamage(err) {
				break
			}
			d.damaged.Store(true)
		}
		if attempt == fetches {
			break
		}
		if err := r.fetch(ctx, wanted, known); err != nil {
			if last = err; !isDamage(err) {
				break
			}
		}
	}
	return nil, nil, last
}

// isDamage reports whether an error means that the folder on the disk cannot be
// used, and that a fetch into an empty one helps.
func isDamage(err error) bool {
	return errors.Is(err, objects.ErrCorrupt) || errors.Is(err, objects.ErrMissing) || errors.Is(err, objects.ErrBase)
}

// in looks for the target on the disk.
func (t target) in(set *objects.Set) (objects.ID, bool, error) {
	if t.prefix == "" {
		return t.id, set.Has(t.id), nil
	}
	found, err := set.StartingWith(t.prefix)
	switch {
	case err != nil || len(found) == 0:
		return objects.ID{}, false, err
	case len(found) > 1:
		return objects.ID{}, false, errorf(Ambiguous, "", "several commits begin with %s: write more digits", t.prefix)
	}
	return found[0], true, nil
}

// load reads a commit that is there and prepares its files. The Store keeps the
// Set of this moment, so that a later refetch does not change what a render
// reads.
func (r *repository) load(d *disk, id objects.ID) (*Commit, *commitStore, error) {
	set := d.objects()
	commit, err := readCommit(set, id)
	if err == nil && !set.Has(commit.tree) {
		err = objects.ErrMissing
	}
	if err != nil {
		return nil, nil, err
	}
	d.markUsed(id)
	store := &commitStore{set: set, root: commit.tree, trees: r.sources.trees, owner: r.folder, onDamage: func() { d.damaged.Store(true) }}
	return &commit.Commit, store, nil
}

// refs returns the refs of the server, cached if they are younger than maxAge.
// A request that fails leaves the cached refs in place for callers that accept
// older ones.
func (r *repository) refs(ctx context.Context, maxAge time.Duration) (*cachedRefs, error) {
	q, known, err := r.request(maxAge, projectOf(ctx))
	if q == nil {
		return known, err
	}
	select {
	case <-q.done:
		return q.refs, q.err
	case <-ctx.Done():
		return nil, timeoutError(ctx, r.name)
	}
}

// request returns cached refs, or the request to wait for. It starts one if none of
// the current generation is in flight. The order matters: a request in flight
// goes before the cached failure, because its result is newer. Callers with a
// maxAge of 0 skip that failure.
func (r *repository) request(maxAge time.Duration, project string) (*refsRequest, *cachedRefs, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if known, found := r.sources.refs.Get(r); found && maxAge > 0 && known.generation == r.generation && now.Sub(known.at) <= maxAge {
		return nil, known, nil
	}
	if q := r.inFlight; q != nil && q.generation == r.generation {
		return q, nil, nil
	}
	if q := r.failed; maxAge > 0 && q != nil && q.generation == r.generation && now.Sub(q.at) < failureAge {
		return nil, nil, q.err
	}
	q := &refsRequest{done: make(chan struct{}), generation: r.generation, at: now}
	if !r.sources.begin(func() { r.requestRefs(withProject(r.sources.ctx, project), q) }) {
		return nil, nil, errorf(Unreachable, r.name, "the program is ending")
	}
	r.inFlight = q
	return q, nil, nil
}

// requestRefs requests the refs. It runs in a goroutine of its own with the
// context of Sources: a caller that gives up waiting does not cancel it for the
// others. The waiters are woken last, after the caches were updated. An older
// response never replaces a newer one.
func (r *repository) requestRefs(ctx context.Context, q *refsRequest) {
	err := r.sources.exchange(ctx, "refs", r.name, func(ctx context.Context) (int64, error) {
		client, err := r.client(ctx)
		if err != nil {
			return 0, err
		}
		defer client.Close()
		advertised, err := client.Refs(ctx)
		// The refs are as old as the request for them, not as the response.
		q.refs = &cachedRefs{Advertisement: advertised, at: q.at, generation: q.generation}
		return 0, err
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		q.refs, q.err, q.at = nil, err, time.Now()
		r.failed = q
	} else {
		r.failed = nil
		if known, found := r.sources.refs.Get(r); !found || !q.refs.at.Before(known.at) {
			r.sources.refs.Put(r, q.refs, q.refs.bytes())
		}
	}
	if r.inFlight == q {
		r.inFlight = nil
	}
	close(q.done)
}
