package clitest

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/programs"
)

// StartAgent runs `slipway agent` for the namespace of a world as a process of
// the test binary, until the test ends: then SIGTERM has to end it gracefully,
// unless the test has killed it. Polling is off in effect, so that a sync
// happens only when a test requests it. The Lease is named after the namespace,
// because tests share the cluster. Standard output is in the log too.
func (w *AppWorld) StartAgent(t *testing.T, more ...string) *programs.Process {
	t.Helper()
	command := exec.Command(os.Args[0], append([]string{
		"agent", "--log.format=text", "--outbound.allow=127.0.0.1,::1", "--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0", "--webhooks.address=127.0.0.1:0",
		"--applications.controlNamespace=" + w.TestNamespace, "--applications.pollInterval=1h", "--leaderElection.leaseName=" + w.TestNamespace, "--render.workers=1",
	}, more...)...)
	command.Env = append(os.Environ(), ProgramVariable+"=1", "KUBECONFIG="+w.Kubeconfig)
	log := &programs.Output{}
	command.Stdout, command.Stderr = log, log
	process := programs.Run(t, "the agent", command)
	t.Cleanup(func() {
		if process.Alive() != nil {
			return
		}
		process.Stop(t)
		if !process.Logged("agent has stopped") {
			t.Error("the agent did not end in good order")
		}
	})
	return process
}

// ManualApp creates the Application shop without automated sync and waits until
// the agent has compared it with Git. more is appended to the spec.
func (w *AppWorld) ManualApp(t *testing.T, repository *gittest.Repository, more string) {
	t.Helper()
	w.ApplyManifests(t, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: default
  source: {repoURL: %q, path: deploy, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: NAMESPACE}
  %s
`, repository.URL(), more))
	w.Await(t, "shop", func(app *unstructured.Unstructured) error {
		if state, _, _ := unstructured.NestedString(app.Object, "status", "sync", "status"); state != "OutOfSync" {
			return fmt.Errorf("it is %q, and not OutOfSync", state)
		}
		return nil
	})
}
