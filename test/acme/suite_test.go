// Package acme shows that certificates are fetched by ACME for any number of
// replicas: the built binary, a real API server, and pebble, the test server of
// Let's Encrypt, which validates its challenges itself. Names are
// those of BIND, which the edges write TXT records to; acme-dns is a stand-in with
// its documented API.
//
// Two edges stand behind one address, as they do behind a Service: a request
// there reaches one or the other.
package acme

import (
	"context"
	"net/netip"
	"testing"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/programs"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// TestCertificates is one test, so that the program is built once and the
// cluster started once.
func TestCertificates(t *testing.T) {
	w := newWorld(t)
	t.Run("order", w.testOrder)
	t.Run("preview", w.testPreview)
	t.Run("domains", w.testDomains)
	t.Run("wildcard", w.testWildcard)
	t.Run("acme-dns", w.testAcmeDNS)
	t.Run("renewal", w.testRenewal)
	t.Run("foreign host", w.testForeignHost)
	t.Run("broken authority", w.testBrokenAuthority)
	t.Run("restart", w.testRestart)
	t.Run("leader killed", w.testLeaderKilled)
}

// eventually waits until a condition holds. The condition's last error is shown
// when it does not.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	programs.Eventually(t, func(context.Context) error { return condition() })
}

// hostOf is an address of the loopback network for a server of the test. The
// network is the test's own, so all of them are free.
func hostOf(last byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 7, last}) }
