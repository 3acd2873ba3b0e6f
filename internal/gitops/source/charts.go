package source

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/Masterminds/semver/v3"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/cache"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/helmindex"
	"slipway.dev/slipway/internal/gitops/tree"
)

// charts finds charts in Helm repositories and OCI registries. Requests to
// servers are never sent while mu is held; concurrent ones for the same thing
// are merged by flights.
type charts struct {
	sources *Sources
	cache   *archiveCache
	flights singleflight.Group

	mu           sync.Mutex
	repositories *cache.LRU[chartKey, *chartRepository]
	serial       int
	// versions are those of charts in Helm repositories.
	versions *cache.LRU[versionsKey, []helmindex.Entry]
	// files are single files, and no charts.
	files *cache.LRU[cacheKey, *cachedFile]
	// failedArchives are those that are not requested for a while.
	failedArchives *cache.LRU[archiveKey, failedArchive]
}

// How much of repositories and registries is kept in memory. A tenant may name
// any number of them.
const (
	maxRepositories     = 1000
	maxRepositoryBytes  = 16 << 20
	maxVersionsBytes    = 8 << 20
	repositoryBaseBytes = 1 << 10
)

// chartKey is a Helm repository, or one repository of a registry by the name of
// its chart.
type chartKey struct {
	cacheKey
	chart string
}

// chartRepository is the cached state of a Helm repository, or of one
// repository in an OCI registry. The mutex of charts protects it. One that was
// invalidated or evicted is not used for new calls: what a request in flight
// adds to it is not seen by them.
type chartRepository struct {
	serial int // unique, for the keys of flights

	index   helmIndex            // of a Helm repository
	tags    []string             // of a registry
	tagsAt  time.Time            //
	digests map[string]tagDigest // of a registry, by tag
}

// bytes estimates the size in memory.
func (r *chartRepository) bytes() int64 {
	size := repositoryBaseBytes + len(r.digests)*256
	for _, tag := range r.tags {
		size += len(tag) + 16
	}
	return int64(size)
}

// tagDigest is the artifact that a tag named at a time. Tags move, so that it
// is valid for as long as the caller's maxAge allows.
type tagDigest struct {
	found ociArtifact
	at    time.Time
}

// maxTagDigests bounds what is remembered of a registry's tags.
const maxTagDigests = 1000

// newCharts opens the cache of archives.
func newCharts(s *Sources) (*charts, error) {
	archives, err := newArchiveCache(s.options.Folder, s.quota)
	if err != nil {
		return nil, err
	}
	return &charts{
		sources: s, cache: archives,
		repositories: cache.NewLRU[chartKey, *chartRepository](cache.Limits{Bytes: maxRepositoryBytes, Entries: maxRepositories}),
		versions:     cache.NewLRU[versionsKey, []helmindex.Entry](cache.Limits{Bytes: maxVersionsBytes}),
		files:        cache.NewLRU[cacheKey, *cachedFile](cache.Limits{Bytes: maxFilesBytes}),

		failedArchives: cache.NewLRU[archiveKey, failedArchive](cache.Limits{Entries: maxFailedArchives}),
	}, nil
}

// chartSource is a chart that is resolved: what the Application names, and the
// key of what is cached for it.
type chartSource struct {
	v1alpha1.ApplicationSource
	key      chartKey
	admitted project.Admitted
}

// name is the address for messages and metrics.
func (s *chartSource) name() string { return s.key.address.String() }

// resolve returns the files of a chart. Argo CD decides between Helm and OCI by
// the address: without a scheme, with oci://, or with enableOCI in the
// credential it is a registry.
func (c *charts) resolve(ctx context.Context, of project.Admitted, maxAge time.Duration) (*Resolved, error) {
	source := &chartSource{ApplicationSource: of.Source(), key: chartKey{cacheKey: c.sources.keyOf(of)}, admitted: of}
	access, _ := c.sources.options.Credentials.For(of.Address(), of.Project())
	resolve := c.resolveHelm
	if of.Address().Scheme == address.OCI || (source.Chart != "" && access.EnableOCI) {
		resolve, source.key.chart = c.resolveOCI, source.Chart
	}
	found, err := resolve(ctx, source, maxAge)
	if errors.Is(err, errDamaged) {
		// The damaged archive was removed, so that this fetches it again.
		found, err = resolve(ctx, source, maxAge)
	}
	if err != nil {
		return nil, toError(err, source.name())
	}
	return found, nil
}

// invalidate forgets everything that is cached for an address, but for what is
// on the disk. A request that is in flight adds its result to what was
// forgotten.
func (c *charts) invalidate(at address.Address) {
	c.mu.Lock()
	defer c.mu.Unlock()
	isBelow := func(key chartKey) bool {
		own := key.address.Below(key.chart).String()
		return own == at.String() || strings.HasPrefix(own, at.String()+"/")
	}
	c.repositories.RemoveIf(isBelow)
	c.failedArchives.RemoveIf(func(key archiveKey) bool { return isBelow(key.chartKey) })
}

// repository returns the cached state of an address. The caller holds mu.
func (c *charts) repository(key chartKey) *chartRepository {
	r, found := c.repositories.Get(key)
	if !found {
		c.serial++
		r = &chartRepository{serial: c.serial, digests: map[string]tagDigest{}}
		c.repositories.Put(key, r, r.bytes())
	}
	return r
}

// resized updates the size of a repository, unless it was forgotten. The caller
// holds mu.
func (c *charts) resized(key chartKey, r *chartRepository) {
	if current, found := c.repositories.Get(key); found && current == r {
		c.repositories.Put(key, r, r.bytes())
	}
}

// doOnce runs work once for all concurrent callers with the same key. The work
// runs with the context of Sources and not with that of a caller: a caller that
// gives up waiting does not cancel it for the others. It is work for the project
// of the first one.
func doOnce[T any](ctx context.Context, c *charts, key, name string, work func(ctx context.Context) (T, error)) (T, error) {
	var none T
	results := c.flights.DoChan(key, func() (any, error) {
		// begin makes Close wait for the work, also if every caller is gone.
		done := make(chan struct{})
		var found T
		var err error
		if !c.sources.begin(func() {
			defer close(done)
			found, err = work(withProject(c.sources.ctx, projectOf(ctx)))
		}) {
			return none, errorf(Unreachable, name, "the program is ending")
		}
		<-done
		return found, err
	})
	select {
	case result := <-results:
		if result.Err != nil {
			return none, result.Err
		}
		return result.Val.(T), nil
	case <-ctx.Done():
		return none, timeoutError(ctx, name)
	}
}

// selectVersion finds the version of a chart: the exact one, or the highest in
// a range. As in Argo CD, pre-releases are in a range only if it has one.
// Equality of versions ignores a leading v, but not the build metadata.
func selectVersion(revision string, versions []string) (string, *Error) {
	if revision == "" || revision == "HEAD" {
		revision = "*"
	}
	// An exact match goes first: a chart may have versions that are no semver.
	if slices.Contains(versions, revision) {
		return revision, nil
	}
	if exact, err := semver.NewVersion(revision); err == nil {
		for _, version := range versions {
			if other, err := semver.NewVersion(version); err == nil && other.Equal(exact) && other.Metadata() == exact.Metadata() {
				return version, nil
			}
		}
		return "", errorf(NotFound, "", "there is no version %q: the highest of %d is %s", revision, len(versions), highest(versions))
	}
	parsed, err := semver.NewConstraint(revision)
	if err != nil {
		return "", errorf(Invalid, "", "the revision %q is neither a version nor a range of versions: write one such as 1.2.3 or 1.2.x", revision)
	}
	ranged := &constraint{Constraints: parsed}
	best, found := ranged.best(slices.Values(versions))
	if !found {
		return "", errorf(NotFound, "", "no version is in the range %q: the highest of %d is %s", revision, len(versions), highest(versions))
	}
	return best, nil
}

// highest is the highest version of a chart, for error messages; pre-releases
// count.
func highest(versions []string) string {
	all, err := semver.NewConstraint("*-0")
	if err != nil {
		return "unknown"
	}
	if best, found := (&constraint{Constraints: all}).best(slices.Values(versions)); found {
		return best
	}
	return "none"
}

// checkChartName refuses names that would change an address.
func checkChartName(chart string) *Error {
	clean, reason := cleanPath(chart)
	if chart == "" || reason != "" || clean != chart || strings.ContainsAny(chart, "?#%: \t\r\n") {
		return errorf(Invalid, "", "the chart %q has no proper name", chart)
	}
	return nil
}

// unpack gives the files of an archive that is in the cache.
func (c *charts) unpack(from archive, strip bool) (tree.Store, error) {
	return c.cache.store(from, tree.ArchiveLimits{StripFirst: strip, Bytes: 4 * c.sources.options.Limits.ChartBytes})
}
