package source

import (
	"context"
	"log/slog"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/tree"
)

// Credentials finds what opens a repository. A credential.Book is one.
type Credentials interface {
	For(url string) (credential.Credential, bool)
	KnownHosts() []byte
	CertificateAuthorities(host string) []byte
}

// Options is what New needs. Only Folder must be set.
type Options struct {
	// Folder is where repositories and charts are kept. It belongs to one
	// Sources at a time.
	Folder string
	// Credentials may be nil: then everything is asked for without.
	Credentials Credentials
	// MaxAge is what Resolve uses for a negative maxAge: 2 minutes.
	MaxAge time.Duration
	// FetchTimeout bounds each exchange with a server: 2 minutes.
	FetchTimeout time.Duration
	Limits       Limits
	Log          *slog.Logger
	// Observe is told of every exchange with a server. It must be quick.
	Observe func(Fetch)
}

// Limits bound what is taken from servers. Zero is the default of each.
type Limits struct {
	// FetchBytes is the largest answer to a fetch: 2 GiB.
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
	// ChartCacheBytes is how much of the disk charts may use: 1 GiB.
	ChartCacheBytes int64
	// Parallel is how many exchanges with servers there are at a time: 8.
	Parallel int
}

// Fetch is one exchange with a server, for metrics.
type Fetch struct {
	Repository string // without a user and a password
	What       string // refs, pack, index, tags or chart
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
	// Chart says that the files are a chart from a Helm repository or OCI.
	Chart bool
	// Commit is nil for charts.
	Commit *Commit
}

// Commit is what a commit says of itself.
type Commit struct {
	ID      string
	Author  string
	Message string
	When    time.Time
}

// Sources keeps repositories and charts. It is safe for concurrent use.
type Sources struct {
	options Options
}

// New prepares the folder.
func New(options Options) (*Sources, error) { return &Sources{options: options}, nil }

// Close ends what is under way. Stores that were given out stay readable.
func (s *Sources) Close() error { return nil }

// Resolve finds the revision that a source names, and its files. Answers of a
// server that are younger than maxAge are believed; 0 asks it, and less than 0
// is Options.MaxAge. Concurrent calls for one repository share one request. A
// full commit id that is there asks nobody. Every error is an *[Error].
func (s *Sources) Resolve(ctx context.Context, source v1alpha1.ApplicationSource, maxAge time.Duration) (*Resolved, error) {
	return nil, errorf(Invalid, source.RepoURL, "not ready")
}

// Commit tells about the commit that a revision names.
func (s *Sources) Commit(ctx context.Context, repoURL, revision string) (*Commit, error) {
	return nil, errorf(Invalid, repoURL, "not ready")
}

// Forget makes the next Resolve of a repository ask its server: somebody told
// of a push. All ways to the repository are meant.
func (s *Sources) Forget(repoURL string) {}
