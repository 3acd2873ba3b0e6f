// Package acme shows that certificates are fetched by ACME for any number of
// replicas: the built binary, a real API server, and pebble, the test server of
// Let's Encrypt, which looks for the answers to its challenges itself.
//
// Two edges stand behind one address, as they do behind a Service: whoever asks
// there gets one or the other.
package acme

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"slipway.dev/slipway/internal/kube/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

const (
	// patience bounds every wait. Only a test that fails waits so long.
	patience  = 60 * time.Second
	lookAgain = 25 * time.Millisecond
)

// TestCertificates is one test, so that the program is built once and the
// cluster started once.
func TestCertificates(t *testing.T) {
	w := newWorld(t)
	t.Run("order", w.testOrder)
	t.Run("domains", w.testDomains)
	t.Run("renewal", w.testRenewal)
	t.Run("foreign host", w.testForeignHost)
	t.Run("broken authority", w.testBrokenAuthority)
	t.Run("restart", w.testRestart)
	t.Run("leader killed", w.testLeaderKilled)
}

// eventually waits until a condition holds. What it says is missing is shown
// when it does not.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := condition()
		if err == nil {
			return
		}
		timer := time.NewTimer(lookAgain)
		select {
		case <-timer.C:
		case <-ctx.Done():
			t.Fatalf("after %v: %v", patience, err)
		}
	}
}

// hostOf is an address of the loopback network for a server of the test. The
// network is the test's own, so all of them are free.
func hostOf(last byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 7, last}) }
