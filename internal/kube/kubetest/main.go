package kubetest

import (
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/kube/kubetest/privatenet"
)

// MainOption changes what Main checks.
type MainOption func(*mainSettings)

// mainSettings are the collected options of Main.
type mainSettings struct {
	allowLeaks bool
}

// AllowLeaks disables the check for goroutines that still run after all tests.
func AllowLeaks() MainOption {
	return func(settings *mainSettings) { settings.allowLeaks = true }
}

// Main runs a package's tests in a private network, and exits. It is all that a
// TestMain needs:
//
//	func TestMain(m *testing.M) { kubetest.Main(m) }
//
// The first process starts the same test binary again in a new network
// namespace, and forwards signals and the exit code. A process that a test
// starts, such as a fuzz worker, stays in that namespace.
//
// After all tests have passed, goroutines that still run fail the run.
func Main(m *testing.M, options ...MainOption) {
	var settings mainSettings
	for _, option := range options {
		option(&settings)
	}
	inside, err := privatenet.Enter()
	if err != nil {
		fmt.Fprintf(os.Stderr, "kubetest: %v\n", err)
		os.Exit(1)
	}
	if !inside {
		// Without the exit hooks of the runtime: this process ran no test, so with
		// coverage enabled the hook would write an empty profile or fail.
		syscall.Exit(privatenet.Run("kubetest", os.Stderr))
	}
	os.Exit(runTests(m, settings))
}

// runTests runs the tests, stops the shared cluster, and checks for leaks. The
// cluster goes first: its connection has goroutines of its own. After a failure
// the leak check is skipped, because a failed test often leaks.
func runTests(m *testing.M, settings mainSettings) int {
	// Like the cluster: most of what a client decodes is garbage at once. Not by the
	// environment, in which programs that a test starts would find it.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectPercent)
	}
	code := m.Run()
	if err := process.stopShared(); err != nil {
		fmt.Fprintf(os.Stderr, "kubetest: %v\n", err)
		code = max(code, 1)
	}
	if code != 0 || settings.allowLeaks {
		return code
	}
	// klog starts a goroutine that flushes its files in an init function, and
	// has no way to stop it.
	if err := goleak.Find(goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1")); err != nil {
		fmt.Fprintf(os.Stderr, "kubetest: goroutines are left after all tests: %v\n", err)
		return 1
	}
	return 0
}
