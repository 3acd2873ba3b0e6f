package status

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

const (
	// replicaLabel is on the Lease of each replica, with the name of the Lease of the
	// election: edges of different classes can share a namespace.
	replicaLabel = "slipway.dev/edge-replica"
	// servedAnnotation has the Versions that a replica serves, as JSON.
	servedAnnotation = "slipway.dev/served-versions"

	// replicaRenewal is how often a Lease is renewed. After replicaExpiry without that,
	// its replica is not ready; after replicaForgotten the Lease is deleted.
	replicaRenewal   = 5 * time.Second
	replicaExpiry    = 15 * time.Second
	replicaForgotten = 10 * time.Minute
	// publishInterval is the least time between two writes of a Lease.
	publishInterval = 500 * time.Millisecond
	// stallTimeout is how long a replica is waited for that renews its Lease and makes no
	// progress, such as one that may not read a kind.
	stallTimeout = 30 * time.Second
	// replicaRecheck is how often a status that waits is looked at without news.
	replicaRecheck = time.Second
)

// Versions are versions of the cluster by resource. They rise with each change of an
// object of the resource (KEP-5504).
type Versions map[string]uint64

// include reports whether none is older than one of needed.
func (v Versions) include(needed Versions) bool {
	for resource, version := range needed {
		if v[resource] < version {
			return false
		}
	}
	return true
}

// Replicas is how the replicas of an edge know what each of them serves. Each publishes
// it in a Lease of its own. The leader reads these, and so writes the status of an object
// when it is live in all replicas that are ready.
type Replicas struct {
	cluster *kube.Cluster
	group   string // the Lease of the election
	name    string // the Lease of this replica
	log     *slog.Logger
	// published is the Lease as it was last written; nil before. Only Run uses it.
	published *coordinationv1.Lease

	mu     sync.Mutex
	served Versions
	// changed holds at most one signal that served or leading has changed.
	changed chan struct{}
	// leading is set while this replica reads the Leases of the others.
	leading bool
	// listed is set while this replica leads and knows the others, and denied if it may
	// not read their Leases.
	listed, denied bool
	others         map[string]*otherReplica
	// advanced is called when another replica has advanced or gone; it may be nil.
	advanced func()
}

// otherReplica is another replica as the leader sees it. Times are those of this
// machine, so that clocks need not agree.
type otherReplica struct {
	version string // of its Lease
	served  Versions
	// renewed is when the version of its Lease was seen first, progressed when it served
	// something new, and behindSince since when a status waits for it.
	renewed, progressed, behindSince time.Time
}

// NewReplicas returns the replicas of an edge with a Lease for its election. It sends
// nothing before Run.
func NewReplicas(cluster *kube.Cluster, group string, log *slog.Logger) *Replicas {
	return &Replicas{
		cluster: cluster, group: group, name: group + "-replica-" + strings.ToLower(rand.Text()[:10]), log: log,
		changed: make(chan struct{}, 1), others: map[string]*otherReplica{},
	}
}

// notify sets what is called when another replica has advanced or gone.
func (r *Replicas) notify(advanced func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advanced = advanced
}

// setServed sets what this replica serves. It returns at once.
func (r *Replicas) setServed(served Versions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.served = served
	r.signal()
}

// Run publishes what this replica serves, from the first setServed until the context is
// done. Then it deletes its Lease, so that the leader does not wait for it.
func (r *Replicas) Run(ctx context.Context) error {
	failures := failureLog{}
	select {
	case <-ctx.Done():
		return nil
	case <-r.changed:
	}
	renew := time.NewTicker(replicaRenewal)
	defer renew.Stop()
	for {
		if err := r.publish(ctx); err != nil && ctx.Err() == nil {
			failures.log(r.log, "write of the Lease of this replica failed, retrying", r.name, err)
		}
		if backoff.Sleep(ctx, publishInterval) == nil {
			r.awaitNews(ctx, renew.C)
		}
		if ctx.Err() != nil {
			r.withdraw(ctx)
			return nil
		}
	}
}

// awaitNews returns when the Lease has to be written. Only the leader reads it, and it
// does not read its own: while this replica leads, the Lease is renewed and nothing more,
// so that each change of the cluster does not cost the API server another write. The end
// of the leadership is news, because the next leader reads the Lease.
func (r *Replicas) awaitNews(ctx context.Context, renew <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-renew:
			return
		case <-r.changed:
			if !r.leads() {
				return
			}
		}
	}
}

// leads reports whether this replica reads the Leases of the others.
func (r *Replicas) leads() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leading
}

// setLeading sets whether this replica leads.
func (r *Replicas) setLeading(leading bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leading = leading
	if !leading && r.served != nil { // Run begins with what is served
		r.signal()
	}
}

// signal wakes Run. The caller holds mu.
func (r *Replicas) signal() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// publish writes the Lease of this replica.
func (r *Replicas) publish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r.mu.Lock()
	text, err := json.Marshal(r.served)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	leases, now, seconds := r.cluster.Client.CoordinationV1().Leases(r.cluster.Namespace), metav1.NowMicro(), int32(replicaExpiry.Seconds())
	next := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: r.name, Labels: map[string]string{replicaLabel: r.group}}}
	if r.published != nil {
		next = r.published.DeepCopy()
	}
	next.Annotations = map[string]string{servedAnnotation: string(text)}
	next.Spec = coordinationv1.LeaseSpec{HolderIdentity: &r.name, LeaseDurationSeconds: &seconds, RenewTime: &now}
	if r.published == nil {
		next, err = leases.Create(ctx, next, metav1.CreateOptions{FieldManager: FieldManager})
	} else {
		next, err = leases.Update(ctx, next, metav1.UpdateOptions{FieldManager: FieldManager})
	}
	switch {
	case err == nil:
		r.published = next
	case apierrors.IsNotFound(err):
		r.published = nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		r.published, err = leases.Get(ctx, r.name, metav1.GetOptions{})
	}
	return err
}

// withdraw deletes the Lease of this replica. Without the right to do so it expires.
func (r *Replicas) withdraw(ctx context.Context) {
	if r.published == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = r.cluster.Client.CoordinationV1().Leases(r.cluster.Namespace).Delete(ctx, r.name, metav1.DeleteOptions{})
}

// Lead reads the Leases of the other replicas until the context is done.
func (r *Replicas) Lead(ctx context.Context) {
	r.setLeading(true)
	defer r.setLeading(false)
	_ = kube.Follow(ctx, r.cluster.Client.CoordinationV1().Leases(r.cluster.Namespace),
		metav1.ListOptions{LabelSelector: replicaLabel + "=" + r.group}, r.observe, func(leases []*coordinationv1.Lease) {
			for _, name := range r.observeAll(leases, time.Now()) {
				r.forget(ctx, name)
			}
		})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed, r.denied, r.others = false, false, map[string]*otherReplica{}
}

// observe records whether the Leases may be read. A role from before this feature does not
// allow it; then the leader writes what it serves itself.
func (r *Replicas) observe(err error) {
	r.mu.Lock()
	before := r.denied
	r.denied = apierrors.IsForbidden(err)
	denied := r.denied && !before
	r.mu.Unlock()
	if denied {
		r.log.Warn("the Leases of other replicas cannot be read: statuses of Gateways and routes do not wait for them", observe.KeyError, err)
	}
}

// observeAll records the Leases of all replicas, and returns those that were not renewed
// for long.
func (r *Replicas) observeAll(leases []*coordinationv1.Lease, now time.Time) (forgotten []string) {
	r.mu.Lock()
	present := map[string]bool{}
	for _, lease := range leases {
		if lease.Name == r.name {
			continue
		}
		present[lease.Name] = true
		known := r.others[lease.Name]
		if known == nil {
			known = &otherReplica{progressed: now}
			r.others[lease.Name] = known
		}
		if known.version != lease.ResourceVersion {
			served := Versions{}
			// An annotation that cannot be read is that of a replica that serves nothing.
			_ = json.Unmarshal([]byte(lease.Annotations[servedAnnotation]), &served)
			if !maps.Equal(served, known.served) {
				known.progressed = now
			}
			known.version, known.served, known.renewed = lease.ResourceVersion, served, now
		}
		if now.Sub(known.renewed) > replicaForgotten {
			forgotten = append(forgotten, lease.Name)
		}
	}
	maps.DeleteFunc(r.others, func(name string, _ *otherReplica) bool { return !present[name] })
	r.listed = true
	advanced := r.advanced
	r.mu.Unlock()
	if advanced != nil {
		advanced()
	}
	return forgotten
}

// forget deletes the Lease of a replica that ended without doing so.
func (r *Replicas) forget(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := r.cluster.Client.CoordinationV1().Leases(r.cluster.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		r.log.Debug("the Lease of a replica that has ended could not be deleted", "lease", name, observe.KeyError, err)
	}
}

// lagging returns the replicas that are ready and do not serve some versions yet, sorted.
// One that does not advance for long is not waited for: its statuses would hold up those
// of the whole cluster.
func (r *Replicas) lagging(needed Versions, now time.Time) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.denied:
		return nil
	case !r.listed:
		return []string{"unknown"}
	}
	var lagging []string
	for name, other := range r.others {
		switch {
		case now.Sub(other.renewed) > replicaExpiry:
			continue
		case other.served.include(needed):
			other.behindSince = time.Time{}
			continue
		case other.behindSince.IsZero():
			other.behindSince = now
		}
		if now.Sub(other.behindSince) <= stallTimeout || now.Sub(other.progressed) <= stallTimeout {
			lagging = append(lagging, name)
		}
	}
	slices.Sort(lagging)
	return lagging
}
