package gitsource_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// guestbook is an Application of a Git Source, and what it deploys.
func (w *world) guestbook(t *testing.T) (appsURL string) {
	t.Helper()
	_, deployed := w.repository(t, "team/guestbook", map[string]string{
		"app/settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: guestbook}\ndata: {hello: world}\n",
	})
	_, appsURL = w.repository(t, "team/apps", map[string]string{"apps/guestbook.yaml": fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: guestbook}
spec:
  project: default
  source: {repoURL: %q, path: app, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: %s}
  syncPolicy: {automated: {prune: true}}
`, deployed, w.namespace)})
	return appsURL
}

func create(one *runtimev1.GitSource) *connect.Request[runtimev1.CreateGitSourceRequest] {
	return connect.NewRequest(&runtimev1.CreateGitSourceRequest{GitSource: one, RegisterWebhook: true})
}

// TestLifecycle is a runtime from its first credentials on, with the real engine.
// The Shared Configuration Repository is made, seeded and followed (R56, R57, R60);
// a Git Source is committed by its user and becomes live with its applications
// (R72), has a webhook, is edited, and is deleted while its applications stay
// (R113); the runtime becomes an Application of itself once it has Git
// credentials (R71).
func TestLifecycle(t *testing.T) {
	w := newWorld(t)
	w.runAgent(t)
	appsURL := w.guestbook(t)
	apps := &runtimev1.GitSource{Name: "apps", RepoUrl: appsURL, Path: "apps"}
	_, err := w.client.CreateGitSource(t.Context(), create(apps))
	refused(t, err, connect.CodeFailedPrecondition, "Git credentials")
	_, _, err = w.home.Configure(w.ada(t.Context(), permission.RoleAdmin))
	if err == nil || !strings.Contains(err.Error(), "Git credentials") {
		t.Errorf("configuring without credentials: %v", err)
	}
	w.credentials(t, &runtimev1.SetRuntimeCredentialsRequest{})
	w.synced(t, "demo-shared")
	w.synced(t, "demo-in-cluster")
	if got, want := w.home.ReadyRepository(), w.settings.GetSharedRepository(); !w.home.Valid() || got != want {
		t.Errorf("reached is %q, want %q", got, want)
	}

	t.Run("create", func(t *testing.T) { w.testCreate(t, apps) })
	t.Run("edit", func(t *testing.T) { w.testEdit(t, apps) })
	t.Run("delete", w.testDelete)
	t.Run("configure", w.testConfigure)
	t.Run("leave", w.testLeave)
}

func (w *world) testCreate(t *testing.T, apps *runtimev1.GitSource) {
	answer, err := w.client.CreateGitSource(t.Context(), create(apps))
	must.Do(t, err)
	if answer.Msg.GetWebhookProblem() != "" {
		t.Errorf("no webhook: %s", answer.Msg.GetWebhookProblem())
	}
	hooks := w.provider.Hooks("team/apps")
	if len(hooks) != 1 || hooks[0].URL != "https://hooks.example.com/webhooks/demo/apps" || hooks[0].Secret == "" {
		t.Errorf("the webhooks are %v", hooks)
	}
	who := w.shared(t).Git(t, "log", "-1", "--format=%an|%ae|%cn|%s", answer.Msg.GetCommit())
	if want := "Ada Lovelace|ada@example.com|Slipway runtime demo|git source apps: create"; who != want {
		t.Errorf("the commit is of %q, not %q", who, want)
	}
	live := w.synced(t, "apps")
	if live.Labels[sharedrepo.EntityLabel] != "git-source" || live.Labels[sharedrepo.InternalLabel] != "false" || len(live.Finalizers) > 0 {
		t.Errorf("the Application has %v and finalizers %v", live.Labels, live.Finalizers)
	}
	w.synced(t, "guestbook")
	w.configMap(t, "guestbook")
	list := must.Get(w.client.ListGitSources(t.Context(), connect.NewRequest(&runtimev1.ListGitSourcesRequest{})))(t)
	if all := list.Msg.GetGitSources(); len(all) != 1 || all[0].GetSync() != "Synced" || all[0].GetPath() != "apps" || all[0].GetInclude() != "*" {
		t.Errorf("the list is %v", all)
	}
	for _, name := range []string{"apps", "guestbook"} {
		_, err = w.client.CreateGitSource(t.Context(), create(&runtimev1.GitSource{Name: name, RepoUrl: apps.GetRepoUrl()}))
		refused(t, err, connect.CodeAlreadyExists, name)
	}
}

func (w *world) testEdit(t *testing.T, apps *runtimev1.GitSource) {
	apps.Exclude = "nothing/*"
	request := connect.NewRequest(&runtimev1.EditGitSourceRequest{GitSource: apps})
	_, err := w.serve(t, permission.RoleOperator).EditGitSource(t.Context(), request)
	refused(t, err, connect.CodePermissionDenied)
	must.Get(w.client.EditGitSource(t.Context(), request))(t)
	w.until(t, func(context.Context) error {
		if source := w.synced(t, "apps").Spec.Source; source.Directory == nil || source.Directory.Exclude != "nothing/*" {
			return fmt.Errorf("the source is %v", source)
		}
		return nil
	})
	_, err = w.client.EditGitSource(t.Context(), connect.NewRequest(&runtimev1.EditGitSourceRequest{
		GitSource: &runtimev1.GitSource{Name: "other", RepoUrl: apps.GetRepoUrl()},
	}))
	refused(t, err, connect.CodeNotFound, "cannot be changed")
}

func (w *world) testDelete(t *testing.T) {
	before := w.synced(t, "guestbook").UID
	must.Get(w.client.DeleteGitSource(t.Context(), connect.NewRequest(&runtimev1.DeleteGitSourceRequest{Name: "apps"})))(t)
	w.gone(t, "apps")
	if hooks := w.provider.Hooks("team/apps"); len(hooks) != 0 {
		t.Errorf("the webhooks are %v", hooks)
	}
	after := w.synced(t, "guestbook")
	if after.UID != before || after.DeletionTimestamp != nil {
		t.Error("the application of the Git Source is gone, or another one")
	}
	w.configMap(t, "guestbook")
	_, err := w.client.DeleteGitSource(t.Context(), connect.NewRequest(&runtimev1.DeleteGitSourceRequest{Name: "apps"}))
	refused(t, err, connect.CodeNotFound)
}

func (w *world) testConfigure(t *testing.T) {
	w.chart = sharedrepo.Chart{
		Repository: "oci://registry.example.com/charts", Version: "1.2.3", Release: "installed", Archive: packedChart(t),
		Values: map[string]any{"global": map[string]any{
			"runtime":  map[string]any{"name": "demo", "gitCredentials": map[string]any{"password": map[string]any{"value": "canary0password"}}},
			"platform": map[string]any{"userToken": map[string]any{"token": "canary0user", "secretKeyRef": map[string]any{"name": "own", "key": "token"}}},
		}},
	}
	for range 2 { // again is no harm
		name, _, err := w.home.Configure(w.ada(t.Context(), permission.RoleAdmin))
		if err != nil || name != "demo" {
			t.Fatalf("the Application is %q: %v", name, err)
		}
	}
	w.synced(t, "demo")
	if data := w.configMap(t, "runtime-demo"); data["name"] != "demo" {
		t.Errorf("the chart got %v", data)
	}
	values := w.shared(t).Git(t, "show", "refs/heads/live:slipway/resources/demo/chart/values.yaml")
	if strings.Contains(values, "canary0") || !strings.Contains(values, "global.platform.userToken.token") || !strings.Contains(values, "key: token") {
		t.Errorf("the values are\n%s", values)
	}
	// Deployments and Services of the chart are selected by the name of the release.
	if found := w.shared(t).Git(t, "grep", "-h", "releaseName", "refs/heads/live"); !strings.Contains(found, "releaseName: installed") {
		t.Errorf("the Application has not the name of the release: %q", found)
	}
	steps, err := w.integrations.Pending(t.Context())
	if err != nil || len(steps) != 1 || steps[0] != platformv1.CompletionStep_COMPLETION_STEP_USER_TOKEN {
		t.Errorf("the steps are %v: %v", steps, err)
	}
}

func (w *world) testLeave(t *testing.T) {
	must.Do(t, w.home.Leave(t.Context(), w.home.Committer(), true))
	left := w.shared(t).Git(t, "ls-tree", "-r", "--name-only", "refs/heads/live")
	if strings.Contains(left, "demo") || !strings.Contains(left, "slipway/README.md") {
		t.Errorf("the files are\n%s", left)
	}
	w.synced(t, "guestbook")
	w.configMap(t, "guestbook")
}

// packedChart is a chart as the runtime's, small.
func packedChart(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	packed := tar.NewWriter(zipped)
	for name, text := range map[string]string{
		"Chart.yaml":             "apiVersion: v2\nname: gitops-runtime\nversion: 1.2.3\n",
		"templates/runtime.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: runtime-{{ .Values.global.runtime.name }}}\ndata: {name: {{ .Values.global.runtime.name }}}\n",
	} {
		err := packed.WriteHeader(&tar.Header{Name: "gitops-runtime/" + name, Mode: 0o644, Size: int64(len(text))})
		_, writeErr := packed.Write([]byte(text))
		must.Do(t, errors.Join(err, writeErr))
	}
	must.Do(t, errors.Join(packed.Close(), zipped.Close()))
	return out.Bytes()
}

// TestSSHSource: with an SSH key and known hosts of the runtime, a Git Source may
// have an SSH address; without, it is refused with what to do. (R67)
func TestSSHSource(t *testing.T) {
	w := newWorld(t)
	server := gittest.ServeSSH(t)
	origin := server.Repository(t, "apps", map[string]string{"one.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: over-ssh}\n"})
	w.runAgent(t)
	w.credentials(t, &runtimev1.SetRuntimeCredentialsRequest{})
	w.synced(t, "demo-in-cluster")
	source := &runtimev1.GitSource{Name: "over-ssh", RepoUrl: origin.URL()}
	_, err := w.client.CreateGitSource(t.Context(), create(source))
	refused(t, err, connect.CodeFailedPrecondition, "SSH key")
	w.credentials(t, &runtimev1.SetRuntimeCredentialsRequest{SshPrivateKey: server.PrivateKey(), KnownHosts: server.KnownHosts()})
	must.Get(w.client.CreateGitSource(t.Context(), create(source)))(t)
	w.synced(t, "over-ssh")
	w.configMap(t, "over-ssh")
	if events, err := w.Client.CoreV1().Events(w.namespace).List(t.Context(), metav1.ListOptions{}); err != nil || strings.Contains(events.String()+w.log.String(), "canary0") {
		t.Errorf("a token is in an event or the log: %v", err)
	}
}
