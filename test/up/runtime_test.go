package up

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/up"
)

// requireComplete: the platform shows a runtime whose installation is complete:
// nothing is left to do, its own Application is synced, and it has components and
// a Git Source.
func requireComplete(t *testing.T, facts up.Facts) {
	t.Helper()
	if detail := row(t, facts, "runtime").Detail; detail != "installation complete, with Git Source apps" {
		t.Errorf("the runtime is %q", detail)
	}
	shown := shell(t, hint(t, facts, "see the runtime"))
	for _, text := range []string{"slipway-agent", "slipway-edge", "/apps.git"} {
		if !strings.Contains(shown, text) {
			t.Errorf("the runtime lacks %q:\n%s", text, shown)
		}
	}
	for _, line := range strings.Split(shown, "\n") {
		name, word, _ := strings.Cut(line, ":")
		if word = strings.TrimSpace(word); name == "Sync" && word != "Synced" || name == "Installation" && word != "Completed" {
			t.Errorf("the runtime is not complete:\n%s", shown)
		}
	}
	if strings.Contains(shown, "STILL TO DO") {
		t.Errorf("there is something left to do:\n%s", shown)
	}
	if list := shell(t, hint(t, facts, "see the runtimes")); strings.Contains(list, "Complete installation") {
		t.Errorf("the list of runtimes is:\n%s", list)
	}
}

// requireGitSource pushes to the repository of the Git Source by the printed
// command: its Application follows.
func requireGitSource(t *testing.T, cluster *kube.Cluster, facts up.Facts) {
	t.Helper()
	c := &clone{dir: t.TempDir()}
	c.run(t, hint(t, facts, "clone the Git Source"))
	c.run(t, "sed -i 's/demo:v1/demo:v4/' apps/hello/hello.yaml && git -C apps commit -a -m v4 && git -C apps push")
	requireHello(t, cluster, "slipway.dev/demo:v4")
}

// requireHello waits for the Application of the Git Source.
func requireHello(t *testing.T, cluster *kube.Cluster, image string) {
	t.Helper()
	kubetest.WaitFor(t, cluster.Client.AppsV1().Deployments("hello"), kube.Named("hello"), time.Minute, func(found []*appsv1.Deployment) error {
		if len(found) != 1 || found[0].Spec.Template.Spec.Containers[0].Image != image || found[0].Status.ReadyReplicas != 1 {
			return errors.New("the Application of the Git Source does not run " + image)
		}
		return nil
	})
}
