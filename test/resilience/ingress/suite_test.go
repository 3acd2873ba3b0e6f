// Package ingress shows that an edge which serves a cluster goes on serving it,
// whatever becomes of the cluster: the built binary, a real API server that is
// stopped and killed, real sockets.
//
//   - continuity: clients that check every answer, while endpoints come and go,
//     rules are edited, certificates rotate, the API server is away and edges are
//     restarted. None of them may notice.
//   - leader: of two replicas one writes status, also when the one that did is
//     killed.
//   - readiness: an edge that does not know the whole cluster takes no traffic,
//     and says what it waits for.
//   - hostile: objects that are too much or nonsense hurt only themselves.
//   - rights: the roles in deploy/rbac are exactly what is used.
//
// Without a setting it is short, for `make test`. RESILIENCE=long gives it the
// time that `make resilience` has: three minutes of traffic, 200 edits, 100
// certificates.
package ingress

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

const (
	// binaryVariable names a binary to test in the place of a fresh one, for
	// example one that was broken on purpose to see the tests fail.
	binaryVariable = "EDGE_UNDER_TEST"
	// buildTimeout is for a machine that has compiled nothing yet.
	buildTimeout = 10 * time.Minute
	// patience bounds every wait. Only a test that fails waits so long.
	patience = 60 * time.Second
	// lookAgain is the pause between two looks at something that says nothing by
	// itself.
	lookAgain = 20 * time.Millisecond
)

// long says that there is time.
func long() bool { return os.Getenv("RESILIENCE") == "long" }

// TestIngress is one test, so that the program is built once.
func TestIngress(t *testing.T) {
	s := &suite{binary: binary(t)}
	t.Run("continuity", s.testContinuity)
	t.Run("leader", s.testLeader)
	t.Run("readiness", s.testReadiness)
	t.Run("hostile", s.testHostile)
	t.Run("rights", s.testRights)
}

// suite is what all tests share.
type suite struct {
	binary string
}

// binary builds the program as make does.
func binary(t *testing.T) string {
	t.Helper()
	if built := os.Getenv(binaryVariable); built != "" {
		return built
	}
	touchSources(t)
	built := filepath.Join(t.TempDir(), "slipway")
	ctx, cancel := context.WithTimeout(t.Context(), buildTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, "go", "build", "-o", built, "slipway.dev/slipway/cmd/slipway")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath -buildvcs=false")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("the edge does not build: %v\n%s", err, out)
	}
	return built
}

// touchSources looks at every source file of the program. The go command
// remembers what a test looked at: without this it would repeat an old result
// after a change of the edge, of which the tests import nothing.
func touchSources(t *testing.T) {
	t.Helper()
	for _, folder := range []string{"cmd", "internal", "api", "deploy"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				_, err = os.Stat(path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // somebody is editing
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// root is the top of the repository.
const root = "../../.."

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// connect gives a connection that writes more requests in a second than the
// cluster's own.
func connect(t *testing.T, cluster *kubetest.Cluster) *kube.Cluster {
	t.Helper()
	api, err := kube.Connect(cluster.Kubeconfig, kube.Version("resilience"), kube.Rate(1000, 1000))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	return api
}

// eventually waits until a condition holds. What it says is missing is shown
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
	for {
		err := condition()
		if err == nil {
			return nil
		}
		if !pause(ctx, lookAgain) {
			return err
		}
	}
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
