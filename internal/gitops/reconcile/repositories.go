package reconcile

import (
	"maps"
	"slices"
	"sync"
	"time"

	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// repositoryKey is a repository as one project reads it: projects may have
// different credentials for it.
type repositoryKey struct {
	address address.Address
	project string
}

// sourceRef is a revision of a repository, or of one of its charts, that
// Applications name.
type sourceRef struct {
	repository      repositoryKey
	chart, revision string
	tagPrefix       string
	file            bool
	object          project.Object
}

// refOf is the ref that a source names.
func refOf(of project.Admitted) sourceRef {
	named := of.Source()
	return sourceRef{
		repository: repositoryKey{polledAddress(of), of.Project()}, chart: named.Chart, revision: named.TargetRevision,
		tagPrefix: named.TagPrefix, file: of.IsFile(), object: of.Object(),
	}
}

// polledAddress is what a source is polled by. Each file of Git LFS has one of its
// own: where one fails, Applications that do not need it go on.
func polledAddress(of project.Admitted) address.Address {
	if of.Object().OID != "" {
		return of.Address().Below("info/lfs/" + of.Object().OID)
	}
	return of.Address()
}

// repositories is the index of which Application uses which repository, with
// the last poll of each. All Applications of a repository share one poll, which
// sends one request for each credential. It is safe for concurrent use.
type repositories struct {
	mu    sync.Mutex
	known map[repositoryKey]*repository
	refs  map[tracking.App][]sourceRef
}

// repository is one that a project uses, with its last poll.
type repository struct {
	// polledAt is when the last poll began that has ended; zero before the
	// first. What was pushed after that may be missing.
	polledAt time.Time
	// failure is why the last poll failed; nil if it did not.
	failure error
	// failures are the polls in a row that failed in a way that may pass.
	failures int
	// revisions has the revision of each ref, or why it could not be resolved.
	revisions map[sourceRef]string
	// sources has what to resolve for each ref.
	sources map[sourceRef]project.Admitted
	users   map[tracking.App]struct{}
	// waiting are the Applications to enqueue after the next poll.
	waiting map[tracking.App]struct{}
}

// newRepositories makes an empty index.
func newRepositories() *repositories {
	return &repositories{known: map[repositoryKey]*repository{}, refs: map[tracking.App][]sourceRef{}}
}

// use records what an Application names.
func (r *repositories) use(id tracking.App, sources []project.Admitted) {
	requests := make([]sourceRef, 0, len(sources))
	for _, one := range sources {
		requests = append(requests, refOf(one))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.refs[id]
	if slices.Equal(before, requests) {
		return
	}
	r.refs[id] = requests
	for i, one := range requests {
		used := r.known[one.repository]
		if used == nil {
			used = &repository{
				revisions: map[sourceRef]string{}, sources: map[sourceRef]project.Admitted{},
				users: map[tracking.App]struct{}{}, waiting: map[tracking.App]struct{}{},
			}
			r.known[one.repository] = used
		}
		used.users[id] = struct{}{}
		used.sources[one] = sources[i].Revision()
	}
	r.leave(id, before, requests)
}

// leave drops an Application from repositories that it no longer names. The
// lock is held.
func (r *repositories) leave(id tracking.App, before, now []sourceRef) {
	for _, one := range before {
		still := slices.ContainsFunc(now, func(other sourceRef) bool { return other.repository == one.repository })
		used := r.known[one.repository]
		if still || used == nil {
			continue
		}
		delete(used.users, id)
		delete(used.waiting, id)
		if len(used.users) == 0 {
			delete(r.known, one.repository)
		}
	}
}

// forget drops an Application that was deleted or is refused.
func (r *repositories) forget(id tracking.App) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave(id, r.refs[id], nil)
	delete(r.refs, id)
}

// addresses returns the repositories in use; with failing only those whose last
// poll failed for a project.
func (r *repositories) addresses(failing bool) []address.Address {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[address.Address]struct{}{}
	for key, one := range r.known {
		if !failing || one.failure != nil {
			all[key.address] = struct{}{}
		}
	}
	return slices.Collect(maps.Keys(all))
}

// readersOf returns a repository as the projects read it that use it.
func (r *repositories) readersOf(at address.Address) []repositoryKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	var readers []repositoryKey
	for key := range r.known {
		if key.address == at {
			readers = append(readers, key)
		}
	}
	return readers
}

// lookup returns when a ref was resolved last, and the failure of that poll. It
// returns false if the repository was not polled since a time, or not for that
// ref; the Application is then enqueued after the next poll.
func (r *repositories) lookup(id tracking.App, of sourceRef, since time.Time) (requestedAt time.Time, failure error, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.known[of.repository]
	if one == nil {
		return time.Time{}, nil, false
	}
	_, found := one.revisions[of]
	if one.polledAt.IsZero() || one.polledAt.Before(since) || !found && one.failure == nil {
		one.waiting[id] = struct{}{}
		return time.Time{}, nil, false
	}
	return one.polledAt, one.failure, true
}

// refsOf returns the refs that Applications name of a repository, with what to
// resolve for each.
func (r *repositories) refsOf(key repositoryKey) map[sourceRef]project.Admitted {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.known[key]
	if one == nil {
		return nil
	}
	requests := map[sourceRef]project.Admitted{}
	for id := range one.users {
		for _, named := range r.refs[id] {
			if named.repository == key {
				requests[named] = one.sources[named]
			}
		}
	}
	one.sources = maps.Clone(requests)
	return requests
}

// update takes the result of a poll that began at a time, and returns the
// Applications for which something changed.
func (r *repositories) update(key repositoryKey, began time.Time, found map[sourceRef]string, failure error) []tracking.App {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.known[key]
	if one == nil {
		return nil
	}
	away := source.IsKind(failure, source.Unreachable)
	if away && one.failure == nil && one.failures == 0 && !one.polledAt.IsZero() {
		// One failure is not reported to a thousand Applications. It is retried
		// soon, and waiting callers go on waiting.
		one.failures = 1
		return nil
	}
	news := one.waiting
	one.waiting = map[tracking.App]struct{}{}
	before, was := one.revisions, one.failure
	one.polledAt, one.failure = began, failure
	switch {
	case failure == nil:
		one.revisions, one.failures = found, 0
	case away:
		one.failures++
	default:
		one.failures = 0 // a server that denies access is not polled more often
	}
	turned := (was == nil) != (failure == nil) || was != nil && was.Error() != failure.Error()
	for id := range one.users {
		moved := failure == nil && slices.ContainsFunc(r.refs[id], func(named sourceRef) bool {
			old, had := before[named]
			return named.repository == key && had && old != found[named]
		})
		if turned || moved {
			news[id] = struct{}{}
		}
	}
	return slices.Collect(maps.Keys(news))
}

// failures returns how many polls failed in a row, of the project with the most,
// and false if no Application uses the repository.
func (r *repositories) failures(at address.Address) (most int, used bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, one := range r.known {
		if key.address == at {
			most, used = max(most, one.failures), true
		}
	}
	return most, used
}
