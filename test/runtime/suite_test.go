// Package runtime runs a platform and its runtimes as users do: `slipway platform`
// with each database, `slipway agent` in two clusters, `slipway edge`, a Git
// provider whose repositories are real, and looks at them from outside.
//
//   - scene: runtimes join through tunnels, applications are seen and operated
//     through the platform, a push is live, the platform goes away and comes back,
//     credentials are revoked, runtimes are deleted and uninstalled.
//   - argocd: clients of Argo CD read and operate an application.
//   - crawl: every procedure with every kind of caller, as the table of
//     internal/wire/permission requires.
//   - modes: the same runtime through a tunnel and through an Ingress.
//   - secrets: none that the scene uses is in a response, a log, an Event, a metric
//     or the platform's database.
//   - requirements: docs/requirements.md and the tests agree.
//
// RESILIENCE=long gives the pushes more rounds.
package runtime

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/codefresh/v1beta1"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/store/pgtest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
)

// Clients of HTTP keep their connections to processes that are gone by then.
func TestMain(m *testing.M) { kubetest.Main(m, kubetest.AllowLeaks()) }

const (
	// patience bounds every wait. Only a test that fails waits so long.
	patience = programs.Timeout
	// tunnelDomain is what the hosts of tunnels end with. No name server resolves it.
	tunnelDomain = "tunnels.example.com"
)

// long reports whether there is time.
func long() bool { return os.Getenv("RESILIENCE") == "long" }

// suite is what all tests share.
type suite struct {
	binary string
	// east has a node, on which Pods run; west has none.
	east, west *kubetest.Cluster
	authority  *pkitest.Files
}

// TestRuntime is one test, so that the program is built and the clusters are
// started once.
func TestRuntime(t *testing.T) {
	s := &suite{binary: binary.Path(t), authority: pkitest.NewFiles(t, "*."+tunnelDomain)}
	s.east, s.west = kubetest.Start(t), kubetest.Start(t, kubetest.WithoutNode())
	for _, cluster := range []*kubetest.Cluster{s.east, s.west} {
		cluster.Define(t, string(must.Get(v1alpha1.CRDs())(t)))
		cluster.Define(t, string(must.Get(slipway.CRDs())(t)))
		cluster.Define(t, string(must.Get(v1beta1.CRDs())(t)))
	}
	t.Run("postgres", func(t *testing.T) { s.testPostgres(t) })
	t.Run("sqlite", func(t *testing.T) { s.testSQLite(t) })
	t.Run("installed", func(t *testing.T) { s.testInstalled(t) })
}

// place is a database with what belongs to it.
type place struct {
	// args are options of the platform, dir is what it keeps on the disk, and url
	// that of a PostgreSQL.
	args     []string
	dir, url string
}

func sqlitePlace(t *testing.T) place {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	return place{dir: dir, args: []string{"--state.dir=" + dir}}
}

func postgresPlace(t *testing.T) place {
	t.Helper()
	at := place{dir: t.TempDir(), url: pgtest.URL(t)}
	key := filepath.Join(at.dir, "key")
	writeFile(t, key, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")
	at.args = []string{"--database.url=" + at.url, "--database.secretKeyFile=" + key}
	return at
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

// freeAddress is a port of loopback that is free. The network is the tests' own,
// so that it stays free until it is used, and again after a restart.
func freeAddress(t *testing.T, host string) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(host, "0")))(t)
	defer listener.Close()
	return listener.Addr().String()
}
