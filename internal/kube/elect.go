package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	// client-go adds jitter of up to 1.2 periods, and a dead leader is replaced
	// after one period, the lease and another period: 19.4 s at most. With the
	// usual 2 s it would be 23.8 s.
	retryPeriod = time.Second

	releaseTimeout = 5 * time.Second
	releaseTries   = 3
)

// Election is a leader election by a Lease. It needs the verbs get, create and
// update on leases of coordination.k8s.io in its namespace, and no others.
type Election struct {
	Namespace string
	Name      string
	// Identity is the holder in the Lease. Two processes that run at the same time
	// must not share one.
	Identity string

	// Duration is the lease duration, after which a leader that does not renew is
	// replaced; zero means 15 s. The API server stores whole seconds.
	Duration time.Duration
	// Renew is how long a leader retries to renew before it stops; zero means
	// 10 s. It is shorter than Duration, so that there are never two leaders.
	Renew time.Duration
	// Retry is the interval of attempts to acquire or renew; zero means 1 s.
	Retry time.Duration
	// Interval is the least time between two renewals; zero renews at each attempt.
	// It saves requests of the leader, while the others still see a Lease that was
	// released after Retry. The sum of Interval, Retry and Renew must be less than
	// Duration: a leader may count that long on its last renewal.
	Interval time.Duration

	// Failed is called when a request for the Lease fails, once per kind of
	// failure: a missing right is one message and not one each second. It may be
	// nil.
	Failed func(error)
}

// Elect competes for the Lease until the context is done, and runs lead whenever
// it is won. The context of lead ends when the Lease is lost or ctx ends; lead must
// return then, because Elect waits for it. At the end the Lease is released, so
// that another replica takes over at once.
//
// Requests that fail or are denied are retried without limit. The error is about
// an invalid Election.
func (c *Cluster) Elect(ctx context.Context, election Election, lead func(context.Context)) error {
	lock := &watchedLock{failed: election.Failed, last: map[string]string{}, LeaseLock: resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: election.Namespace, Name: election.Name},
		Client:     c.Client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: election.Identity},
	}, timeout: cmp.Or(election.Renew, renewDeadline) / 2, interval: election.Interval}
	if held := election.Interval + cmp.Or(election.Retry, retryPeriod) + cmp.Or(election.Renew, renewDeadline); held >= cmp.Or(election.Duration, leaseDuration) {
		return fmt.Errorf("elect a leader: the interval, the retry period and the time to renew are %s together, and the Lease ends earlier", held)
	}
	if election.Namespace == "" || election.Name == "" {
		return errors.New("elect a leader: give the namespace and the name of a Lease")
	}
	for ctx.Err() == nil {
		if err := compete(ctx, election, lock, lead); err != nil {
			return fmt.Errorf("elect a leader by Lease %s: %w", lock.Describe(), err)
		}
	}
	return nil
}

// compete returns when the Lease was won and lost, or the context is done.
func compete(ctx context.Context, election Election, lock *watchedLock, lead func(context.Context)) error {
	var current leaderTerm
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: cmp.Or(election.Duration, leaseDuration),
		RenewDeadline: cmp.Or(election.Renew, renewDeadline),
		RetryPeriod:   cmp.Or(election.Retry, retryPeriod),
		// The elector would release while lead still runs, and end the context of
		// lead only after the release.
		ReleaseOnCancel: false,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) { current.run(ctx, held, lead) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	// The Lease is renewed until lead has returned, so its context outlives ctx.
	// The elector's own log would repeat the errors of the lock.
	holding, stop := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logr.Discard()))
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(holding)
	}()
	select {
	case <-ended:
		current.end()
		return nil
	case <-ctx.Done():
		current.end()
		stop()
		<-ended
		lock.release(ctx)
		return nil
	}
}

// leaderTerm is the time from winning the Lease to losing it. The elector runs the
// callback on a goroutine that it never waits for; leaderTerm does.
type leaderTerm struct {
	mu      sync.Mutex
	over    bool
	running sync.WaitGroup
}

func (l *leaderTerm) run(ctx, held context.Context, lead func(context.Context)) {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return
	}
	l.running.Add(1)
	l.mu.Unlock()
	defer l.running.Done()
	leading, stop := context.WithCancel(held)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	lead(leading)
}

// end waits for lead to return, and keeps a late callback from starting it.
func (l *leaderTerm) end() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.running.Wait()
}

// watchedLock is the Lease lock, and reports the failures of its requests.
type watchedLock struct {
	resourcelock.LeaseLock
	failed func(error)
	// last is the kind of the last failure by verb: with the right to read and not
	// to write, each read would otherwise look like a recovery.
	last map[string]string
	// timeout is that of each request. The elector has none while it competes, so a
	// connection that stalls would keep the replica from ever leading. Two requests
	// fit into the time in which a leader has to renew.
	timeout time.Duration
	// interval is the least time between two renewals, and renewed the last one
	// that was written; zero if the next one must be. The elector calls from one
	// goroutine at a time.
	interval time.Duration
	renewed  resourcelock.LeaderElectionRecord
}

// Get reads the Lease. The elector reads it when it does not lead or a renewal
// failed, so the next renewal is written.
func (w *watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	w.renewed = resourcelock.LeaderElectionRecord{}
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	record, raw, err := w.LeaseLock.Get(ctx)
	w.note("get", err)
	return record, raw, err
}

// Create creates the Lease.
func (w *watchedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	err := w.LeaseLock.Create(ctx, record)
	w.note("create", err)
	return err
}

// Update updates the Lease, unless it is a renewal soon after the last one.
func (w *watchedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if w.isRenewed(record) {
		return nil
	}
	w.renewed = resourcelock.LeaderElectionRecord{}
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	err := w.LeaseLock.Update(ctx, record)
	w.note("update", err)
	if err == nil {
		w.renewed = record
	}
	return err
}

// isRenewed reports whether a record differs from the last one that was written
// only by a time of renewal within the interval.
func (w *watchedLock) isRenewed(record resourcelock.LeaderElectionRecord) bool {
	age := record.RenewTime.Sub(w.renewed.RenewTime.Time)
	record.RenewTime = w.renewed.RenewTime
	return record == w.renewed && record.HolderIdentity != "" && age >= 0 && age < w.interval
}

// note reports an error if its kind is new. A Lease that does not exist yet, or a
// write that another replica won, is no failure.
func (w *watchedLock) note(verb string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	if apierrors.IsNotFound(err) && verb == "get" || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		err = nil
	}
	kind := FailureKind(err)
	if w.last[verb] == kind {
		return
	}
	w.last[verb] = kind
	if err != nil && w.failed != nil {
		w.failed(fmt.Errorf("%s Lease %s: %w", verb, w.Describe(), err))
	}
}

// release gives the Lease up if this replica holds it. A cancelled renewal may
// still reach the API server and cause a conflict, hence the retries.
func (w *watchedLock) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	for range releaseTries {
		held, _, err := w.Get(ctx)
		if err != nil || held.HolderIdentity != w.Identity() {
			return
		}
		now := metav1.Now()
		err = w.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions: held.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
		})
		if !apierrors.IsConflict(err) {
			return
		}
	}
}

// FailureKind returns a text that is equal for errors of the same cause, and empty
// for nil: the status reason of the API server, or else the innermost error, whose
// text has no ports and request numbers. It is for logging a failure once.
func FailureKind(err error) string {
	if err == nil {
		return ""
	}
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}
