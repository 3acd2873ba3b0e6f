package clusters

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/reconcile"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/secret"
)

// The states of a cluster, as people read them.
const (
	StatusConnected = "Connected"
	StatusFailed    = "Failed"
	StatusUnknown   = "Unknown"
)

const (
	// probePause is the time between two looks at a cluster that answers, and
	// probeSoon at one that does not.
	probePause   = time.Minute
	probeSoon    = 10 * time.Second
	probeTimeout = 10 * time.Second
)

// FleetOptions are what a Fleet needs.
type FleetOptions struct {
	Book *Book
	// Home is the cluster that the runtime is in, and Namespace where the Secrets
	// are.
	Home      *kube.Cluster
	Namespace string
	// Changed is told of objects of the clusters, and Moved when a cluster comes,
	// goes or is replaced.
	Changed func(label string, key tracking.Key)
	Moved   func()
	Version string
	Log     *slog.Logger
	Now     func() time.Time
}

// Fleet is connected to the clusters of a Book. It is for one term of leadership.
type Fleet struct {
	FleetOptions

	mu      sync.Mutex
	members map[string]*member // by address
	// refused are the Secrets that the Applications were reconciled with last, and
	// failed those whose clusters no client can be made for.
	refused, failed []refusedSecret
}

// member is one cluster.
type member struct {
	destination *reconcile.Destination
	cluster     *kube.Cluster
	entry       atomic.Pointer[Entry]
	stop        func()

	mu    sync.Mutex
	state State
}

// State is how a cluster was found at the last look.
type State struct {
	Status  string
	Message string
	Version string
}

// NewFleet makes a Fleet. It sends nothing before Run.
func NewFleet(options FleetOptions) *Fleet {
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Fleet{FleetOptions: options, members: map[string]*member{}}
}

// All are the clusters to deploy to.
func (f *Fleet) All() []*reconcile.Destination {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*reconcile.Destination, 0, len(f.members))
	for _, one := range f.members {
		all = append(all, one.destination)
	}
	slices.SortFunc(all, func(a, b *reconcile.Destination) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// State is how a cluster was found; unknown if it was not looked at yet.
func (f *Fleet) State(server string) State {
	f.mu.Lock()
	one := f.members[server]
	f.mu.Unlock()
	if one == nil {
		return State{Status: StatusUnknown, Message: "it has not been looked at yet"}
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.state
}

// Run keeps the connections to what the Book has, until the context is done.
func (f *Fleet) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	defer f.close()
	for {
		entries, changed := f.Book.read()
		f.adopt(ctx, entries, &running)
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// adopt connects to new clusters, gives those that are known their new tokens, and
// leaves those that are gone.
func (f *Fleet) adopt(ctx context.Context, entries []*Entry, running *sync.WaitGroup) {
	f.mu.Lock()
	wanted, moved := map[string]bool{}, false
	var failed []refusedSecret
	for _, entry := range entries {
		wanted[entry.Server] = true
		if known := f.members[entry.Server]; known != nil {
			if known.entry.Load().sameConnection(entry) {
				known.entry.Store(entry)
				continue
			}
			known.stop()
			delete(f.members, entry.Server)
			moved = true
		}
		joined, err := f.join(ctx, entry, running)
		if err != nil {
			f.Log.Error("a cluster cannot be connected to", "cluster", entry.Name, observe.KeyError, err)
			failed = append(failed, refusedSecret{
				secret: f.Namespace + "/" + entry.SecretName, server: entry.Server, name: entry.Name, reason: err.Error(),
			})
			continue
		}
		f.members[entry.Server] = joined
		moved = true
	}
	for server, one := range f.members {
		if !wanted[server] {
			one.stop()
			delete(f.members, server)
			moved = true
		}
	}
	// Applications show why a Secret is refused, and reconcile when that changes.
	if refused := f.Book.refusals(); !slices.Equal(f.refused, refused) || !slices.Equal(f.failed, failed) {
		f.refused, f.failed = refused, failed
		moved = true
	}
	f.mu.Unlock()
	if moved {
		f.Moved()
	}
}

// join connects to a cluster and runs what belongs to it.
func (f *Fleet) join(ctx context.Context, entry *Entry, running *sync.WaitGroup) (*member, error) {
	one := &member{state: State{Status: StatusUnknown, Message: "it has not been looked at yet"}}
	one.entry.Store(entry)
	cluster, err := kube.ConnectRemote(entry.remote(func() secret.Text { return one.entry.Load().token() }), kube.Version(f.Version))
	if err != nil {
		return nil, err
	}
	one.cluster = cluster
	kinds := live.NewKinds(cluster)
	log := f.Log.With("cluster", entry.Name)
	cache := live.New(live.Options{Cluster: cluster, Kinds: kinds, Namespaces: entry.Namespaces, Changed: f.Changed, Log: log})
	applier := apply.New(cluster, kinds)
	applier.NoteTo(cache.NoteJSON)
	one.destination = &reconcile.Destination{Server: entry.Server, Name: entry.Name, Live: cache, Kinds: kinds, Applier: applier}
	serving, stop := context.WithCancel(ctx)
	one.stop = stop
	running.Go(func() {
		defer cluster.Close()
		var parts sync.WaitGroup
		parts.Go(func() { _ = cache.Run(serving) })
		parts.Go(func() { f.look(serving, one) })
		parts.Go(func() { f.renew(serving, one) })
		parts.Wait()
	})
	return one, nil
}

func (f *Fleet) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.members {
		one.stop()
	}
}

// look asks a cluster for its version again and again: that shows whether it can
// be reached and believes us. When it answers again, the Applications that wait
// for it are looked at.
func (f *Fleet) look(ctx context.Context, one *member) {
	for ctx.Err() == nil {
		found := one.probe(ctx)
		one.mu.Lock()
		before := one.state
		one.state = found
		one.mu.Unlock()
		if found.Status != before.Status {
			f.Log.Info("a cluster was looked at", "cluster", one.destination.Name, "status", found.Status, "message", found.Message)
			if before.Status == StatusFailed {
				f.Moved()
			}
		}
		pause := probePause
		if found.Status != StatusConnected {
			pause = probeSoon
		}
		_ = backoff.Sleep(ctx, backoff.Jitter(pause, 0.25)) // the loop ends with the context
	}
}

// probe asks a cluster for its version, which needs a credential that it believes.
func (m *member) probe(ctx context.Context) State {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	version, err := serverVersion(ctx, m.cluster)
	if err != nil {
		return State{Status: StatusFailed, Message: err.Error()}
	}
	return State{Status: StatusConnected, Version: version}
}
