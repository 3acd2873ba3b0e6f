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
	// client-go stretches the period by up to 1.2 times itself, and a leader that
	// died is missed after one period, the lease and another period: 19.4 s at
	// most. With the usual 2 s it would be 23.8.
	retryPeriod = time.Second

	releaseTimeout = 5 * time.Second
	releaseTries   = 3
)

// Election is a Lease that replicas compete for. It needs the verbs get, create
// and update on leases of coordination.k8s.io in its namespace, and no other.
type Election struct {
	Namespace string
	Name      string
	// Identity is who competes. Two processes that live at the same time must not
	// share one.
	Identity string

	// Duration is how long a leader that is not heard of stays leader; 15 s when
	// it is zero. The API server keeps whole seconds.
	Duration time.Duration
	// Renew is how long a leader tries to renew before it stops; 10 s when it is
	// zero. It is shorter than Duration, so that there is never a second leader.
	Renew time.Duration
	// Retry is how often the Lease is looked at; 1 s when it is zero.
	Retry time.Duration

	// Failed is told what keeps us from competing, once for each change of it: a
	// right that is missing is one message and not one each second. It may be
	// nil.
	Failed func(error)
}

// Elect competes for the Lease until the context is done, and runs lead
// whenever it is won. The context of lead ends as soon as the Lease is lost, and
// also when ctx ends; lead must return then, because nothing else goes on before
// it has. At the end the Lease is released, so that another replica takes over
// at once.
//
// An API server that is away or says no is asked again for as long as it takes.
// The error is about an Election that cannot work.
func (c *Cluster) Elect(ctx context.Context, election Election, lead func(context.Context)) error {
	lock := &watchedLock{failed: election.Failed, last: map[string]string{}, LeaseLock: resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: election.Namespace, Name: election.Name},
		Client:     c.Client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: election.Identity},
	}}
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

// compete goes on until the Lease was won and lost, or the context is done.
func compete(ctx context.Context, election Election, lock *watchedLock, lead func(context.Context)) error {
	var current leaderTerm
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: cmp.Or(election.Duration, leaseDuration),
		RenewDeadline: cmp.Or(election.Renew, renewDeadline),
		RetryPeriod:   cmp.Or(election.Retry, retryPeriod),
		// The elector would release while lead still runs, and would keep lead
		// running for as long as the release takes.
		ReleaseOnCancel: false,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) { current.run(ctx, held, lead) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	// The Lease is renewed until lead has returned, so it outlives ctx. The
	// elector's own log repeats what the lock sees.
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

// leaderTerm is the time from winning the Lease to losing it. The elector starts
// the work on a goroutine of its own that it never waits for.
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

// end waits for the work, and lets none begin.
func (l *leaderTerm) end() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.running.Wait()
}

// watchedLock is the Lease, and remembers what its requests failed with.
type watchedLock struct {
	resourcelock.LeaseLock
	failed func(error)
	// last is the kind of the last failure by verb: one that may read and not
	// write would otherwise seem to recover each time it reads.
	last map[string]string
}

// Get reads the Lease.
func (w *watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := w.LeaseLock.Get(ctx)
	w.note("get", err)
	return record, raw, err
}

// Create makes the Lease.
func (w *watchedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := w.LeaseLock.Create(ctx, record)
	w.note("create", err)
	return err
}

// Update writes the Lease.
func (w *watchedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := w.LeaseLock.Update(ctx, record)
	w.note("update", err)
	return err
}

// note passes an error on when it is another one than before. That a Lease does
// not exist yet, or that somebody else was faster, is no failure.
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

// release gives the Lease up if it is ours. A renewal that was cut off may still
// arrive at the API server, hence the tries.
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

// FailureKind is the same for errors that a person would call the same, and
// empty for nil: the reason that the API server gives, or else the innermost
// error, which has no ports and request numbers in its text.
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
