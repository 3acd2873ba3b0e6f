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

// The states of a cluster, as the API returns them.
const (
	StatusConnected = "Connected"
	StatusFailed    = "Failed"
	StatusUnknown   = "Unknown"
)

const (
	// probeInterval is the time between two probes of a reachable cluster, and
	// probeRetryDelay of an unreachable one.
	probeInterval   = time.Minute
	probeRetryDelay = 10 * time.Second
	probeTimeout    = 10 * time.Second
)

// FleetOptions configures a Fleet.
type FleetOptions struct {
	Registry *Registry
	// Home is the runtime's own cluster, and Namespace has the Secrets.
	Home      *kube.Cluster
	Namespace string
	// Changed is called for changed objects of the clusters, and
	// DestinationsChanged when a cluster is added, removed or replaced, or its
	// Secret is refused.
	Changed             func(label string, key tracking.Key)
	DestinationsChanged func()
	Version             string
	Log                 *slog.Logger
}

// Fleet connects to the clusters of a Registry and provides them to the
// reconcile loop. It lasts for one term of leadership.
type Fleet struct {
	FleetOptions

	mu      sync.Mutex
	members map[string]*member // by address
	// refused are the Secrets that the Applications were reconciled with last, and
	// failed those whose clusters no client can be made for.
	refused, failed []refusedSecret
}

// member is one connected cluster.
type member struct {
	destination *reconcile.Destination
	cluster     *kube.Cluster
	spec        atomic.Pointer[ClusterSpec]
	stop        func()
	// isAnother is set when the cluster is known not to be the runtime's own.
	isAnother atomic.Bool

	mu    sync.Mutex
	state State
}

// State is the result of the last probe of a cluster.
type State struct {
	Status  string
	Message string
	Version string
}

// NewFleet returns a Fleet. It connects to nothing before Run.
func NewFleet(options FleetOptions) *Fleet {
	return &Fleet{FleetOptions: options, members: map[string]*member{}}
}

// All returns the connected clusters, sorted by name.
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

// State returns the result of the last probe; unknown before the first one.
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

// Run keeps connections to the clusters of the Registry until the context is
// done.
func (f *Fleet) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	defer f.close()
	for {
		entries, changed := f.Registry.read()
		f.update(ctx, entries, &running)
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// update connects to new clusters, replaces the tokens of connected ones, and
// disconnects from removed ones. A cluster whose connection settings changed is
// connected again, with an empty cache.
func (f *Fleet) update(ctx context.Context, entries []*ClusterSpec, running *sync.WaitGroup) {
	f.mu.Lock()
	// The lock is held during connects, which send no request.
	wanted, moved := map[string]bool{}, false
	var failed []refusedSecret
	for _, entry := range entries {
		wanted[entry.Server] = true
		if known := f.members[entry.Server]; known != nil {
			if known.spec.Load().sameConnection(entry) {
				known.spec.Store(entry)
				continue
			}
			// Its cache and clients have the old connection settings.
			known.stop()
			delete(f.members, entry.Server)
			moved = true
		}
		joined, err := f.connect(ctx, entry, running)
		if err != nil {
			f.Log.Error("cannot connect to cluster", "cluster", entry.Name, observe.KeyError, err)
			failed = append(failed, refuse(f.Namespace, entry.SecretName, entry.Server, entry.Name, err.Error()))
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
	if refused := f.Registry.refusals(); !slices.Equal(f.refused, refused) || !slices.Equal(f.failed, failed) {
		f.refused, f.failed = refused, failed
		moved = true
	}
	f.mu.Unlock()
	if moved {
		f.DestinationsChanged()
	}
}

// connect creates the clients, the cache and the applier of a cluster, and runs
// its goroutines until it is stopped.
func (f *Fleet) connect(ctx context.Context, entry *ClusterSpec, running *sync.WaitGroup) (*member, error) {
	one := &member{state: State{Status: StatusUnknown, Message: "it has not been looked at yet"}}
	one.spec.Store(entry)
	cluster, err := kube.ConnectRemote(entry.remote(func() secret.Text { return one.spec.Load().token() }), kube.Version(f.Version))
	if err != nil {
		return nil, err
	}
	one.cluster = cluster
	kinds := live.NewKinds(cluster)
	log := f.Log.With("cluster", entry.Name)
	cache := live.New(live.Options{Cluster: cluster, Kinds: kinds, Namespaces: entry.Namespaces, Changed: f.Changed, Log: log})
	applier := apply.New(cluster, kinds)
	applier.NoteTo(cache.NoteJSON)
	one.destination = &reconcile.Destination{
		Server: entry.Server, Name: entry.Name, Live: cache, Kinds: kinds, Applier: applier, Scope: entry.Scope(), IsAnother: one.isAnother.Load,
	}
	serving, stop := context.WithCancel(ctx)
	one.stop = stop
	// The clients are closed after all of their users have ended.
	running.Go(func() {
		defer cluster.Close()
		var parts sync.WaitGroup
		parts.Go(func() { _ = cache.Run(serving) })
		parts.Go(func() { f.probeLoop(serving, one) })
		parts.Go(func() { f.renew(serving, one) })
		parts.Wait()
	})
	return one, nil
}

// close stops all clusters.
func (f *Fleet) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.members {
		one.stop()
	}
}

// probeLoop probes a cluster until the context is done. When a failed cluster
// is reachable again, the Applications that wait for it are reconciled.
func (f *Fleet) probeLoop(ctx context.Context, one *member) {
	identified, reported := false, false
	for ctx.Err() == nil {
		// The first probe runs at once, so that the state is known soon after
		// the connect.
		found := one.probe(ctx)
		one.mu.Lock()
		before := one.state
		one.state = found
		one.mu.Unlock()
		if found.Status != before.Status {
			f.Log.Info("cluster status changed", "cluster", one.destination.Name, "status", found.Status, "message", found.Message)
			if before.Status == StatusFailed {
				f.DestinationsChanged()
			}
		}
		if !identified && found.Status == StatusConnected {
			err := f.identify(ctx, one)
			identified = err == nil
			if err != nil && !reported && ctx.Err() == nil {
				reported = true
				f.Log.Warn("cluster may be the runtime's own: projects with limits cannot write to its namespace "+f.Namespace,
					"cluster", one.destination.Name, observe.KeyError, err)
			}
		}
		// Unreachable clusters are probed more often, as Applications wait for
		// them.
		pause := probeInterval
		if found.Status != StatusConnected {
			pause = probeRetryDelay
		}
		_ = backoff.Sleep(ctx, backoff.Jitter(pause, 0.25)) // the loop ends with the context
	}
}

// identify finds out whether a cluster is another one than the runtime's own,
// which a Secret can describe under a second address. Until that is known it
// counts as the own one, where the control namespace is protected.
func (f *Fleet) identify(ctx context.Context, one *member) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	home, err := f.Home.UID(ctx)
	if err != nil {
		return err
	}
	uid, err := one.cluster.UID(ctx)
	if err != nil {
		return err
	}
	if uid == home {
		f.Log.Info("cluster is the runtime's own under another address", "cluster", one.destination.Name)
		return nil
	}
	one.isAnother.Store(true)
	f.DestinationsChanged()
	return nil
}

// probe reads the version with an authenticated request.
func (m *member) probe(ctx context.Context) State {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	version, err := serverVersion(ctx, m.cluster)
	if err != nil {
		return State{Status: StatusFailed, Message: err.Error()}
	}
	return State{Status: StatusConnected, Version: version}
}
