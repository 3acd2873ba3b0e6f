package division

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"slipway.dev/slipway/internal/observe"
)

// The parts of the duration of a Lease. A replica stops well before others may take
// over: the rest is for requests that are on their way.
const (
	// renewals is how many there are in a duration.
	renewals = 4
	// validNumerator/validDenominator of the duration a Lease is valid for its holder.
	validNumerator, validDenominator = 2, 3
	// retries is how many attempts of a renewal there are in its interval.
	retries = 4
	// deleteTimeout is for the deletion at the end.
	deleteTimeout = 5 * time.Second
)

// ownLease is the Lease of this replica.
type ownLease struct {
	name     string
	client   coordinationclient.LeaseInterface
	duration time.Duration
	division *Division
	// wake makes the renewal write now.
	wake chan struct{}

	mu sync.Mutex
	// until is when the Lease ends for this replica.
	until time.Time
	// wanted is the generation to acknowledge.
	wanted int64

	// current is the Lease as it was written or read last. It belongs to the goroutine
	// of renew.
	current *coordinationv1.Lease
}

// createLease creates the Lease of a new member.
func (d *Division) createLease(ctx context.Context, name string) (*ownLease, error) {
	l := &ownLease{
		name: name, client: d.Cluster.Client.CoordinationV1().Leases(d.Cluster.Namespace), duration: d.Duration, division: d,
		wake: make(chan struct{}, 1),
	}
	sent := time.Now()
	now := metav1.NewMicroTime(sent)
	seconds := int32(max(1, d.Duration/time.Second))
	ctx, cancel := context.WithTimeout(ctx, d.Duration/renewals)
	defer cancel()
	made, err := l.client.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{divisionLabel: d.Name}, Annotations: map[string]string{acknowledgedAnnotation: "0"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &d.Identity, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create the Lease of this replica: %w", err)
	}
	l.current = made
	l.extend(sent)
	return l, nil
}

// extend makes the Lease valid from the time at which a request was sent that
// succeeded.
func (l *ownLease) extend(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = sent.Add(l.duration * validNumerator / validDenominator)
}

// isValid reports whether the Lease is valid by the clock that counts on, and by that of
// the wall: the first stands still while a machine is suspended, and the second can be
// set back.
func (l *ownLease) isValid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return now.Before(l.until) && now.Round(0).Before(l.until.Round(0))
}

// check is the fence of writes.
func (l *ownLease) check() error {
	if l.isValid() {
		return nil
	}
	return errLost
}

// acknowledge makes the next renewal, which is now, write a generation.
func (l *ownLease) acknowledge(number int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number <= l.wanted {
		return
	}
	l.wanted = number
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// renew renews the Lease until the context is done, or the Lease is lost, which is the
// error.
func (l *ownLease) renew(ctx context.Context) error {
	interval := l.duration / renewals
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-l.wake:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		err := l.renewOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case apierrors.IsNotFound(err):
			return errLost
		case !l.isValid():
			return fmt.Errorf("%w: %w", errLost, err)
		case err != nil:
			l.division.Log.Warn("cannot renew the Lease of this replica; retrying", observe.KeyError, err)
			timer.Reset(interval / retries) // the next attempt writes the generation too
		default:
			timer.Reset(interval)
		}
	}
}

// renewOnce writes the Lease for the version that was read last. After a conflict, which
// is a write of ours whose response was lost, it is read again.
func (l *ownLease) renewOnce(ctx context.Context) error {
	l.mu.Lock()
	wanted, expired := l.wanted, !time.Now().Before(l.until)
	l.mu.Unlock()
	if expired {
		return errLost // others may have taken over: it is not revived
	}
	ctx, cancel := context.WithTimeout(ctx, l.duration/renewals)
	defer cancel()
	next := l.current.DeepCopy()
	sent := time.Now()
	now := metav1.NewMicroTime(sent)
	next.Spec.RenewTime = &now
	next.Annotations[acknowledgedAnnotation] = strconv.FormatInt(wanted, 10)
	response, err := l.client.Update(ctx, next, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		if l.current, err = l.client.Get(ctx, l.name, metav1.GetOptions{}); err != nil {
			return err
		}
		next.ResourceVersion = l.current.ResourceVersion
		response, err = l.client.Update(ctx, next, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	l.current = response
	l.extend(sent)
	return nil
}

// delete removes the Lease, so that others take over at once. All claims have ended.
func (l *ownLease) delete(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	if err := l.client.Delete(ctx, l.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		l.division.Log.Warn("cannot delete the Lease of this replica; its Applications move when it has expired", observe.KeyError, err)
	}
}
