package reconcile

import (
	"slices"
	"sync"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// wish is a revision of a repository, or of one of its charts, that Applications
// name.
type wish struct {
	repository, chart, revision string
}

func wishOf(of *v1alpha1.ApplicationSource) wish {
	return wish{repository: of.RepoURL, chart: of.Chart, revision: of.TargetRevision}
}

// repositories is who uses which repository, and what is known of each. All
// Applications of a repository share one look at it.
type repositories struct {
	mu     sync.Mutex
	known  map[string]*repository
	wishes map[tracking.App][]wish
}

// repository is what is known of one.
type repository struct {
	// answered is when the last look at it began that is over; zero before the
	// first.
	answered time.Time
	// failure is why that one failed; nil if it did not.
	failure error
	// tries are the failures in a row that may be gone the next time.
	tries int
	// found is the revision of each wish, or what is wrong with it.
	found map[wish]string
	users map[tracking.App]struct{}
	// waiting are the Applications that want to know of the next answer.
	waiting map[tracking.App]struct{}
}

func newRepositories() *repositories {
	return &repositories{known: map[string]*repository{}, wishes: map[tracking.App][]wish{}}
}

// use notes what an Application names.
func (r *repositories) use(id tracking.App, sources []v1alpha1.ApplicationSource) {
	wishes := make([]wish, 0, len(sources))
	for i := range sources {
		wishes = append(wishes, wishOf(&sources[i]))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.wishes[id]
	if slices.Equal(before, wishes) {
		return
	}
	r.wishes[id] = wishes
	for _, one := range wishes {
		if r.known[one.repository] == nil {
			r.known[one.repository] = &repository{
				found: map[wish]string{}, users: map[tracking.App]struct{}{}, waiting: map[tracking.App]struct{}{},
			}
		}
		r.known[one.repository].users[id] = struct{}{}
	}
	r.leave(id, before, wishes)
}

// leave drops an Application from repositories that it does not name any more.
func (r *repositories) leave(id tracking.App, before, now []wish) {
	for _, one := range before {
		still := slices.ContainsFunc(now, func(other wish) bool { return other.repository == one.repository })
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

// forget drops an Application.
func (r *repositories) forget(id tracking.App) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave(id, r.wishes[id], nil)
	delete(r.wishes, id)
}

// addresses are the repositories that are used; only those that could not be
// read if failing is set.
func (r *repositories) addresses(failing bool) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]string, 0, len(r.known))
	for address, one := range r.known {
		if !failing || one.failure != nil {
			all = append(all, address)
		}
	}
	return all
}

// answer is what is known for a wish. It is false if the repository has not been
// asked since a time, or not about that; then the Application is told when it
// has.
func (r *repositories) answer(id tracking.App, of wish, since time.Time) (asked time.Time, failure error, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.known[of.repository]
	if one == nil {
		return time.Time{}, nil, false
	}
	_, found := one.found[of]
	if one.answered.IsZero() || one.answered.Before(since) || !found && one.failure == nil {
		one.waiting[id] = struct{}{}
		return time.Time{}, nil, false
	}
	return one.answered, one.failure, true
}

// wished are the wishes of a repository.
func (r *repositories) wished(address string) []wish {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.known[address]
	if one == nil {
		return nil
	}
	var wishes []wish
	for id := range one.users {
		for _, named := range r.wishes[id] {
			if named.repository == address && !slices.Contains(wishes, named) {
				wishes = append(wishes, named)
			}
		}
	}
	return wishes
}

// note takes the result of a look at a repository that began at a time. It
// returns the Applications for which that is news.
func (r *repositories) note(address string, began time.Time, found map[wish]string, failure error) []tracking.App {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.known[address]
	if one == nil {
		return nil
	}
	away := source.IsKind(failure, source.Unreachable)
	if away && one.failure == nil && one.tries == 0 && !one.answered.IsZero() {
		// Once is nothing to tell a thousand Applications about. It is asked again
		// soon, and who waits goes on waiting.
		one.tries = 1
		return nil
	}
	news := one.waiting
	one.waiting = map[tracking.App]struct{}{}
	before, was := one.found, one.failure
	one.answered, one.failure = began, failure
	switch {
	case failure == nil:
		one.found, one.tries = found, 0
	case away:
		one.tries++
	default:
		one.tries = 0 // one that says no is not asked more often
	}
	turned := (was == nil) != (failure == nil) || was != nil && was.Error() != failure.Error()
	for id := range one.users {
		moved := failure == nil && slices.ContainsFunc(r.wishes[id], func(named wish) bool {
			old, had := before[named]
			return named.repository == address && had && old != found[named]
		})
		if turned || moved {
			news[id] = struct{}{}
		}
	}
	told := make([]tracking.App, 0, len(news))
	for id := range news {
		told = append(told, id)
	}
	return told
}

// retry is how many looks at a repository failed in a row, and false if nobody
// uses it.
func (r *repositories) retry(address string) (int, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.known[address]
	if one == nil {
		return 0, false
	}
	return one.tries, true
}
