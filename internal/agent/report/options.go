package report

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// Client is the part of AgentService that is used. A membership's client
// implements it.
type Client interface {
	Report(context.Context, *connect.Request[platformv1.ReportRequest]) (*connect.Response[platformv1.ReportResponse], error)
}

// Options configures a reporter.
type Options struct {
	// Folder has the spool. It is created if it is missing, for this user
	// alone.
	Folder string
	// Runtime is the name of the runtime.
	Runtime string
	Client  Client
	// List returns all reported Applications. It is called at the start and for
	// a resync. Events that Changed and Deleted received before it returns may
	// be older than its result; later ones must be newer in the end.
	List func(context.Context) ([]*v1alpha1.Application, error)
	// CommitTime returns when the commit of a revision was made; the zero time
	// if the revision is no commit. Nil leaves it out.
	CommitTime func(ctx context.Context, namespace, name, revision string) (time.Time, error)
	// MaxBytes bounds the spool; zero is 64 MiB. A full spool is emptied, and a
	// resync follows.
	MaxBytes int64
	Log      *slog.Logger
	// Metrics may be nil.
	Metrics *Metrics

	// batchEvents, firstPause, longestPause and probe are for tests.
	batchEvents  int
	firstPause   time.Duration
	longestPause time.Duration
	probe        time.Duration
}

const (
	defaultMaxBytes = 64 << 20
	// A batch has so many events and, about, so many bytes.
	defaultBatchEvents = 500
	batchBytes         = 1 << 20
	// requestTimeout bounds one batch.
	requestTimeout = 30 * time.Second
	// After a failure the reporter waits, twice as long each time.
	defaultFirstPause   = time.Second
	defaultLongestPause = time.Minute
	// probeInterval is how often an idle reporter checks the position of the
	// platform. It finds a platform that was restored from a backup.
	probeInterval = 5 * time.Minute
)

// complete checks the options and sets the defaults of those that are zero.
func (o *Options) complete() error {
	switch {
	case o.Folder == "":
		return errors.New("the reporter needs a folder for pending reports")
	case o.Client == nil || o.List == nil || o.Log == nil:
		return errors.New("the reporter needs a client, a list of Applications and a log")
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	o.MaxBytes = cmp.Or(max(o.MaxBytes, 0), defaultMaxBytes)
	o.batchEvents = cmp.Or(max(o.batchEvents, 0), defaultBatchEvents)
	o.firstPause = cmp.Or(max(o.firstPause, 0), defaultFirstPause)
	o.longestPause = cmp.Or(max(o.longestPause, 0), defaultLongestPause)
	o.probe = cmp.Or(max(o.probe, 0), probeInterval)
	return nil
}

// Ref is which Application it is.
type Ref struct {
	Namespace string
	Name      string
	UID       string
}
