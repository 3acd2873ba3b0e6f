package reconcile

import (
	"context"
	"errors"
	"math/rand/v2"
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
	// asked is when it was last to be looked at: answers must be newer.
	asked time.Time
	// failure is why it could not be read since; nil if it could.
	failure error
	tries   int
	// found is the revision of each wish, or what is wrong with it.
	found map[wish]string
	users map[tracking.App]struct{}
}

func newRepositories() *repositories {
	return &repositories{known: map[string]*repository{}, wishes: map[tracking.App][]wish{}}
}

// use notes what an Application names. It returns the repositories that nobody
// used before.
func (r *repositories) use(id tracking.App, sources []v1alpha1.ApplicationSource, now time.Time) []string {
	wishes := make([]wish, 0, len(sources))
	for i := range sources {
		wishes = append(wishes, wishOf(&sources[i]))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Equal(r.wishes[id], wishes) {
		return nil
	}
	r.drop(id)
	r.wishes[id] = wishes
	var fresh []string
	for _, one := range wishes {
		if r.known[one.repository] == nil {
			r.known[one.repository] = &repository{asked: now, found: map[wish]string{}, users: map[tracking.App]struct{}{}}
			fresh = append(fresh, one.repository)
		}
		r.known[one.repository].users[id] = struct{}{}
	}
	return fresh
}

// forget drops an Application.
func (r *repositories) forget(id tracking.App) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(id)
}

func (r *repositories) drop(id tracking.App) {
	for _, one := range r.wishes[id] {
		used := r.known[one.repository]
		if used == nil {
			continue
		}
		delete(used.users, id)
		if len(used.users) == 0 {
			delete(r.known, one.repository)
		}
	}
	delete(r.wishes, id)
}

// addresses are the repositories that are used.
func (r *repositories) addresses() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]string, 0, len(r.known))
	for address := range r.known {
		all = append(all, address)
	}
	return all
}

// failing are those that could not be read.
func (r *repositories) failing() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for address, one := range r.known {
		if one.failure != nil {
			all = append(all, address)
		}
	}
	return all
}

// begin is the start of a look at a repository: answers must be newer than now.
// It returns what is wished of it.
func (r *repositories) begin(address string, now time.Time) []wish {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.known[address]
	if one == nil {
		return nil
	}
	one.asked = now
	var wishes []wish
	for id := range one.users {
		for _, named := range r.wishes[id] {
			if named.repository == address && !slices.Contains(wishes, named) {
				wishes = append(wishes, named)
			}
		}
	}
	for named := range one.found {
		if !slices.Contains(wishes, named) {
			delete(one.found, named)
		}
	}
	return wishes
}

// since is how old an answer about a repository may be, and why it cannot be
// read, if that is known.
func (r *repositories) since(address string, now time.Time) (time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.known[address]
	if one == nil {
		return 0, nil
	}
	return max(0, now.Sub(one.asked)), one.failure
}

// note keeps what was found for a wish. It reports whether that is another
// revision, or another failure, than before.
func (r *repositories) note(of wish, revision string, err error) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.known[of.repository]
	if one == nil {
		return false
	}
	var fault *source.Error
	if errors.As(err, &fault) && (fault.Kind == source.Unreachable || fault.Kind == source.Denied) {
		changed = one.failure == nil || one.failure.Error() != err.Error()
		one.failure = err
		if fault.Kind == source.Unreachable {
			one.tries++ // a repository that says no is not asked more often
		}
		return changed
	}
	changed = one.failure != nil
	one.failure, one.tries = nil, 0
	if err != nil {
		revision = "error: " + err.Error()
	}
	before, had := one.found[of]
	one.found[of] = revision
	return changed || had && before != revision
}

// users are the Applications that named a wish, or any of the repository if it
// could not be read.
func (r *repositories) usersOf(address string, of *wish) []tracking.App {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.known[address]
	if one == nil {
		return nil
	}
	var users []tracking.App
	for id := range one.users {
		if of == nil || slices.Contains(r.wishes[id], *of) {
			users = append(users, id)
		}
	}
	return users
}

// tries are the failures in a row of a repository.
func (r *repositories) tries(address string) (int, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.known[address]
	if one == nil {
		return 0, false
	}
	return one.tries, true
}

// poll looks at a repository once for all Applications that use it, and has
// those looked at that name a revision that is another one now.
func (c *Controller) poll(ctx context.Context, address string) {
	began := c.Now()
	for _, named := range c.repositories.begin(address, began) {
		if ctx.Err() != nil {
			return
		}
		found, err := c.Sources.Resolve(ctx, v1alpha1.ApplicationSource{
			RepoURL: named.repository, Chart: named.chart, TargetRevision: named.revision,
		}, max(0, c.Now().Sub(began)))
		if ctx.Err() != nil {
			return
		}
		revision := ""
		if err == nil {
			revision = found.Revision
		}
		unreadable := source.IsKind(err, source.Unreachable) || source.IsKind(err, source.Denied)
		recovers := slices.Contains(c.repositories.failing(), address)
		changed := c.repositories.note(named, revision, err)
		if unreadable {
			c.Log.Warn("a repository cannot be read", "repository", address, "error", err)
		}
		switch {
		case !changed:
		case unreadable || recovers:
			c.moved(c.repositories.usersOf(address, nil))
		default:
			c.moved(c.repositories.usersOf(address, &named))
		}
		if unreadable {
			break
		}
	}
	c.schedule(address)
}

// moved has Applications looked at whose repository has something new.
func (c *Controller) moved(apps []tracking.App) {
	for _, id := range apps {
		c.queue.add(task{app: id}, becauseSource)
	}
}

// schedule says when a repository is looked at next: after the interval, and
// sooner if it could not be read.
func (c *Controller) schedule(address string) {
	tries, known := c.repositories.tries(address)
	if !known {
		c.queue.forget(task{repository: address})
		return
	}
	wait := c.Interval
	if c.Jitter > 0 {
		wait += rand.N(c.Jitter)
	}
	if tries > 0 {
		wait = min(wait, pause(tries+2))
	}
	c.queue.at(task{repository: address}, becauseTime, c.Now().Add(wait))
}
