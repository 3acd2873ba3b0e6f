package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/slipway/internal/cache"
	"slipway.dev/slipway/internal/gitops/fair"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/source/signature"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/outbound"
)

// Credentials finds what opens a repository for a project. A credential.Store is
// one.
type Credentials interface {
	For(at address.Address, project string) (credential.Credential, bool)
	KnownHosts() []byte
	CertificateAuthorities(host string) []byte
	// Keyring has the keys that sign commits; nil has none.
	Keyring() *signature.Keyring
	// Named is the address of a Helm repository by its name; empty if none has it.
	Named(name, project string) string
	// Refusal is why a Secret for an address is not used; empty if none is refused.
	Refusal(at address.Address, project string) string
}

// noCredentials opens what is open.
type noCredentials struct{}

// For finds nothing.
func (noCredentials) For(address.Address, string) (credential.Credential, bool) {
	return credential.Credential{}, false
}

// Named finds nothing.
func (noCredentials) Named(string, string) string { return "" }

// Keyring is none.
func (noCredentials) Keyring() *signature.Keyring { return nil }

// KnownHosts is none.
func (noCredentials) KnownHosts() []byte { return nil }

// CertificateAuthorities is none.
func (noCredentials) CertificateAuthorities(string) []byte { return nil }

// Options is what New needs. Only Folder must be set.
type Options struct {
	// Folder is where repositories and charts are kept. It belongs to one
	// Sources at a time.
	Folder string
	// Credentials may be nil: then all requests are anonymous.
	Credentials Credentials
	// MaxAge is what Resolve uses for a negative maxAge: 2 minutes.
	MaxAge time.Duration
	// FetchTimeout bounds each exchange with a server: 2 minutes.
	FetchTimeout time.Duration
	Limits       Limits
	// Indexes reads indexes of Helm repositories. Without it this process does,
	// which is for sources that its user chose.
	Indexes Indexes
	// Outbound decides which addresses are connected to; nil allows all.
	Outbound *outbound.Policy
	Log      *slog.Logger
	// Observe is called after every exchange with a server, for metrics. It
	// must not block.
	Observe func(Fetch)
	// Evicted is called for each entry of the cache that a project loses because
	// of its quota, for metrics. It must not block.
	Evicted func(project string, bytes int64)
}

// Limits bound what is taken from servers. Zero is the default of each.
type Limits struct {
	// FetchBytes bounds the response to a fetch: 2 GiB.
	FetchBytes int64
	// FileBytes is the largest file that a repository may have: 1 GiB. Larger
	// than what is rendered is refused when it is read.
	FileBytes int64
	// Refs is the largest number of branches, tags and other refs: 250,000.
	Refs int
	// ChartBytes is the largest archive of a chart: 32 MiB.
	ChartBytes int64
	// IndexBytes is the largest index of a Helm repository: 128 MiB.
	IndexBytes int64
	// ProjectBytes is how much of the disk a project may use: 4 GiB.
	ProjectBytes int64
	// DiskBytes is how much of the disk all projects may use together: 7 GiB.
	DiskBytes int64
	// Parallel is how many exchanges with servers a project has at a time: 8.
	// There is one more for others.
	Parallel int
}

// Fetch is one exchange with a server, for metrics.
type Fetch struct {
	Repository string // without a user and a password
	What       string // refs, pack, index, tags, chart, file or lfs
	Took       time.Duration
	Bytes      int64
	Err        error
}

// Resolved is what a source names.
type Resolved struct {
	// Revision is the id of the commit, or the version of the chart.
	Revision string
	Store    tree.Store
	// Path is the application's folder; "" for a chart of a chart repository.
	Path string
	// Chart: the files are a chart from a Helm repository or an OCI registry.
	Chart bool
	// Commit is nil for charts.
	Commit *Commit
}

// Commit is the metadata of a commit.
type Commit struct {
	ID      string
	Author  string
	Message string
	When    time.Time
}

// Sources keeps repositories and charts. It is safe for concurrent use.
type Sources struct {
	options Options
	trees   *treeCache
	refs    *cache.LRU[*repository, *cachedRefs]
	charts  *charts
	quota   *quota
	slots   *fair.Slots // one for each exchange with a server
	lock    *os.File

	appTokens appTokens

	ctx    context.Context
	cancel context.CancelFunc

	// endingMu keeps work from beginning after Close has begun to wait for it.
	endingMu sync.Mutex
	running  sync.WaitGroup

	swept atomic.Int64 // when, in nanoseconds

	mu           sync.Mutex
	repositories map[cacheKey]*repository
}

// New prepares the folder. It fails when another process has it.
func New(options Options) (*Sources, error) {
	options = options.withDefaults()
	if options.Folder == "" {
		return nil, errors.New("sources need a folder to keep repositories in")
	}
	// Content of private repositories: only this user may read it.
	if err := os.MkdirAll(options.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("the folder for repositories cannot be made: %w", err)
	}
	lock, err := lockFolder(options.Folder)
	if err != nil {
		return nil, err
	}
	s := &Sources{
		options: options, lock: lock, trees: newTreeCache(treeCacheBytes),
		refs:         cache.NewLRU[*repository, *cachedRefs](cache.Limits{Bytes: maxRefsBytes, ValueBytes: maxRefsBytes / 2}),
		slots:        fair.NewSlots(options.Limits.Parallel+1, options.Limits.Parallel),
		repositories: map[cacheKey]*repository{}, appTokens: appTokens{tokens: map[appKey]appToken{}},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.quota = &quota{
		perProject: options.Limits.ProjectBytes, total: options.Limits.DiskBytes, remove: s.remove, evicted: options.Evicted,
		limits: map[string]int64{}, entries: map[string]*quotaEntry{}, projects: map[string]*projectUsage{},
	}
	if err := s.quota.load(options.Folder); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if s.charts, err = newCharts(s); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// lockFolder keeps a second process out, which would remove folders that this
// one uses. The kernel releases it when the process ends.
func lockFolder(folder string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the folder for repositories cannot be used: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("the folder %s is used by another process: give each its own", folder), lock.Close())
	}
	return lock, nil
}

// Close ends what is under way. Stores that were given out stay readable. It
// can be called again. The lock of the folder is released last, when nothing
// writes there any more.
func (s *Sources) Close() error {
	s.endingMu.Lock()
	s.cancel()
	s.endingMu.Unlock()
	s.running.Wait()
	closed := s.quota.close()
	// Closing the file alone would not release the lock while a forked child
	// process that has not yet executed its program shares it.
	_ = unix.Flock(int(s.lock.Fd()), unix.LOCK_UN)
	if err := s.lock.Close(); !errors.Is(err, os.ErrClosed) {
		return errors.Join(closed, err)
	}
	return closed
}

// DiskUsage is the bytes on the disk that each project uses.
func (s *Sources) DiskUsage() map[string]int64 { return s.quota.usage() }

// begin runs work that Close waits for. It is false when Close has begun.
func (s *Sources) begin(work func()) bool {
	s.endingMu.Lock()
	defer s.endingMu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.running.Go(work)
	return true
}

// Resolve returns the revision that a source names, and its files. Cached
// responses of a server are used if they are younger than maxAge; 0 always
// sends a request, and a negative value stands for Options.MaxAge. Concurrent
// calls for one repository share one request. A full commit id that is on the
// disk needs none. Every error is an *[Error].
func (s *Sources) Resolve(ctx context.Context, of project.Admitted, maxAge time.Duration) (*Resolved, error) {
	if maxAge < 0 {
		maxAge = s.options.MaxAge
	}
	// Sweeping here needs no goroutine of its own; an idle process keeps its
	// files, which costs nothing.
	s.sweep()
	s.quota.setLimit(of.Project(), of.DiskBytes())
	found, err := s.resolve(withProject(ctx, of.Project()), of, maxAge)
	if err != nil {
		return nil, s.explain(err, of)
	}
	return found, nil
}

// resolve decides by the address and the chart between Git, the chart
// repositories and single files.
func (s *Sources) resolve(ctx context.Context, of project.Admitted, maxAge time.Duration) (*Resolved, error) {
	source := of.Source()
	if of.Address().IsZero() {
		return nil, errorf(Invalid, "", "the source was not admitted by a project")
	}
	if of.Object().OID != "" {
		return s.charts.resolveObject(ctx, of)
	}
	if of.IsFile() {
		return s.charts.resolveFile(ctx, of, maxAge)
	}
	if source.Chart != "" || of.Address().Scheme == address.OCI {
		return s.charts.resolve(ctx, of, maxAge)
	}
	r, err := s.repository(of)
	if err != nil {
		return nil, err
	}
	path, reason := cleanPath(source.Path)
	if reason != "" {
		return nil, errorf(Invalid, r.name, "the path %q %s: write a folder of the repository", source.Path, reason)
	}
	commit, store, err := r.resolve(ctx, source.TargetRevision, source.TagPrefix, maxAge)
	if err != nil {
		return nil, err
	}
	if err := r.checkSignature(ctx, commit, store, of, maxAge); err != nil {
		return nil, err
	}
	return &Resolved{Revision: commit.ID, Store: store, Path: path, Commit: commit}, nil
}

// Commit returns the metadata of the commit that a source names.
func (s *Sources) Commit(ctx context.Context, of project.Admitted) (*Commit, error) {
	r, err := s.repository(of)
	if err != nil {
		return nil, err
	}
	commit, _, err := r.resolve(withProject(ctx, of.Project()), of.Source().TargetRevision, of.Source().TagPrefix, s.options.MaxAge)
	return commit, err
}

// Forget invalidates what is cached for a repository, after a push: the next
// Resolve sends a request. It applies to all spellings of the address, because
// webhooks name another one than Applications often do.
func (s *Sources) Forget(repoURL string) {
	at, err := address.ParseForeign(repoURL)
	if err != nil {
		return
	}
	s.mu.Lock()
	var meant []*repository
	for _, r := range s.repositories {
		if r.address.SameRepository(at) {
			meant = append(meant, r)
		}
	}
	s.mu.Unlock()
	for _, r := range meant {
		r.invalidate()
	}
	s.charts.invalidate(at)
}

// repository finds or adds the one of a source.
func (s *Sources) repository(of project.Admitted) (*repository, error) {
	at := of.Address()
	if !at.IsGit() {
		return nil, errorf(Invalid, at.String(), "it is not the address of a Git repository: write one such as https://example.com/team/app.git")
	}
	key := s.keyOf(of)
	key.address = at.Canonical()
	s.mu.Lock()
	r, found := s.repositories[key]
	if !found {
		r = newRepository(s, key, at)
		s.repositories[key] = r
	}
	r.touch()
	s.mu.Unlock()
	s.quota.use(of.Project(), r.entry)
	return r, nil
}

// projectKey is the key of the project that a context is for.
type projectKey struct{}

// withProject makes a context one for a project: its exchanges with servers take
// the turns of the project, and what they bring counts for its quota.
func withProject(ctx context.Context, project string) context.Context {
	return context.WithValue(ctx, projectKey{}, project)
}

// projectOf is the project that a context is for.
func projectOf(ctx context.Context) string {
	project, _ := ctx.Value(projectKey{}).(string)
	return project
}

// exchange runs one exchange with a server: it limits how many run at a time,
// bounds the duration, converts the error and reports the result to Observe.
func (s *Sources) exchange(ctx context.Context, what, name string, do func(ctx context.Context) (int64, error)) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.FetchTimeout)
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	project := projectOf(ctx)
	if err := s.slots.Acquire(ctx, project); err != nil {
		return timeoutError(ctx, name)
	}
	defer s.slots.Release(project)
	began := time.Now()
	bytes, err := do(ctx)
	if err != nil {
		err = toError(err, name)
	}
	s.options.Observe(Fetch{Repository: name, What: what, Took: time.Since(began), Bytes: bytes, Err: err})
	return err
}
