package status

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/programs"
)

// The limits take minutes to show. These tests run in a time of their own, with
// an API server that only notes when it was asked.
type asked struct {
	mu      sync.Mutex
	times   []time.Time
	notices []string
	version int
	fail    error
}

func (a *asked) note() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times = append(a.times, time.Now())
}

// within is how many there were at most in any span of that length.
func (a *asked) within(span time.Duration) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	most := 0
	for i, first := range a.times {
		number := 0
		for _, at := range a.times[i:] {
			if at.Sub(first) < span {
				number++
			}
		}
		most = max(most, number)
	}
	return most
}

func (a *asked) number() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.times)
}

// succeedAfterAnHour counts the tries of an hour that all fail. Then one
// succeeds, and there may be no other.
func (a *asked) succeedAfterAnHour(t *testing.T) {
	t.Helper()
	pass(time.Hour)
	if got := a.number(); got < 45 || got > 70 {
		t.Errorf("%d tries in an hour", got)
	}
	a.mu.Lock()
	a.fail = nil
	a.mu.Unlock()
	pass(2 * time.Minute)
	before := a.number()
	pass(time.Hour)
	if a.number() != before {
		t.Error("it is written again after it was written")
	}
}

// leadFor runs a leader in the time of the bubble.
func leadFor(t *testing.T, options Options, requests *asked) *Writer {
	t.Helper()
	w := New(&kube.Cluster{}, options)
	w.apply = func(_ context.Context, task statusWrite) (*networkingv1.Ingress, error) {
		requests.note()
		requests.mu.Lock()
		defer requests.mu.Unlock()
		if requests.fail != nil {
			return nil, requests.fail
		}
		requests.version++
		return testIngress(task.at.name, task.uid, 1000+requests.version, task.addresses...), nil
	}
	w.announce = func(_ context.Context, notice kube.Notice) error {
		requests.note()
		requests.mu.Lock()
		defer requests.mu.Unlock()
		requests.notices = append(requests.notices, notice.Reason)
		return requests.fail
	}
	ctx, stop := context.WithCancel(t.Context())
	programs.Background(t, func() { w.lead(ctx) }, stop)
	synctest.Wait()
	return w
}

func testIngress(name string, uid types.UID, version int, addresses ...addressEntry) *networkingv1.Ingress {
	object := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: uid, ResourceVersion: fmt.Sprint(version),
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: FieldManager, Subresource: "status"}},
	}}
	object.Status.LoadBalancer.Ingress = addresses
	return object
}

// pass lets time go by in the bubble.
func pass(span time.Duration) {
	<-time.After(span)
	synctest.Wait()
}

func TestWriteRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests asked
		w := leadFor(t, Options{IP: "192.0.2.1"}, &requests)
		for i := range 1000 {
			w.Ingress(testIngress(fmt.Sprint(i), "1", 1), true, engine.Condition{})
		}
		pass(time.Second)
		if first := requests.within(time.Second); first < writeBurst || first > writeBurst+writesPerSecond {
			t.Errorf("%d writes in the first second", first)
		}
		pass(time.Minute)
		if requests.number() != 1000 {
			t.Errorf("%d writes for 1000 Ingresses", requests.number())
		}
		if got := requests.within(10 * time.Second); got > writeBurst+10*writesPerSecond {
			t.Errorf("%d writes in ten seconds", got)
		}
	})
}

// A slow API server gets four writes at a time, and never two for one Ingress,
// however often that changes meanwhile.
func TestWritesUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests asked
		w := leadFor(t, Options{IP: "192.0.2.1"}, &requests)
		var mu sync.Mutex
		most, number, underWay := 0, 0, map[ingressKey]int{}
		apply := w.apply
		w.apply = func(ctx context.Context, task statusWrite) (*networkingv1.Ingress, error) {
			mu.Lock()
			underWay[task.at]++
			number++
			most = max(most, number)
			if underWay[task.at] > 1 {
				t.Errorf("two writes of %s at a time", task.at.name)
			}
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			defer mu.Unlock()
			underWay[task.at]--
			number--
			return apply(ctx, task)
		}
		for version := range 100 {
			for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
				w.Ingress(testIngress(name, "1", 10000+version, addressEntry{IP: "192.0.2.77"}), true, engine.Condition{})
			}
			pass(100 * time.Millisecond)
		}
		if most != writeWorkers {
			t.Errorf("%d writes at a time, want %d", most, writeWorkers)
		}
	})
}

// A write that fails is tried again, later each time.
func TestWriteRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := asked{fail: errors.New("no")}
		w := leadFor(t, Options{IP: "192.0.2.1"}, &requests)
		w.Ingress(testIngress("shop", "1", 1), true, engine.Condition{})
		for range 100 {
			pass(100 * time.Millisecond)
			// A change of the Ingress is no reason to be faster.
			w.Ingress(testIngress("shop", "1", 2), true, engine.Condition{})
		}
		if got := requests.number(); got < 4 || got > 6 {
			t.Errorf("%d tries in ten seconds", got)
		}
		requests.succeedAfterAnHour(t)
		w.Gone("shop", "shop")
	})
}

// A status that is overwritten each second is written four times, and then twice
// a minute, for as long as that lasts. When it has stood for a while the dispute
// is over.
func TestContestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests asked
		w := leadFor(t, Options{IP: "192.0.2.1"}, &requests)
		w.Ingress(testIngress("shop", "1", 1), true, engine.Condition{})
		synctest.Wait()
		version := 10000
		fight := func(seconds int) {
			for range seconds {
				pass(time.Second)
				version++
				w.Ingress(testIngress("shop", "1", version, addressEntry{IP: "192.0.2.77"}), true, engine.Condition{})
			}
		}
		statusWrites := func() int { return requests.number() - len(requests.notices) }
		fight(20)
		if got := statusWrites(); got != 1+contestTries {
			t.Errorf("%d writes in the first seconds, want %d", got, 1+contestTries)
		}
		fight(600)
		if got := statusWrites(); got < 20 || got > 26 {
			t.Errorf("%d writes in ten minutes", got)
		}
		if fmt.Sprint(requests.notices) != "[RefusedConflict]" {
			t.Errorf("got Events %v", requests.notices)
		}
		pass(contestPause)
		w.Ingress(testIngress("shop", "1", version+1, addressEntry{IP: "192.0.2.1"}), true, engine.Condition{})
		pass(2 * contestQuiet)
		if fmt.Sprint(requests.notices) != "[RefusedConflict Accepted]" {
			t.Errorf("got Events %v", requests.notices)
		}
	})
}

func TestEventRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests asked
		w := leadFor(t, Options{}, &requests)
		object := snapshot.Ref{Kind: snapshot.Ingress, Namespace: "shop", Name: "one"}
		// One object whose refusals change each second.
		for i := range 300 {
			w.Refusals(object, faults(refusal.Invalid, "", fmt.Sprint(i)))
			pass(time.Second)
		}
		if got := requests.within(time.Minute); got > eventsPerObject {
			t.Errorf("%d Events about one object in a minute", got)
		}
		if got := requests.number(); got < 4*eventsPerObject {
			t.Errorf("%d Events about one object in five minutes", got)
		}
		// Going and coming does not get around it.
		for range 300 {
			w.Refusals(object, nil)
			pass(time.Second)
			w.Refusals(object, faults(refusal.Invalid, "", "no"))
			pass(time.Second)
		}
		if got := requests.within(time.Minute); got > eventsPerObject {
			t.Errorf("%d Events about one object in a minute", got)
		}
		w.Refusals(object, nil)
		pass(5 * time.Minute)
		if got := requests.notices[len(requests.notices)-1]; got != reasonAccepted {
			t.Errorf("the last Event is %s", got)
		}
		if len(w.recorders) != 0 {
			t.Errorf("%d objects are remembered with nothing to tell", len(w.recorders))
		}

		before := requests.number()
		for i := range 200 {
			object.Name = fmt.Sprint(i)
			w.Refusals(object, faults(refusal.Invalid, "", "one", "two"))
		}
		pass(time.Minute)
		if got := requests.within(time.Second); got > 20 {
			t.Errorf("%d Events in a second", got)
		}
		if got := requests.number() - before; got != 400 {
			t.Errorf("%d Events for 400 refusals", got)
		}
	})
}

// What is not ready becomes an Event when it stays so.
func TestNotReadyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests asked
		w := leadFor(t, Options{}, &requests)
		object := snapshot.Ref{Kind: snapshot.Ingress, Namespace: "shop", Name: "one"}
		w.Refusals(object, faults(refusal.NotReady, "", "it is being read"))
		pass(notReadyGrace - time.Second)
		w.Refusals(object, nil)
		pass(time.Minute)
		if requests.number() != 0 {
			t.Errorf("got Events %v about what was not ready for a moment", requests.notices)
		}
		w.Refusals(object, faults(refusal.NotReady, "", "it is being read"))
		pass(notReadyGrace - time.Second)
		w.Refusals(object, append(faults(refusal.Invalid, "", "no"), faults(refusal.NotReady, "", "it is being read")...))
		pass(2 * time.Second)
		if fmt.Sprint(requests.notices) != "[RefusedInvalid RefusedNotReady]" {
			t.Errorf("got Events %v", requests.notices)
		}
	})
}

// An Ingress that was created again gets its Events again, and one that is gone
// has none.
func TestEventsOfNewAndGoneIngresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests asked
		w := leadFor(t, Options{}, &requests)
		object := snapshot.Ref{Kind: snapshot.Ingress, Namespace: "shop", Name: "one"}
		w.Ingress(testIngress("one", "1", 1), true, engine.Condition{})
		w.Refusals(object, faults(refusal.Invalid, "", "no"))
		pass(time.Second)
		w.Ingress(testIngress("one", "2", 5), true, engine.Condition{})
		w.Refusals(object, faults(refusal.Invalid, "", "no"))
		pass(time.Second)
		if requests.number() != 2 {
			t.Errorf("got Events %v, want one for each of the two", requests.notices)
		}
		w.Gone("shop", "one")
		w.Refusals(object, nil)
		pass(time.Hour)
		if requests.number() != 2 {
			t.Errorf("got Events %v about an Ingress that is gone", requests.notices)
		}
	})
}

// An Event that fails is tried again, later each time, and not forgotten.
func TestEventRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := asked{fail: errors.New("no")}
		w := leadFor(t, Options{}, &requests)
		w.Refusals(snapshot.Ref{Kind: snapshot.Secret, Namespace: "shop", Name: "one"}, faults(refusal.Invalid, "", "no"))
		requests.succeedAfterAnHour(t)
	})
}
