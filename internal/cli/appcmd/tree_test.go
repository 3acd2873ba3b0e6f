package appcmd_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// webDeployment runs in the cluster's node.
const webDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "slipway.dev/demo:v1", ports: [{containerPort: 8080}]}
`

// webApp has the Deployment, as its agent reports it.
const webApp = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: web}
spec:
  project: default
  source: {repoURL: https://git.example/web.git, path: deploy}
  destination: {namespace: NAMESPACE}
status:
  sync: {status: Synced}
  health: {status: Healthy}
  resources:
  - {group: apps, version: v1, kind: Deployment, namespace: NAMESPACE, name: web, status: Synced, health: {status: Healthy}}
  - {version: v1, kind: ConfigMap, namespace: NAMESPACE, name: settings, status: Synced}
`

// TestAppTree: down to the Pods, by who owns whom.
func TestAppTree(t *testing.T) {
	w := clitest.NewAppWorld(t)
	w.ApplyManifests(t, webDeployment)
	w.ApplyManifests(t, webApp)
	w.WaitForRollout(t, w.TestNamespace, "web", 2*time.Minute)
	got := w.App(t, "tree web")
	if got.Code != 0 {
		t.Fatalf("got %+v", got)
	}
	text := regexp.MustCompile(`web-[a-z0-9]+(-[a-z0-9]{5})?`).ReplaceAllString(w.Shown(got.Stdout), "web-X")
	clitest.RequireText(t, text, `
OBJECT                                  SYNC    HEALTH   MESSAGE
Application.argoproj.io NAMESPACE/web   Synced  Healthy
├─ Deployment.apps NAMESPACE/web        Synced  Healthy
│  └─ ReplicaSet.apps NAMESPACE/web-X   -       Healthy
│     ├─ Pod NAMESPACE/web-X            -       Healthy
│     └─ Pod NAMESPACE/web-X            -       Healthy
└─ ConfigMap NAMESPACE/settings         Synced  -`)

	var root struct {
		Kind     string
		Children []struct {
			Kind     string
			Children []struct {
				Children []struct{ Kind, Health string }
			}
		}
	}
	must.Do(t, json.Unmarshal([]byte(w.App(t, "tree web -o json").Stdout), &root))
	if len(root.Children) != 2 || len(root.Children[0].Children) != 1 || len(root.Children[0].Children[0].Children) != 2 {
		t.Errorf("as JSON: %+v", root)
	}
}

// TestAppLogs: all Pods, or those of one object, or one container.
func TestAppLogs(t *testing.T) {
	w := clitest.NewAppWorld(t)
	w.ApplyManifests(t, webDeployment)
	w.ApplyManifests(t, webApp)
	w.WaitForRollout(t, w.TestNamespace, "web", 2*time.Minute)
	awaitLogs(t, w)
	got := w.App(t, "logs web --tail -1")
	for _, line := range strings.Split(strings.TrimSpace(got.Stdout), "\n") {
		if prefix, _, found := strings.Cut(line, "/web] "); got.Code != 0 || !found || !strings.HasPrefix(prefix, "[web-") {
			t.Errorf("the line %q does not say whose it is: %+v", line, got)
		}
	}
	if got := w.App(t, "logs web --tail 1 --resource apps:Deployment:web -c web"); got.Code != 0 || strings.Count(got.Stdout, "\n") != 2 {
		t.Errorf("the last line of each: %+v", got)
	}
	if got := w.App(t, "logs web -c db"); got.Code != 1 || !strings.Contains(got.Stderr, "no container of "+w.TestNamespace+"/web is named db: there are web") {
		t.Errorf("a container that there is not: %+v", got)
	}
	if got := w.App(t, "logs web --resource :ConfigMap:settings"); got.Code != 1 || !strings.Contains(got.Stderr, "has no Pods") {
		t.Errorf("an object without Pods: %+v", got)
	}
}

// TestAppLogsFollow: what is written later comes too, and Ctrl-C is a good end.
func TestAppLogsFollow(t *testing.T) {
	w := clitest.NewAppWorld(t)
	w.ApplyManifests(t, strings.Replace(webDeployment, "replicas: 2", "replicas: 1", 1))
	w.ApplyManifests(t, webApp)
	w.WaitForRollout(t, w.TestNamespace, "web", 2*time.Minute)
	var out programs.Output
	stop, done := w.AppBackground(t, &out, "logs web --follow --tail -1")
	out.WaitFor(t, "\n")
	stop()
	if got := <-done; got != 0 {
		t.Errorf("it ended with %d: %s", got, out.String())
	}
}

// awaitLogs waits until each of the two Pods of the Application web has written
// a line, by following the logs with the command itself.
func awaitLogs(t *testing.T, w *clitest.AppWorld) {
	t.Helper()
	pods, err := w.Client.CoreV1().Pods(w.TestNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 2 {
		t.Fatalf("the Pods are %v: %v", pods, err)
	}
	var out programs.Output
	stop, done := w.AppBackground(t, &out, "logs web --follow")
	for _, pod := range pods.Items {
		out.WaitFor(t, "["+pod.Name+"/web] ")
	}
	stop()
	<-done
}
