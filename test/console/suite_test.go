// Package console runs the console in a real browser, against a real platform.
//
// TestConsole starts `slipway platform` with the embedded console, clusters, a registry
// with the chart, and a Git provider whose repositories are real; then Playwright runs
// the specs of web/e2e in headless Chromium, and each spec is a subtest. Nothing of the
// API is mocked. What the browser cannot do by itself is done for it through a small HTTP
// server on loopback (control_test.go): a shell runs the command that the install
// wizard shows, with kubectl and Helm, and a node (node_test.go) runs the Pods that
// the chart has made; a commit is pushed; the platform is stopped and started; the
// edge gets load.
//
// The traces of specs that failed are kept below bin/console-test. With CONSOLE_SCREENSHOTS=1
// screenshots of every page are, too, and those of docs/images/console are written again.
// CONSOLE_SPECS chooses specs by a part of their file. CONSOLE_HOLD=1 starts the world,
// writes a script that runs specs in it, and waits.
package console

import (
	"os"
	"path/filepath"
	"testing"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/binary"
)

// Clients of HTTP keep their connections to processes that are gone by then.
func TestMain(m *testing.M) { kubetest.Main(m, kubetest.AllowLeaks()) }

// root is the top of the repository.
const root = "../.."

// TestConsole: R5, R124, R126: what people do in the browser. It is one test, so that
// the program is built and the cluster started once.
func TestConsole(t *testing.T) {
	requireConsole(t)
	w := newWorld(t, binary.Path(t))
	w.serveControl(t)
	w.runSpecs(t)
}

// requireConsole fails where make has not built the console. It looks at everything
// that the result depends on, so that the go command does not repeat an old one.
func requireConsole(t *testing.T) {
	t.Helper()
	for file, fix := range map[string]string{
		"internal/platform/console/dist/app/index.html": "make console builds it",
		"web/node_modules/@playwright/test/cli.js":      "make console-modules installs it",
	} {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
			t.Fatalf("%v: %s", err, fix)
		}
	}
	must.Do(t, binary.Touch(root, "internal/platform/console/dist/app", "web/e2e", "charts", "test/programs/helm"))
}
