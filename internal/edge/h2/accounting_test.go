package h2

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestControlRate: the budget of control frames is refilled with time.
func TestControlRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		a := newAccounting(&cfg)
		ping := frame{kind: framePing, length: 8}
		send := func(n int) (reason string) {
			for range n {
				if reason = a.countReceived(&ping); reason != "" {
					return reason
				}
			}
			return ""
		}
		if reason := send(1000); reason != "" {
			t.Fatalf("a thousand: %s", reason)
		}
		for range 100 {
			<-time.After(time.Second)
			if reason := send(20); reason != "" {
				t.Fatalf("twenty a second: %s", reason)
			}
		}
		if reason := send(2); reason != ReasonPings {
			t.Errorf("one more: %q", reason)
		}
	})
}
