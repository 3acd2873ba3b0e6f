package source

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"time"

	"slipway.dev/slipway/internal/gitops/source/remote"
)

// maxPacks is the number of packs at which a repository is fetched again into
// an empty folder. Every fetch adds a pack, and files that are no longer used
// stay in the old ones.
const maxPacks = 24

// maxHaves bounds the commits that are sent as haves. The newest ones share the
// most with the next commit, so that older ones save nothing.
const maxHaves = 16

// depths is how far back the branches are fetched for a commit that the server
// does not give by its id.
func depths() []int { return []int{50, 500, 5000} }

// maxDeepBranches is how many branches are searched for it.
const maxDeepBranches = 100

// fetch brings a target to the disk, in turn with other fetches of the
// repository. Fetches of one repository are serialized: two at once would often
// transfer the same objects.
func (r *repository) fetch(ctx context.Context, wanted target, known *cachedRefs) error {
	select {
	case r.fetchLock <- struct{}{}:
		defer func() { <-r.fetchLock }()
	case <-ctx.Done():
		return timeoutError(ctx, r.name)
	}
	// The folder may have been replaced while this call waited for the lock.
	d, err := r.openDisk()
	if err != nil {
		return err
	}
	// Another call may have fetched it while this one waited for the lock.
	if _, found, err := wanted.in(d.objects()); (found || err != nil) && !d.damaged.Load() {
		return err
	}
	attempt := quotaAttempt{wanted, projectOf(ctx), r.sources.quota.limitOf(projectOf(ctx))}
	if r.refused.quotaAttempt == attempt && time.Since(r.refused.at) < refusedAge {
		return r.refused.err
	}
	r.reception = r.sources.quota.begin(attempt.project, r.entry)
	defer func() { r.reception.end(r.entry, r.loadedDisk().objects().Bytes()) }()
	err = r.fetchTarget(ctx, wanted, known)
	if errors.Is(err, errNoRoom) && r.loadedDisk().objects().Packs() > 0 {
		// The older commits of the repository take the room that this one needs.
		if err := r.clearDisk(); err != nil {
			return err
		}
		err = r.fetchTarget(ctx, wanted, known)
	}
	if errors.Is(err, errNoRoom) {
		r.refused = refusedFetch{attempt, time.Now(), err}
	}
	return err
}

// quotaAttempt is a fetch of a target with the limit of a project.
type quotaAttempt struct {
	wanted  target
	project string
	limit   int64
}

// refusedFetch is an attempt that exceeded the limit. It is not repeated for
// refusedAge: each time it evicts everything else of the project.
type refusedFetch struct {
	quotaAttempt
	at  time.Time
	err error
}

// refusedAge is how long a refusal is returned to callers without a fetch.
const refusedAge = 10 * time.Minute

// clearDisk begins with an empty folder, before the old one is replaced.
func (r *repository) clearDisk() error {
	old := r.loadedDisk()
	fresh, err := r.createFolder()
	if err != nil {
		return err
	}
	r.setDisk(fresh)
	r.reception.restart()
	return old.remove()
}

// fetchTarget brings a target to the disk. The caller holds fetchLock, as for all
// functions below that change the disk.
func (r *repository) fetchTarget(ctx context.Context, wanted target, known *cachedRefs) error {
	id := wanted.id
	if wanted.prefix != "" {
		var found bool
		var err error
		if id, found, err = advertised(wanted.prefix, known); err != nil {
			return err
		} else if !found {
			return r.fetchDeep(ctx, wanted, known)
		}
	}
	// The cheap way: exactly one commit, without history.
	if known.CanFetch(id) {
		err := r.fetchCommit(ctx, id, known)
		if IsKind(err, NotFound) && known.Tips[id] {
			return &Error{Kind: Unreachable, Repository: r.name, Message: "a branch moved while it was fetched", Err: errMoved}
		}
		return err
	}
	return r.fetchDeep(ctx, wanted, known)
}

// advertised finds the one ref tip whose id starts with a prefix.
func advertised(prefix string, known *cachedRefs) (remote.ID, bool, error) {
	var found remote.ID
	count := 0
	for id := range known.Tips {
		if strings.HasPrefix(id.String(), prefix) {
			found = id
			count++
		}
	}
	if count > 1 {
		return found, false, errorf(Ambiguous, "", "several commits begin with %s: write more digits", prefix)
	}
	return found, count == 1, nil
}

// fetchCommit fetches one commit without its history: of it what is new, or all
// of it into a new folder where that is time.
func (r *repository) fetchCommit(ctx context.Context, id remote.ID, known *cachedRefs) error {
	d := r.loadedDisk()
	if d.needsRefetch() {
		return r.refetch(ctx, id, known)
	}
	want := remote.Want{IDs: []remote.ID{id}, Depth: 1, Haves: d.haves(maxHaves)}
	err := r.exchangePack(ctx, d, known, want)
	if isDamage(err) && len(want.Haves) > 0 {
		// The server built the pack on a have whose objects are not on the
		// disk.
		return r.refetch(ctx, id, known)
	}
	return err
}

// refetch fetches into a new folder, and what was used last with it. Until it
// is complete the old one stays.
func (r *repository) refetch(ctx context.Context, id remote.ID, known *cachedRefs) error {
	old := r.loadedDisk()
	fresh, err := r.createFolder()
	if err != nil {
		return err
	}
	want := remote.Want{IDs: []remote.ID{id}, Depth: 1}
	// Other Applications use other revisions of the repository. Without these,
	// each of them would cost a fetch of its own right after this one.
	for _, other := range old.recent(time.Hour) {
		if other != id && known.Tips[other] {
			want.IDs = append(want.IDs, other)
		}
	}
	if err := r.exchangePack(ctx, fresh, known, want); err != nil {
		// The old folder stays in use.
		return errors.Join(err, fresh.remove())
	}
	r.setDisk(fresh)
	r.sources.options.Log.Debug("fetched a repository again from scratch", slog.String("repository", r.name), slog.Int("packs", old.objects().Packs()))
	return old.remove()
}

// fetchDeep fetches branches with their history until the commit is among it.
// No haves are sent, so that each pack is complete by itself.
func (r *repository) fetchDeep(ctx context.Context, wanted target, known *cachedRefs) error {
	tips := deepTips(known)
	if len(tips) == 0 {
		return errorf(NotFound, r.name, "it has no branches")
	}
	if r.loadedDisk().needsRefetch() {
		if err := r.refetch(ctx, tips[0], known); err != nil {
			return err
		}
	}
	// Each round goes ten times as far back, so that the cost stays in
	// proportion to the depth of the commit.
	all := depths()
	for _, depth := range all {
		d := r.loadedDisk()
		if err := r.exchangePack(ctx, d, known, remote.Want{IDs: tips, Depth: depth}); err != nil {
			return err
		}
		if _, found, err := wanted.in(d.objects()); found || err != nil {
			return err
		}
		// Without the capability the first pack has the whole history already.
		if !known.Can("shallow") {
			break
		}
	}
	name := wanted.prefix
	if name == "" {
		name = wanted.id.String()
	}
	return errorf(NotFound, r.name, "there is no commit %s among the last %d of its branches, and the server does not give others by their ids: name a branch or a tag", name, all[len(all)-1])
}

// deepTips returns the branches to search, HEAD first: most commits that users
// name are on the default branch.
func deepTips(known *cachedRefs) []remote.ID {
	var tips []remote.ID
	seen := map[remote.ID]bool{}
	add := func(id remote.ID) {
		if !seen[id] && len(tips) < maxDeepBranches {
			seen[id] = true
			tips = append(tips, id)
		}
	}
	if head, found := known.Refs["HEAD"]; found {
		add(head)
	}
	for name, id := range known.Refs {
		if strings.HasPrefix(name, heads) {
			add(id)
		}
	}
	return tips
}

// exchangePack requests a pack and adds it to the folder. The pack streams to
// the disk; it is never in memory as a whole.
func (r *repository) exchangePack(ctx context.Context, d *disk, known *cachedRefs, want remote.Want) error {
	return r.sources.exchange(ctx, "pack", r.name, func(ctx context.Context) (int64, error) {
		client, err := r.client(ctx)
		if err != nil {
			return 0, err
		}
		defer client.Close()
		var counted countingReader
		err = client.Fetch(ctx, known.Advertisement, want, func(pack io.Reader) error {
			counted.from = r.reception.reader(pack)
			set, err := d.objects().Receive(ctx, &counted, r.sources.options.Limits.objects())
			if err != nil {
				return err
			}
			return d.add(set, want.IDs)
		})
		return counted.count, err
	})
}

// countingReader counts for metrics.
type countingReader struct {
	from  io.Reader
	count int64
}

// Read counts what is read.
func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.count += int64(n)
	return n, err
}
