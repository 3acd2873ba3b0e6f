package notify

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/notify/service"
)

// TestSlots: a service has as many messages in flight as it has slots, beside others.
func TestSlots(t *testing.T) {
	slots := newServiceSlots()
	for range serviceInFlight {
		if !slots.enter("slack") {
			t.Fatal("there is no slot")
		}
	}
	if slots.enter("slack") || !slots.enter("email") {
		t.Error("the slots of a service are not its own")
	}
	slots.leave("slack")
	if !slots.enter("slack") {
		t.Error("a slot was not given back")
	}
}

// TestFailed: a service that names a time is tried again then, and another one by the
// backoff.
func TestFailed(t *testing.T) {
	c := New(Options{Identity: "one"})
	defer c.queue.ShutDown()
	a := &application{name: types.NamespacedName{Name: "shop"}, record: record{}}
	if pause := c.failed(t.Context(), a, delivery{key: "busy"}, &service.BusyError{After: time.Hour}); pause != time.Hour {
		t.Errorf("a busy service is tried again after %s", pause)
	}
	if pause := c.failed(t.Context(), a, delivery{key: "away"}, errors.New("connection refused")); pause < 2*time.Second || pause > 3*time.Second {
		t.Errorf("a service that is away is tried again after %s", pause)
	}
	if left, blocked := c.pause(a, delivery{key: "busy"}, time.Now()); left < 59*time.Minute || blocked {
		t.Errorf("the busy service waits for %s, blocked: %t", left, blocked)
	}
}

// TestSooner: zero is no delay.
func TestSooner(t *testing.T) {
	for _, one := range []struct{ x, y, want time.Duration }{{0, 0, 0}, {0, 2, 2}, {2, 0, 2}, {1, 2, 1}, {2, 1, 1}} {
		if got := sooner(one.x, one.y); got != one.want {
			t.Errorf("of %d and %d it is %d", one.x, one.y, got)
		}
	}
}
