package up

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/up"
)

// delivers changes the demo by the printed commands: a pushed version responds
// through the edge, what is broken does not, and no request fails. All ports are
// moved.
func delivers(t *testing.T, dir, kubeconfig string) {
	s, facts := startJSON(t, "--dir", dir, "--port-offset", "100")
	cluster := connect(t, kubeconfig)
	if address := row(t, facts, "edge").Address; address != "http://127.0.0.1:8180" {
		t.Errorf("the edge is at %s", address)
	}
	if version := askedVersion(t, hint(t, facts, "send a request through the edge")); version != "v1" {
		t.Errorf("version %q answers through the edge", version)
	}
	if version := askedVersion(t, hint(t, facts, "send one through the Gateway")); version != "v1" {
		t.Errorf("version %q responds through the Gateway", version)
	}
	if output := shell(t, hint(t, facts, "see Gateways and routes")); !strings.Contains(output, "demo.localhost") || !strings.Contains(output, "True") {
		t.Errorf("Gateways and routes are:\n%s", output)
	}
	if output := shell(t, hint(t, facts, "why it goes there")); !strings.Contains(output, "demo/demo") {
		t.Errorf("the explanation is:\n%s", output)
	}
	requireStatus(t, cluster)
	if output := shell(t, hint(t, facts, "see the Ingresses")); !strings.Contains(output, "demo.localhost") || !strings.Contains(output, "127.0.0.1") {
		t.Errorf("the Ingresses are:\n%s", output)
	}

	load := startTraffic(t, "http://127.0.0.1:8180/api", "https://127.0.0.1:8543/api", "http://127.0.0.1:8100/api")
	load.await(t, "v1")
	clone := newClone(t, facts)
	clone.change(t, hint(t, facts, "change it to v2"))
	clone.run(t, hint(t, facts, "push the change"))
	awaitApplication(t, cluster, "Synced", "Healthy", clone.commit(t))
	load.await(t, "v2")
	// The agent got a webhook, and did not find it by polling.
	awaitOutput(t, "curl --silent --show-error http://127.0.0.1:8183/metrics", `slipway_agent_webhooks_total{outcome="push",provider="Gitea"} 1`)
	if version := askedVersion(t, hint(t, facts, "see the response")); version != "v2" {
		t.Errorf("version %q answers after the push", version)
	}
	requireBrokenPushesHarmless(t, cluster, clone, facts)
	// The shared repository has the port of the first start.
	requireComplete(t, facts)
	requireGitSource(t, cluster, facts)
	for version, count := range load.stop() {
		switch version {
		case "v1", "v2":
			t.Logf("%d answers of %s", count, version)
		default:
			t.Errorf("%d requests failed while the demo changed: %s", count, version)
		}
	}
	s.signal(t, syscall.SIGTERM)
	s.requireExit(t, 0)
	requireNothingRuns(t)
}

// requireBrokenPushesHarmless pushes an image that does not exist, and YAML that
// is none: the Application reports it, and the version before keeps serving.
func requireBrokenPushesHarmless(t *testing.T, cluster *kube.Cluster, clone *clone, facts up.Facts) {
	t.Helper()
	clone.change(t, "sed -i 's/newTag: .*/newTag: v2000/' demo/deploy/kustomization.yaml")
	clone.push(t)
	awaitApplication(t, cluster, "Synced", "Progressing", clone.commit(t))
	tree := strings.Replace(hint(t, facts, "status of the demo"), " app get ", " app tree ", 1)
	awaitOutput(t, tree, "slipway.dev/demo:v2000")

	clone.change(t, "echo 'images: [' > demo/deploy/kustomization.yaml")
	clone.push(t)
	awaitApplication(t, cluster, "Unknown", "", "")
	if output := shell(t, hint(t, facts, "status of the demo")); !strings.Contains(output, "ComparisonError") || !strings.Contains(output, "kustomization.yaml") {
		t.Errorf("the Application does not say that it is broken:\n%s", output)
	}
	if version := askedVersion(t, hint(t, facts, "see the response")); version != "v2" {
		t.Errorf("version %q answers after a broken push", version)
	}

	clone.run(t, "git -C demo revert --no-edit HEAD HEAD~1 && git -C demo push")
	awaitApplication(t, cluster, "Synced", "Healthy", "")
	if output := shell(t, hint(t, facts, "see the Applications")); !strings.Contains(output, "Synced") || !strings.Contains(output, "demo") {
		t.Errorf("the Applications are:\n%s", output)
	}
}

// clone is the user's own copy of the repository, in the folder demo.
type clone struct{ dir string }

func newClone(t *testing.T, facts up.Facts) *clone {
	t.Helper()
	c := &clone{dir: t.TempDir()}
	c.run(t, hint(t, facts, "clone the demo"))
	return c
}

// run runs a printed command where the user has cloned.
func (c *clone) run(t *testing.T, command string) string {
	t.Helper()
	run := exec.CommandContext(t.Context(), "sh", "-c", command)
	run.Dir = c.dir
	run.Env = append(programs.UserEnvironment(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=user", "GIT_AUTHOR_EMAIL=user@localhost", "GIT_COMMITTER_NAME=user", "GIT_COMMITTER_EMAIL=user@localhost")
	output, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, output)
	}
	return strings.TrimSpace(string(output))
}

func (c *clone) change(t *testing.T, command string) {
	t.Helper()
	c.run(t, command)
}

func (c *clone) push(t *testing.T) {
	t.Helper()
	c.run(t, "git -C demo commit -a -m change && git -C demo push")
}

func (c *clone) commit(t *testing.T) string {
	t.Helper()
	return c.run(t, "git -C demo rev-parse HEAD")
}

// awaitOutput repeats a command until it prints the text.
func awaitOutput(t *testing.T, command, text string) {
	t.Helper()
	programs.Eventually(t, func(context.Context) error {
		if output := shell(t, command); !strings.Contains(output, text) {
			return fmt.Errorf("%s does not say %q:\n%s", command, text, output)
		}
		return nil
	})
}

func applications(cluster *kube.Cluster) dynamic.ResourceInterface {
	return cluster.Dynamic.Resource(schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}).Namespace("argocd")
}

// awaitApplication waits for a state of the demo's Application; what is empty
// does not count.
func awaitApplication(t *testing.T, cluster *kube.Cluster, sync, health, revision string) {
	t.Helper()
	kubetest.WaitFor(t, applications(cluster), kube.Named("demo"), time.Minute, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			return errors.New("there is no Application")
		}
		for _, field := range []struct {
			want string
			path []string
		}{
			{sync, []string{"status", "sync", "status"}}, {health, []string{"status", "health", "status"}}, {revision, []string{"status", "sync", "revision"}},
		} {
			if got, _, _ := unstructured.NestedString(found[0].Object, field.path...); field.want != "" && got != field.want {
				return fmt.Errorf("%s is %q and not %q", strings.Join(field.path, "."), got, field.want)
			}
		}
		return nil
	})
}

// requireHealed deletes the Ingress: it comes back, because Git has it.
func requireHealed(t *testing.T, cluster *kube.Cluster) {
	t.Helper()
	ingresses := cluster.Client.NetworkingV1().Ingresses("demo")
	before, err := ingresses.Get(t.Context(), "demo", metav1.GetOptions{})
	if err == nil {
		err = ingresses.Delete(t.Context(), "demo", metav1.DeleteOptions{})
	}
	must.Do(t, err)
	kubetest.WaitFor(t, ingresses, kube.Named("demo"), time.Minute, func(found []*networkingv1.Ingress) error {
		if len(found) == 0 || found[0].UID == before.UID {
			return errors.New("the Ingress that was deleted is not back")
		}
		return nil
	})
}

// deleteApplication deletes it as a user does, and waits until it is gone with
// what it made.
func deleteApplication(t *testing.T, cluster *kube.Cluster) {
	t.Helper()
	must.Do(t, applications(cluster).Delete(t.Context(), "demo", metav1.DeleteOptions{}))
	kubetest.WaitFor(t, applications(cluster), kube.Named("demo"), time.Minute, func(found []*unstructured.Unstructured) error {
		if len(found) > 0 {
			return errors.New("the Application is still there")
		}
		return nil
	})
}

func deploymentError(t *testing.T, cluster *kube.Cluster) error {
	t.Helper()
	_, err := cluster.Client.AppsV1().Deployments("demo").Get(t.Context(), "demo", metav1.GetOptions{})
	return err
}

// oldOwner is what an older version has applied the demo as.
const oldOwner = "slipway-up"

// applyOldDemo makes the demo as versions without an agent made it.
func applyOldDemo(t *testing.T, cluster *kube.Cluster) {
	t.Helper()
	target := kube.Target{Namespace: "demo", Manager: oldOwner}
	must.Get(cluster.Apply(t.Context(), target, read(t, "testdata/old-demo.yaml")))(t)
	mark := []byte(`{"metadata":{"labels":{"marked-by":"the-user"}}}`)
	must.Get(cluster.Client.AppsV1().Deployments("demo").Patch(t.Context(), "demo", types.MergePatchType, mark, metav1.PatchOptions{FieldManager: "user"}))(t)
}

// makeOld makes a state directory what it was with such a version.
func makeOld(t *testing.T, dir string) {
	t.Helper()
	for _, part := range []string{"git", "agent"} {
		must.Do(t, os.RemoveAll(filepath.Join(dir, part)))
	}
	old := must.Get(json.Marshal(map[string]any{"kind": "slipway-up", "version": 1, "demoApplied": true}))(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "slipway-up.json"), old, 0o600))
}

// adopts starts where an older version has been: its demo becomes that of Git,
// without being created again.
func adopts(t *testing.T, dir, kubeconfig string) {
	s, facts := startJSON(t, "--dir", dir)
	cluster := connect(t, kubeconfig)
	requireReadyDemo(t, cluster, "slipway.dev/demo:v1")
	if version := askedVersion(t, hint(t, facts, "send a request through the edge")); version != "v1" {
		t.Errorf("version %q answers through the edge", version)
	}
	found := must.Get(cluster.Client.AppsV1().Deployments("demo").Get(t.Context(), "demo", metav1.GetOptions{}))(t)
	requireAdopted(t, found)
	requireComplete(t, facts)
	if !hasConfigMap(t, cluster) {
		t.Error("the ConfigMap is gone")
	}
	// A start right after a kill waits for what the killed one has left.
	s.signal(t, syscall.SIGKILL)
	s.Wait(t)
}

func requireAdopted(t *testing.T, found *appsv1.Deployment) {
	t.Helper()
	if found.Labels["marked-by"] != "the-user" {
		t.Errorf("it was made anew: its labels are %v", found.Labels)
	}
	if _, kept := found.Labels["not-in-git"]; kept {
		t.Errorf("what is not in Git is still there: its labels are %v", found.Labels)
	}
	for _, entry := range found.ManagedFields {
		if entry.Manager == oldOwner {
			t.Errorf("%s still owns %s", entry.Manager, entry.FieldsV1)
		}
	}
	if found.Annotations["argocd.argoproj.io/tracking-id"] == "" {
		t.Errorf("no Application has it: its annotations are %v", found.Annotations)
	}
}
