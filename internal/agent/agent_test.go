package agent_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/agent"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// content is a repository with one ConfigMap.
func content(value string) map[string]string {
	return map[string]string{"settings.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {value: %q}\n", value)}
}

// valueIs waits for the value of that ConfigMap.
func (w *world) valueIs(t *testing.T, want string) {
	t.Helper()
	kubetest.WaitFor(t, w.Client.CoreV1().ConfigMaps(w.control), kube.Named("settings"), patience, func(found []*corev1.ConfigMap) error {
		if len(found) == 0 || found[0].Data["value"] != want {
			return fmt.Errorf("the value is not %q", want)
		}
		return nil
	})
}

func (w *world) hookSecret(t *testing.T) {
	t.Helper()
	w.apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: argocd-secret}\nstringData: {webhook.github.secret: "+hookSecret+"}\n")
}

// TestDelivers: what is in Git is made live, and what is pushed when a webhook
// reports it: the agent does not poll Git again within the hour.
func TestDelivers(t *testing.T) {
	w := newWorld(t)
	w.hookSecret(t)
	repository := gittest.Serve(t).Repository(t, "app", content("first"))
	r := w.start(t, "one")
	r.readyWhen(t, "")
	w.application(t, "app", repository.URL())
	w.syncedTo(t, "app", repository.Head(t))
	w.valueIs(t, "first")
	for _, path := range []string{"/webhooks", "/api/webhook"} {
		commit := repository.Commit(t, content("after "+path), "change")
		if status := r.pushed(t, path, repository.URL(), "not-the-secret"); status != 401 {
			t.Errorf("%s with a wrong signature: %d", path, status)
		}
		if status := r.pushed(t, path, repository.URL(), hookSecret); status != 200 {
			t.Errorf("%s: %d", path, status)
		}
		w.syncedTo(t, "app", commit)
		w.valueIs(t, "after "+path)
	}
}

// TestPullRequestWebhook: a webhook about a pull request regenerates the sets that
// list it. The agent does not request the list again within the half hour.
func TestPullRequestWebhook(t *testing.T) {
	w := newWorld(t)
	w.hookSecret(t)
	var open atomic.Int64
	open.Store(1)
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		list := make([]string, open.Load())
		for i := range list {
			list[i] = fmt.Sprintf(`{"number": %d, "head": {"ref": "b", "sha": "abc", "repo": {"full_name": "acme/shop"}}, "base": {"repo": {"full_name": "acme/shop"}}}`, i+1)
		}
		_, _ = fmt.Fprintf(w, "[%s]", strings.Join(list, ","))
	}))
	defer host.Close()
	r := w.start(t, "one")
	r.readyWhen(t, "")
	w.apply(t, `apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: previews}
spec:
  goTemplate: true
  generators: [{pullRequest: {github: {owner: acme, repo: shop, api: "`+host.URL+`"}}}]
  template:
    metadata: {name: "pr-{{.number}}"}
    spec: {project: default, source: {repoURL: "https://git.example/a", path: x}, destination: {namespace: CONTROL}}
`)
	exists := func(map[string]any) error { return nil }
	w.await(t, "pr-1", exists)
	open.Store(2)
	push := providertest.Push{Event: "pull_request", Path: "acme/shop", CloneURL: host.URL + "/acme/shop.git"}
	if status := push.SendGitHub(t, http.DefaultTransport, providertest.Hook{URL: r.webhooks + "/webhooks", Secret: hookSecret}); status != 200 {
		t.Errorf("the webhook: %d", status)
	}
	w.await(t, "pr-2", exists)
}

// TestCredentialsAreFollowed: a repository that asks for a password is opened as
// soon as a Secret has it, and the password is in no log and no status.
func TestCredentialsAreFollowed(t *testing.T) {
	w := newWorld(t)
	const password = "open-this-door"
	repository := gittest.Serve(t, gittest.BasicAuth("ada", password)).Repository(t, "app", content("secret"))
	r := w.start(t, "one")
	r.readyWhen(t, "")
	w.application(t, "app", repository.URL())
	w.await(t, "app", func(status map[string]any) error {
		if !strings.Contains(fmt.Sprint(status["conditions"]), "ComparisonError") {
			return errors.New("no condition says that it cannot be read")
		}
		return nil
	})
	w.apply(t, fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: broken, labels: {argocd.argoproj.io/secret-type: repository}}
stringData: {url: "not an address", password: %s}
---
apiVersion: v1
kind: Secret
metadata: {name: door, labels: {argocd.argoproj.io/secret-type: repo-creds}}
stringData: {url: %q, username: ada, password: %s}
`, password, strings.TrimSuffix(repository.URL(), "/app"), password))
	w.valueIs(t, "secret")
	w.syncedTo(t, "app", repository.Head(t))
	r.logs(t, w.control+"/broken")
	for _, hidden := range []string{password, base64.StdEncoding.EncodeToString([]byte(password))} {
		if strings.Contains(r.log.String(), hidden) {
			t.Errorf("the log has the password:\n%s", r.log)
		}
	}
}

// TestSecondReplicaTakesOver: the one that waits is ready, passes on what it
// hears, and works at once when the first ends in good order.
func TestSecondReplicaTakesOver(t *testing.T) {
	w := newWorld(t)
	w.hookSecret(t)
	repository := gittest.Serve(t).Repository(t, "app", content("first"))
	first := w.start(t, "first")
	first.logs(t, "became leader")
	second := w.start(t, "second")
	second.readyWhen(t, "")
	w.application(t, "app", repository.URL())
	w.syncedTo(t, "app", repository.Head(t))

	commit := repository.Commit(t, content("told the other"), "change")
	if status := second.pushed(t, "/webhooks", repository.URL(), hookSecret); status != 200 {
		t.Errorf("the replica that waits answers %d", status)
	}
	w.syncedTo(t, "app", commit)
	if strings.Contains(second.log.String(), "became leader") {
		t.Errorf("two replicas work:\n%s", second.log)
	}
	kubetest.WaitFor(t, w.Client.CoreV1().ConfigMaps(w.control), kube.Named("agent-pushes"), patience, func(found []*corev1.ConfigMap) error {
		if len(found) != 1 || len(found[0].Data) > 0 {
			return fmt.Errorf("the mailbox is not emptied: %v", found)
		}
		return nil
	})

	first.end(t)
	second.logs(t, "became leader")
	commit = repository.Commit(t, content("from the second"), "change")
	if status := second.pushed(t, "/webhooks", repository.URL(), hookSecret); status != 200 {
		t.Errorf("it answers %d", status)
	}
	w.syncedTo(t, "app", commit)
	second.end(t)
	lease, err := w.Client.CoordinationV1().Leases(w.control).Get(t.Context(), "agent", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		t.Errorf("the Lease is held after the end: %v, %v", lease, err)
	}
}

// TestWithoutElection: one that is alone needs no Lease.
func TestWithoutElection(t *testing.T) {
	w := newWorld(t)
	repository := gittest.Serve(t).Repository(t, "app", content("alone"))
	r := w.start(t, "one", func(options *agent.Options) { options.Lease = "" })
	w.application(t, "app", repository.URL())
	r.readyWhen(t, "")
	w.syncedTo(t, "app", repository.Head(t))
	leases, err := w.Client.CoordinationV1().Leases(w.control).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(leases.Items) > 0 {
		t.Errorf("there are Leases: %v, %v", leases, err)
	}
}

// TestWaitsForDefinitions: an agent that starts before its CRDs reports what to do,
// and continues when they are there.
func TestWaitsForDefinitions(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	w := &world{Cluster: cluster, control: cluster.Namespace(t)}
	repository := gittest.Serve(t).Repository(t, "app", content("late"))
	r := w.start(t, "one")
	r.readyWhen(t, "the cluster does not know applications.argoproj.io, appprojects.argoproj.io, applicationsets.argoproj.io: install them with kubectl apply")
	r.logs(t, "install them with kubectl apply --server-side -f charts/gitops-runtime/crds/")
	argotest.Install(t, cluster)
	r.readyWhen(t, "")
	w.application(t, "app", repository.URL())
	w.syncedTo(t, "app", repository.Head(t))
	if count := strings.Count(r.log.String(), "does not know applications.argoproj.io"); count != 1 {
		t.Errorf("it said %d times that it waits for all of them:\n%s", count, r.log)
	}
}

// TestApplicationSet: generators see the files of Git and the cluster itself.
func TestApplicationSet(t *testing.T) {
	w := newWorld(t)
	files := map[string]string{"apps/red/settings.yaml": content("red")["settings.yaml"]}
	repository := gittest.Serve(t).Repository(t, "app", files)
	w.start(t, "one").readyWhen(t, "")
	w.apply(t, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: all}
spec:
  goTemplate: true
  generators:
  - matrix:
      generators:
      - git: {repoURL: %[1]q, revision: main, directories: [{path: "apps/*"}]}
      - clusters: {}
  template:
    metadata: {name: "{{.path.basename}}-{{.name}}"}
    spec:
      project: default
      source: {repoURL: %[1]q, targetRevision: main, path: "{{.path.path}}"}
      destination: {server: "{{.server}}", namespace: CONTROL}
      syncPolicy: {automated: {}}
`, repository.URL()))
	w.syncedTo(t, "red-in-cluster", repository.Head(t))
	w.valueIs(t, "red")
	var owners []metav1.OwnerReference
	w.await(t, "red-in-cluster", func(map[string]any) error {
		object, err := w.Dynamic.Resource(applications).Namespace(w.control).Get(t.Context(), "red-in-cluster", metav1.GetOptions{})
		if err != nil {
			return err
		}
		owners = object.GetOwnerReferences()
		return nil
	})
	if len(owners) != 1 || owners[0].Kind != "ApplicationSet" {
		t.Errorf("it belongs to %v", owners)
	}
}
