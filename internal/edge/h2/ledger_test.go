package h2

import (
	"testing"
	"testing/synctest"
	"time"
)

// Frames that are used up come back with time.
func TestControlRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		l := newLedger(&cfg)
		ping := frame{kind: framePing, length: 8}
		send := func(n int) (reason string) {
			for range n {
				if reason = l.fromClient(&ping); reason != "" {
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
