package kubetest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// MainOption changes what Main checks.
type MainOption func(*mainSettings)

type mainSettings struct {
	allowLeaks bool
}

// AllowLeaks switches off the check for goroutines that are left behind at
// the end of all tests.
func AllowLeaks() MainOption {
	return func(settings *mainSettings) { settings.allowLeaks = true }
}

// Main runs a package's tests in a private network, and exits. It is all that
// a TestMain needs:
//
//	func TestMain(m *testing.M) { kubetest.Main(m) }
//
// The first process starts the same test binary again in the network and
// passes on signals and the exit code. A process that was started by a test
// in the network, such as a fuzz worker, stays in that network.
//
// When all tests pass, goroutines that are still running fail the run.
func Main(m *testing.M, options ...MainOption) {
	var settings mainSettings
	for _, option := range options {
		option(&settings)
	}
	inside, err := enterNetwork()
	if err != nil {
		fmt.Fprintf(os.Stderr, "kubetest: %v\n", err)
		os.Exit(1)
	}
	if !inside {
		exitWithoutHooks(runInNetwork())
	}
	os.Exit(runTests(m, settings))
}

func runTests(m *testing.M, settings mainSettings) int {
	code := m.Run()
	if err := process.stopShared(); err != nil {
		fmt.Fprintf(os.Stderr, "kubetest: %v\n", err)
		code = max(code, 1)
	}
	if code != 0 || settings.allowLeaks {
		return code
	}
	// klog flushes its files in a goroutine that starts with the program.
	if err := goleak.Find(goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1")); err != nil {
		fmt.Fprintf(os.Stderr, "kubetest: goroutines are left after all tests: %v\n", err)
		return 1
	}
	return 0
}
