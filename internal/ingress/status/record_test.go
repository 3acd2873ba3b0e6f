package status

import (
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
)

// The watch is behind our own writes: versions from before one are ignored.
func TestOlderIngressIsNotSeen(t *testing.T) {
	ours := []addressEntry{{IP: "192.0.2.1"}}
	known := &statusRecord{uid: "1", ours: true}
	known.observeObject(testIngress("shop", "1", 99))
	known.written(stepWrite, ours, testIngress("shop", "1", 101, ours...), time.Now())
	known.observeObject(testIngress("shop", "1", 100))
	if got, _, _ := known.next(&published{addresses: ours}, time.Now()); got != stepLeave {
		t.Errorf("got step %d for an Ingress from before the write", got)
	}
	known.observeObject(testIngress("shop", "1", 102))
	if got, _, _ := known.next(&published{addresses: ours}, time.Now()); got != stepWrite {
		t.Errorf("got step %d for an Ingress from after the write", got)
	}
}

func TestGoal(t *testing.T) {
	ours, other := []addressEntry{{IP: "192.0.2.1"}}, []addressEntry{{IP: "192.0.2.2"}}
	for _, test := range []struct {
		name      string
		known     statusRecord
		addresses []addressEntry
		want      step
	}{
		{"new", statusRecord{ours: true}, ours, stepWrite},
		{"written", statusRecord{ours: true, managed: true, seen: ours}, ours, stepLeave},
		{"written by others, as we would", statusRecord{ours: true, seen: ours}, ours, stepLeave},
		{"another address", statusRecord{ours: true, managed: true, seen: other}, ours, stepWrite},
		{"address unknown", statusRecord{ours: true, managed: true, seen: other}, nil, stepLeave},
		{"no longer ours", statusRecord{managed: true, seen: ours}, ours, stepWithdraw},
		{"no longer ours, and the address has changed since", statusRecord{managed: true, seen: other, wrote: other}, ours, stepWithdraw},
		{"no longer ours, and the address is not known any more", statusRecord{managed: true, seen: other, wrote: other}, nil, stepWithdraw},
		{"another Slipway's", statusRecord{managed: true, seen: other}, ours, stepLeave},
		{"another Slipway's, and our address is unknown", statusRecord{managed: true, seen: other}, nil, stepLeave},
		{"another controller's", statusRecord{seen: ours}, ours, stepLeave},
		{"withdrawn", statusRecord{managed: true}, ours, stepLeave},
	} {
		if got, _ := test.known.goal(&published{addresses: test.addresses}, &statusDecision{}); got != test.want {
			t.Errorf("%s: got step %d, want %d", test.name, got, test.want)
		}
	}
}

func TestSigned(t *testing.T) {
	object := testIngress("shop", "1", 1)
	if !isManaged(object) || isManaged(&networkingv1.Ingress{}) {
		t.Error("our field manager is not found, or found where it is not")
	}
	object.ManagedFields[0].Subresource = ""
	if isManaged(object) {
		t.Error("who has the spec is not who has the status")
	}
}

func TestRetryAfter(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: retryFirst, 2: 2 * retryFirst, 5: 16 * retryFirst, 9: retryLimit, 1000: retryLimit} {
		if got := retryAfter(failures); got < want || got > want*13/10 {
			t.Errorf("after %d failures: got %s, want about %s", failures, got, want)
		}
	}
}
