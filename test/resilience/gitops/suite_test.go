// Package gitops shows that what Git has becomes live, and nothing else,
// whatever becomes of the agent and of the Git server: the built binary as a
// process, a real Git server, a real API server, Jobs that run.
//
//   - kill: the agent is killed at a random point of a sync, again and again. Each
//     time the next one finishes what was begun.
//   - divide: one of three agents that divide Applications of two clusters is killed, paused or ended. No two
//     write for one Application at a time.
//   - notifications: the agent is killed while it sends notifications to a webhook, a mail
//     server and Alertmanager. Each has one message for each subscription and revision.
//   - git: the Git server is away, slow or wrong. Nothing is pruned meanwhile, the
//     Application reports what is wrong, and recovers by itself.
//
// Without a setting it is short, for `make test`: eight kills, and three of the agent that sends notifications. RESILIENCE=long
// makes them a hundred; RESILIENCE_ROUNDS sets their number alone. RESILIENCE_SEED
// repeats the random choices of a run that has failed.
package gitops

import (
	"fmt"
	"testing"

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
	t.Run("git", s.testGit)
	t.Run("notifications", s.testNotifications)
	t.Run("kill", s.testKill)
	t.Run("divide", s.testDivide)
}

// suite is what all tests share.
type suite struct {
	binary  string
	cluster *kubetest.Cluster
}

// options are those of an agent that need not wait for a Lease.
func (s *suite) options(control string, arguments ...string) agentprocess.Options {
	return agentprocess.Options{
		Binary: s.binary, Kubeconfig: s.cluster.Kubeconfig, Namespace: control,
		Arguments: append([]string{"--leaderElection.enabled=false"}, arguments...),
	}
}

// application makes an Application called app that syncs by itself.
func (s *suite) application(t *testing.T, control, target string, repository *gittest.Repository) {
	t.Helper()
	s.cluster.Apply(t, control, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: app}
spec:
  project: default
  source: {repoURL: %q, path: app, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: %s}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`, repository.URL(), target))
}

// synced waits until the Application is in order and its last sync was to this
// commit.
func (s *suite) synced(t *testing.T, control, commit string) *v1alpha1.Application {
	t.Helper()
	inOrder := agentprocess.InOrder(commit)
	return agentprocess.Await(t, agentprocess.Applications(s.cluster.Cluster, control), "app", func(app *v1alpha1.Application) error {
		if err := inOrder(app); err != nil {
			return err
		}
		if result := app.Status.OperationState.SyncResult; result == nil || result.Revision != commit {
			return fmt.Errorf("its last sync was not to %s: %s", commit, agentprocess.Reported(app))
		}
		return nil
	})
}
