package up

import (
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// install puts the test binary in the place of slipway-devcluster, and returns
// the path that slipway itself would have beside it.
func install(t *testing.T, mode string) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.Symlink(testBinary(t), filepath.Join(dir, devclusterBinary)))
	t.Setenv(fakeMode, mode)
	return filepath.Join(dir, "slipway")
}

func testBinary(t *testing.T) string {
	t.Helper()
	return must.Get(os.Executable())(t)
}

// freeOptions are options for a state directory and ports of the test's own.
func freeOptions(t *testing.T, program string) Options {
	t.Helper()
	var ports []fixedPort
	for _, p := range parts() {
		ports = append(ports, p.ports...)
	}
	options := Options{Dir: filepath.Join(t.TempDir(), "state"), Executable: program, Timeout: testDeadline}
	// Below the ports that the kernel gives to connections: others are busy on this
	// machine too.
	const least, most = 3_000, 23_000
	for range 100 {
		options.PortOffset = least + rand.IntN(most-least)
		if allFree(ports, options.PortOffset) {
			return options
		}
	}
	t.Fatal("there are no free ports")
	return options
}

func TestRunReportsRefusal(t *testing.T) {
	options := freeOptions(t, install(t, "refuse"))
	shown := &programs.Output{}
	err := Run(t.Context(), options, UI{Out: shown, Progress: shown})
	requireText(t, err, "devcluster ended by itself (exit status 1)", "in use by pid 4711")
	if strings.Contains(shown.String(), "slipway is up") {
		t.Errorf("said that it is up:\n%s", shown)
	}
	// Nothing runs, so the directory is free.
	if _, err := open(t, options.Dir); err != nil {
		t.Error(err)
	}
}

func TestRunTimeout(t *testing.T) {
	options := freeOptions(t, install(t, "silent"))
	options.Timeout = 200 * time.Millisecond
	shown := &programs.Output{}
	err := Run(t.Context(), options, UI{Out: shown, Progress: shown})
	requireText(t, err, "devcluster: not ready within 200ms (--timeout): waiting for the API server", "devcluster.log")
	if !strings.Contains(shown.String(), "devcluster: stopped") {
		t.Errorf("did not say that it stopped:\n%s", shown)
	}
}

// What cannot start must not destroy what was there.
func TestFailedResetKeepsTheState(t *testing.T) {
	listener := programs.Listen(t, "")
	port := listener.Addr().(*net.TCPAddr).Port
	options := freeOptions(t, install(t, "silent"))
	s, err := open(t, options.Dir)
	must.Do(t, err)
	s.close()
	put(t, options.Dir, "devcluster/etcd", "x")
	options.Reset, options.PortOffset = true, port-apiServerPort
	shown := &programs.Output{}
	err = Run(t.Context(), options, UI{Out: shown, Progress: shown})
	requireText(t, err, "port "+strconv.Itoa(port), "--port-offset")
	if got := tree(t, options.Dir); !slices.Contains(got, "devcluster/etcd") {
		t.Errorf("the state is gone: %q", got)
	}
}

func TestRunRefusesForeignDirectory(t *testing.T) {
	for _, reset := range []bool{false, true} {
		options := freeOptions(t, install(t, "silent"))
		options.Reset = reset
		put(t, options.Dir, "thesis.tex", "x")
		shown := &programs.Output{}
		err := Run(t.Context(), options, UI{Out: shown, Progress: shown})
		requireText(t, err, options.Dir, "was not made by `slipway up`")
		if got := tree(t, options.Dir); !slices.Equal(got, []string{"thesis.tex"}) {
			t.Errorf("the directory was changed: %q", got)
		}
	}
}

func TestOptionsComplete(t *testing.T) {
	t.Chdir(t.TempDir())
	working, err := os.Getwd()
	must.Do(t, err)
	got := must.Get(Options{Dir: "state"}.complete())(t)
	if got.Dir != filepath.Join(working, "state") || got.Timeout != DefaultTimeout || got.Executable == "" || got.Version == "" {
		t.Errorf("got %+v", got)
	}
	_, err = Options{Dir: "state", Timeout: -time.Second}.complete()
	requireText(t, err, "--timeout")
}
