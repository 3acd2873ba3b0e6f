package division

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

const (
	// DefaultDuration is after how long a replica that is gone loses its
	// Applications.
	DefaultDuration = 15 * time.Second
	// defaultGrace is how long work on Applications that move may go on, before it
	// is cancelled.
	defaultGrace = 5 * time.Second
	// rejoinDelay is the pause before a replica whose Lease was lost joins again.
	rejoinDelay = 500 * time.Millisecond
)

// Options configures a Division. Cluster, Name and Identity are required.
type Options struct {
	// Cluster and its namespace have the Leases.
	Cluster *kube.Cluster
	// Name is that of the division: replicas with the same name share Applications.
	// It is a label, and the names of the Leases begin with it.
	Name string
	// Identity is the name of this replica, for people.
	Identity string
	// Duration is after how long a replica that does not renew its Lease loses its
	// Applications; DefaultDuration where it is zero. All replicas have the same.
	Duration time.Duration
	// Changed is called when other keys are owned than before. It has returned for
	// all that is lost before others may begin with it.
	Changed func()
	// Observe gets the number of members after each change; nil for nothing.
	Observe func(members int)
	Log     *slog.Logger
}

// Division is the share of one replica. It is safe for concurrent use. It runs once.
type Division struct {
	Options
	grace time.Duration

	mu sync.Mutex
	// member is the current membership; nil before the first and between two.
	member *member
	// claims are those that have not ended.
	claims map[*claim]struct{}
	// ended is closed and replaced when a claim ends.
	ended chan struct{}
}

// New makes a Division. It owns nothing before Run.
func New(options Options) *Division {
	options.Duration = cmp.Or(options.Duration, DefaultDuration)
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	if options.Changed == nil {
		options.Changed = func() {}
	}
	if options.Observe == nil {
		options.Observe = func(int) {}
	}
	return &Division{
		Options: options, grace: min(defaultGrace, options.Duration/3),
		claims: map[*claim]struct{}{}, ended: make(chan struct{}),
	}
}

// member is a membership from the creation of a Lease to its loss. A replica that
// joins again is another member: what the one before had is over.
type member struct {
	name string
	// seen is the last snapshot; nil before the first.
	seen  *snapshot
	lease *ownLease
}

// allows reports whether the member may work on a key now. The lock is held.
func (m *member) allows(key string) bool {
	return m != nil && m.seen != nil && m.lease.isValid() && m.seen.allows(m.name, key)
}

// Owns reports whether this replica may work on a key at the moment.
func (d *Division) Owns(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.member.allows(key)
}

// Run takes part in the division until the context is done. At the end it waits for
// all claims and gives its share away.
func (d *Division) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := d.join(ctx); err != nil && ctx.Err() == nil {
			d.Log.Warn("left the division; joining again", observe.KeyError, err)
		}
		_ = backoff.Sleep(ctx, rejoinDelay) // the loop ends with the context
	}
	return ctx.Err()
}

// tableName is the name of the Lease of the table.
func (d *Division) tableName() string { return tableNameOf(d.Name) }

// tableNameOf is the name of the Lease of a division's table.
func tableNameOf(division string) string { return division + "-division" }

// memberName returns a name that no member had before.
func (d *Division) memberName() string {
	return d.Name + "-member-" + strings.ToLower(rand.Text()[:10])
}

// join is one membership. It returns why it ended.
func (d *Division) join(ctx context.Context) error {
	lease, err := d.createLease(ctx, d.memberName())
	if err != nil {
		return err
	}
	m := &member{name: lease.name, lease: lease}
	d.mu.Lock()
	d.member = m
	d.mu.Unlock()
	d.Log.Info("joined the division", "lease", lease.name, "identity", d.Identity)

	// Renewals go on until all claims have ended.
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	lost := make(chan error, 1)
	parts.Go(func() { lost <- lease.renew(renewing) })
	following, stopFollowing := context.WithCancel(ctx)
	snapshots := make(chan *snapshot, 1)
	parts.Go(func() { d.follow(following, snapshots) })

	err = d.serve(following, m, snapshots, lost)
	stopFollowing()
	d.leave(ctx, m)
	stopRenewing()
	parts.Wait()
	lease.delete(ctx)
	return err
}

// leave ends the claims of a membership that is over.
func (d *Division) leave(ctx context.Context, m *member) {
	d.mu.Lock()
	if d.member == m {
		d.member = nil
	}
	d.mu.Unlock()
	d.endLost(context.WithoutCancel(ctx))
	d.Changed()
}

// follow passes on snapshots of the Leases until the context is done. A snapshot that
// was not taken yet is replaced.
func (d *Division) follow(ctx context.Context, into chan *snapshot) {
	leases := d.Cluster.Client.CoordinationV1().Leases(d.Cluster.Namespace)
	failure := ""
	failed := func(err error) {
		if kind := kube.FailureKind(err); kind != failure {
			failure = kind
			if err != nil {
				d.Log.Warn("cannot watch the Leases of the division; retrying", observe.KeyError, err)
			}
		}
	}
	_ = kube.Follow(ctx, leases, kube.Labelled(divisionLabel+"="+d.Name), failed, func(found []*coordinationv1.Lease) {
		made, err := read(d.tableName(), found)
		if err != nil {
			d.Log.Error("replacing the table of the division", observe.KeyError, err)
		}
		select {
		case <-into:
		default:
		}
		into <- made
	})
}

// serve follows the division until the membership ends.
func (d *Division) serve(ctx context.Context, m *member, snapshots <-chan *snapshot, lost <-chan error) error {
	duty := &coordinator{Division: d, self: m.name, observed: map[string]observation{}}
	tick := time.NewTicker(d.Duration / 60)
	defer tick.Stop()
	for {
		select {
		case now := <-snapshots:
			if now.leases[m.name] == nil && m.seen != nil && m.seen.leases[m.name] != nil {
				return errLost
			}
			duty.observe(now)
			d.take(ctx, m, now)
		case <-tick.C:
			duty.act(ctx, m.seen)
		case err := <-lost:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take replaces the snapshot. If the division is another, work on what is lost ends
// before that is acknowledged.
func (d *Division) take(ctx context.Context, m *member, now *snapshot) {
	d.mu.Lock()
	same := now.sameDivision(m.seen)
	isNew := m.seen == nil || m.seen.latest() != now.latest()
	m.seen = now
	d.mu.Unlock()
	if same {
		return
	}
	if isNew && now.latest() > 0 {
		d.Log.Info("division changed", "generation", now.latest(), "members", now.holders())
		d.Observe(len(now.members(now.latest())))
	}
	// Claims of what is lost are not given any more; those that there are end.
	d.endLost(ctx)
	d.Changed()
	if ctx.Err() == nil {
		m.lease.acknowledge(now.latest())
	}
}
