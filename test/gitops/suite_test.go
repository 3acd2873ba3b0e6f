// Package gitops drives `slipway agent` from outside: the built binary as a
// process, a real Git server, a real API server, Pods that run.
//
//   - examples: Applications in the shape of Argo CD's examples, each from an
//     archive in examples/, become Synced and Healthy.
//   - hostile: repositories from archives in hostile/ that try to get out, to
//     use all memory or to have a program run. Each is refused with a reason,
//     while another Application goes on being synced.
//   - elsewhere: charts, bases and submodules of other servers that loop, are huge,
//     lead inside, redirect or are not what is pinned, refused likewise.
//   - lfs: a file that Git LFS keeps is fetched if its repository's Secret allows
//     it.
//   - memory: large indexes of Helm repositories and files of ApplicationSets.
//     The agent's memory does not grow with them.
//   - plugins: config management plugins that work, and some that do not, while
//     another Application goes on.
//   - cmp-server: plugins behind argocd-cmp-server itself, with make argocd-cli.
//   - neighbours: a project that uses all workers and the disk, and one beside it
//     that goes on.
//   - leader: of two agents one works, also when that one is killed.
package gitops

import (
	"fmt"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// TestGitops is one test, so that the program is built once.
func TestGitops(t *testing.T) {
	s := &suite{binary: binary.Path(t), cluster: kubetest.Shared(t)}
	text := must.Get(v1alpha1.CRDs())(t)
	s.cluster.Define(t, string(text))
	t.Run("examples", s.testExamples)
	t.Run("hostile", s.testHostile)
	t.Run("elsewhere", s.testElsewhere)
	t.Run("lfs", s.testLFS)
	t.Run("memory", s.testMemory)
	t.Run("plugins", s.testPlugins)
	t.Run("cmp-server", s.testCMPServer)
	t.Run("neighbours", s.testNeighbours)
	t.Run("leader", s.testLeader)
}

// suite is what all tests share.
type suite struct {
	binary  string
	cluster *kubetest.Cluster
}

// start runs an agent for a control namespace.
func (s *suite) start(t *testing.T, control string, arguments ...string) *agentprocess.Agent {
	t.Helper()
	return agentprocess.Start(t, s.options(control, arguments...))
}

func (s *suite) options(control string, arguments ...string) agentprocess.Options {
	return agentprocess.Options{Binary: s.binary, Kubeconfig: s.cluster.Kubeconfig, Namespace: control, Arguments: arguments}
}

func (s *suite) applications(control string) dynamic.ResourceInterface {
	return agentprocess.Applications(s.cluster.Cluster, control)
}

// application makes an Application that syncs by itself. The source is YAML.
func (s *suite) application(t *testing.T, control, target, name, source string) {
	t.Helper()
	s.cluster.Apply(t, control, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %s}
spec:
  project: default
  source: %s
  destination: {server: https://kubernetes.default.svc, namespace: %s}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`, name, source, target))
}

// settings is a repository with one ConfigMap.
func settings(value string) map[string]string {
	return map[string]string{"app/settings.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {value: %q}\n", value)}
}

// take removes a file from an archive and gives its text.
func take(archive *txtar.Archive, name string) string {
	for i, file := range archive.Files {
		if file.Name == name {
			archive.Files = append(archive.Files[:i], archive.Files[i+1:]...)
			return string(file.Data)
		}
	}
	return ""
}

// mainOf is a source of the folder app of a repository, in YAML.
func mainOf(repository *gittest.Repository) string {
	return fmt.Sprintf("{repoURL: %q, path: app, targetRevision: main}", repository.URL())
}
