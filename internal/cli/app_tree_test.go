package cli_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// webApp has the Deployment, as its agent tells it.
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
	w := newAppWorld(t)
	w.apply(t, webDeployment)
	w.apply(t, webApp)
	w.WaitForRollout(t, w.namespace, "web", 2*time.Minute)
	got := w.app(t, "tree web")
	if got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	text := regexp.MustCompile(`web-[a-z0-9]+(-[a-z0-9]{5})?`).ReplaceAllString(w.shown(got.stdout), "web-X")
	requireText(t, text, `
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
	if err := json.Unmarshal([]byte(w.app(t, "tree web -o json").stdout), &root); err != nil {
		t.Fatal(err)
	}
	if len(root.Children) != 2 || len(root.Children[0].Children) != 1 || len(root.Children[0].Children[0].Children) != 2 {
		t.Errorf("as JSON: %+v", root)
	}
}

// awaitLogs waits until each Pod has written something.
func (w *appWorld) awaitLogs(t *testing.T) {
	t.Helper()
	pods, err := w.Client.CoreV1().Pods(w.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 2 {
		t.Fatalf("the Pods are %v: %v", pods, err)
	}
	var out lockedBuffer
	stop, done := w.appBackground(t, &out, "logs web --follow")
	for _, pod := range pods.Items {
		out.waitFor(t, "["+pod.Name+"/web] ")
	}
	stop()
	<-done
}

// TestAppLogs: all Pods, or those of one object, or one container.
func TestAppLogs(t *testing.T) {
	w := newAppWorld(t)
	w.apply(t, webDeployment)
	w.apply(t, webApp)
	w.WaitForRollout(t, w.namespace, "web", 2*time.Minute)
	w.awaitLogs(t)
	got := w.app(t, "logs web --tail -1")
	for _, line := range strings.Split(strings.TrimSpace(got.stdout), "\n") {
		if prefix, _, found := strings.Cut(line, "/web] "); got.code != 0 || !found || !strings.HasPrefix(prefix, "[web-") {
			t.Errorf("the line %q does not say whose it is: %+v", line, got)
		}
	}
	if got := w.app(t, "logs web --tail 1 --resource apps:Deployment:web -c web"); got.code != 0 || strings.Count(got.stdout, "\n") != 2 {
		t.Errorf("the last line of each: %+v", got)
	}
	if got := w.app(t, "logs web -c db"); got.code != 1 || !strings.Contains(got.stderr, "no container of "+w.namespace+"/web is named db: there are web") {
		t.Errorf("a container that there is not: %+v", got)
	}
	if got := w.app(t, "logs web --resource :ConfigMap:settings"); got.code != 1 || !strings.Contains(got.stderr, "has no Pods") {
		t.Errorf("an object without Pods: %+v", got)
	}
}

// TestAppLogsFollow: what is written later comes too, and Ctrl-C is a good end.
func TestAppLogsFollow(t *testing.T) {
	w := newAppWorld(t)
	w.apply(t, strings.Replace(webDeployment, "replicas: 2", "replicas: 1", 1))
	w.apply(t, webApp)
	w.WaitForRollout(t, w.namespace, "web", 2*time.Minute)
	var out lockedBuffer
	stop, done := w.appBackground(t, &out, "logs web --follow --tail -1")
	out.waitFor(t, "\n")
	stop()
	if got := <-done; got != 0 {
		t.Errorf("it ended with %d: %s", got, out.String())
	}
}
