// Package ingress shows that an edge which serves a cluster goes on serving it,
// whatever becomes of the cluster: the built binary, a real API server that is
// stopped and killed, real sockets.
//
//   - continuity: clients that check every response, while endpoints come and go,
//     rules are edited, certificates rotate, the API server is away and edges are
//     restarted. None of them may notice.
//   - gateways: the same by Gateway API, with requests of five protocols: endpoints,
//     routes of all kinds, listeners and certificates change.
//   - nginx switch: ingress-nginx is replaced by the edge and comes back, and one of them
//     writes status.
//   - leader: of two replicas one writes status, also when the one that did is
//     killed.
//   - readiness: an edge that does not know the whole cluster takes no traffic,
//     and reports what it waits for.
//   - hostile: objects that are too much or nonsense hurt only themselves.
//   - rights: the roles in deploy/rbac are exactly what is used, those for Gateways too.
//
// Without a setting it is short, for `make test`. RESILIENCE=long gives it the
// time that `make resilience` has: three minutes of traffic, 200 edits, 100
// certificates. CHURN is the time of gateways alone, 10 minutes for make churn.
package ingress

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

const (
	// patience bounds every wait. Only a test that fails waits so long.
	patience = 60 * time.Second
	// lookAgain is the pause between two looks at something that sends no event by
	// itself.
	lookAgain = 20 * time.Millisecond
)

// long reports whether there is time.
func long() bool { return os.Getenv("RESILIENCE") == "long" }

// TestIngress is one test, so that the program is built once.
func TestIngress(t *testing.T) {
	s := &suite{binary: binary.Path(t)}
	t.Run("continuity", s.testContinuity)
	t.Run("gateways", s.testGateways)
	t.Run("nginx switch", s.testNGINXSwitch)
	t.Run("leader", s.testLeader)
	t.Run("readiness", s.testReadiness)
	t.Run("hostile", s.testHostile)
	t.Run("rights", s.testRights)
	t.Run("gateway rights", s.testGatewayRights)
}

// suite is what all tests share.
type suite struct {
	binary string
}

// root is the top of the repository.
const root = "../../.."

func readFile(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(root, path)))(t)
	return string(text)
}

// connect gives a connection that writes more requests in a second than the
// cluster's own.
func connect(t *testing.T, cluster *kubetest.Cluster) *kube.Cluster {
	t.Helper()
	api := must.Get(kube.Connect(cluster.Kubeconfig, kube.Version("resilience"), kube.Rate(1000, 1000)))(t)
	t.Cleanup(api.Close)
	return api
}

// eventually waits until a condition holds. The condition's last error is shown
// when it does not.
func eventually(t *testing.T, within time.Duration, condition func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if err := until(ctx, condition); err != nil {
		t.Fatalf("after %v: %v", within, err)
	}
}

// until is eventually for any goroutine. It returns what is missing when the
// context is done first.
func until(ctx context.Context, condition func() error) error {
	return programs.Await(ctx, func(context.Context) error { return condition() })
}

// pause waits, and reports whether the context is not done.
func pause(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// hostOf is an address of the loopback network for a server of a test. The
// network is the test's own, so all of them are free.
func hostOf(third, fourth byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, third, fourth}) }
