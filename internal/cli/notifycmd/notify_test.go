package notifycmd_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

func TestMain(m *testing.M) { clitest.Main(m) }

const settings = `apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-notifications-cm}
data:
  service.webhook.hook: "url: ADDRESS\nheaders: [{name: Authorization, value: $token}]"
  trigger.on-deployed: |
    - description: It is synced and healthy.
      when: app.status.operationState.phase in ['Succeeded'] and app.status.health.status == 'Healthy'
      oncePer: app.status.operationState.syncResult.revision
      send: [app-deployed]
  template.app-deployed: |
    message: "{{.app.metadata.name}} of {{.appProject.metadata.name}} runs {{.app.status.operationState.syncResult.revision}}"
    webhook: {hook: {method: POST, path: /deployed, body: "{{.app.metadata.name}}"}}
    slack: {attachments: "[]"}
  color: blue
`

const credentials = "apiVersion: v1\nkind: Secret\nmetadata: {name: argocd-notifications-secret}\nstringData: {token: the-token}\n"

const application = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: default
  source: {repoURL: "https://git.example.com/team/shop.git", path: ".", targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: shop}
status:
  health: {status: Healthy}
  operationState: {phase: Succeeded, startedAt: "2026-01-01T10:00:00Z", operation: {sync: {}}, syncResult: {revision: abc}}
`

// hookServer keeps the requests that it gets, as texts.
func hookServer(t *testing.T) (address string, requests chan string) {
	t.Helper()
	requests = make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- r.URL.Path + " " + r.Header.Get("Authorization") + " " + string(body)
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

// TestFiles: settings and an Application of files are tried without a cluster.
func TestFiles(t *testing.T) {
	clitest.Clean(t)
	address, requests := hookServer(t)
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	flags := " --config-map " + write("cm.yaml", strings.ReplaceAll(settings, "ADDRESS", address)) + " --secret " + write("secret.yaml", credentials)
	app := write("app.yaml", application)
	run := func(line string) clitest.Result { return clitest.Run(t, "notifications "+line+flags) }
	for _, c := range []struct{ line, want string }{
		{"trigger get on-deployed", `
NAME         TEMPLATE      DESCRIPTION
on-deployed  app-deployed  It is synced and healthy.`},
		{"trigger run on-deployed " + app, `
CONDITION                                                                                               RESULT  ONCE PER
app.status.operationState.phase in ['Succeeded'] and app.status.health.status == 'Healthy'              true    abc`},
		{"trigger run on-route-served " + app + " --edge-route shop.example.com/", `
CONDITION             RESULT  ONCE PER
len(edge.routes) > 0  true    shop.example.com/`},
		{"template get app-deployed -o name", "\napp-deployed"},
		{"template notify app-route-served " + app + " --edge-route shop.example.com/", "\nThe routes of application shop are live: shop.example.com/"},
		{"template notify app-deployed " + app + " --recipient slack:ops --dry-run", `
shop of <no value> runs abc
{
  "attachments": "[]"
}`},
		{"template notify app-deployed " + app + " --recipient hook:", "\napp-deployed sent to hook:"},
	} {
		got := run(c.line)
		if got.Code != 0 {
			t.Errorf("%s: %+v", c.line, got)
		}
		if clitest.TrimLines(got.Stdout) != clitest.TrimLines(c.want) {
			t.Errorf("%s prints\n%s\nwant\n%s", c.line, got.Stdout, c.want)
		}
		// What the agent would report is reported here, too.
		if !strings.Contains(got.Stderr, "color: there is no such setting") {
			t.Errorf("%s: the problems are %q", c.line, got.Stderr)
		}
	}
	if got := programs.Receive(t, requests, "the request"); got != "/deployed the-token shop" {
		t.Errorf("the webhook got %q", got)
	}
	for line, want := range map[string]string{
		"trigger run none " + app: "there is no trigger", "template notify none " + app: "there is no template",
		"template notify app-deployed " + app + " --recipient mail:me": "there is no service", "trigger run on-deployed": "name it, and an Application",
	} {
		if got := run(line); got.Code == 0 || !strings.Contains(got.Stderr, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
	// Without a report of the edges the condition has no value, and the reason is printed.
	if got := run("trigger run on-certificate-problem " + app); got.Code != 0 || !strings.Contains(got.Stdout, "false") || !strings.Contains(got.Stderr, "when:") {
		t.Errorf("without edges: %+v", got)
	}
}

// TestCluster: settings, Application and project are those of the cluster.
func TestCluster(t *testing.T) {
	cluster := kubetest.Shared(t)
	argotest.Install(t, cluster)
	clitest.Clean(t) // also of the variable by which a cluster is found
	namespace := cluster.Namespace(t)
	run := func(line string) clitest.Result {
		return clitest.Run(t, "notifications "+line+" --kubeconfig "+cluster.Kubeconfig+" -n "+namespace)
	}
	if got := run("trigger get"); got.Code != 1 || !strings.Contains(got.Stderr, "has no ConfigMap argocd-notifications-cm") {
		t.Errorf("without settings: %+v", got)
	}
	address, requests := hookServer(t)
	cluster.Apply(t, namespace, strings.ReplaceAll(settings, "ADDRESS", address)+"---\n"+credentials+"---\n"+application+
		"---\napiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: default}\nspec: {sourceRepos: ['*'], destinations: [{server: '*', namespace: '*'}]}\n")
	got := run("trigger get -o name")
	for _, name := range []string{"on-certificate-problem", "on-deployed", "on-held", "on-release-rolled-back", "on-route-served"} {
		if !strings.Contains(got.Stdout, name+"\n") {
			t.Errorf("%s is not among %q", name, got.Stdout)
		}
	}
	if got := run("template notify app-deployed shop"); got.Code != 0 || strings.TrimSpace(got.Stdout) != "shop of default runs abc" {
		t.Errorf("the message: %+v", got)
	}
	if got := run("template notify app-deployed " + namespace + "/shop --recipient hook:"); got.Code != 0 {
		t.Errorf("send: %+v", got)
	}
	if got := programs.Receive(t, requests, "the request"); got != "/deployed the-token shop" {
		t.Errorf("the webhook got %q", got)
	}
}
