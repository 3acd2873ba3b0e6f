// Package acme shows that certificates are fetched by ACME for any number of
// replicas: the built binary, a real API server, and pebble, the test server of
// Let's Encrypt, which looks for the answers to its challenges itself.
//
// Two edges stand behind one address, as they do behind a Service: whoever asks
// there gets one or the other.
package acme

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

	"slipway.dev/slipway/internal/kube/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

const (
	// binaryVariable names a binary to test in the place of a fresh one, for
	// example one that was broken on purpose to see the tests fail.
	binaryVariable = "EDGE_UNDER_TEST"
	buildTimeout   = 10 * time.Minute
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
		err := filepath.WalkDir(filepath.Join("../..", folder), func(path string, _ fs.DirEntry, err error) error {
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
