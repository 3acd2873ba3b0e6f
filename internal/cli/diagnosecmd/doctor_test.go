package diagnosecmd_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	argo "slipway.dev/slipway/api/argo/v1alpha1"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/cli/diagnosecmd"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// TestDoctor: the problems are reported, and nothing secret is in the bundle, wherever
// it was: in the contexts, in the environment, or in the reports of runtimes.
func TestDoctor(t *testing.T) {
	w := clitest.NewPlatformWorld(t)
	w.Login(t)
	own := w.Key(t)
	w.Must(t, "config set-runtime prod")
	text := must.Get(os.ReadFile(w.Config))(t)
	more := strings.Replace(string(text), "contexts:\n", "contexts:\n- {name: other, url: 'https://other.example', key: canary-odd-key}\n", 1)
	must.Do(t, os.WriteFile(w.Config, []byte(more), 0o600))
	if got := w.Run(t, "doctor --kubeconfig missing"); got.Code != 0 || !strings.Contains(clitest.TrimLines(got.Stdout), "runtimes ok 0 runtimes") {
		t.Errorf("a platform without runtimes: %+v", got)
	}
	if got := w.Run(t, "doctor --kubeconfig missing"); !strings.Contains(clitest.TrimLines(got.Stdout), "database ok SQLite") {
		t.Errorf("the database: %+v", got)
	}
	clitest.Beat(t, w.RegisteredAs(t, own, "prod"), &platformv1.HeartbeatRequest{
		Version: "1.0.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL, Health: platformv1.HealthStatus_HEALTH_STATUS_DEGRADED,
		HealthMessage: "clone of https://bot:canary-password@git.example failed: token=canary-token and ghp_canary0123456789, key canary-odd-key",
	})
	path := filepath.Join(w.Home, "doctor.tar.gz")
	w.Environ = []string{"SLIPWAY_API_KEY=" + own}
	got := w.Run(t, "doctor --kubeconfig missing --output "+path)
	if got.Code != 1 || !strings.Contains(got.Stdout, "runtime prod") || !strings.Contains(got.Stdout, "Degraded") || !strings.Contains(got.Stderr, "1 of ") {
		t.Errorf("doctor: %+v", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the bundle: %v, %v", info, err)
	}
	files := unpack(t, path)
	for _, name := range []string{"doctor/version.json", "doctor/contexts.json", "doctor/runtimes.json", "doctor/audit.json", "doctor/checks.json", "doctor/whoami.json"} {
		if files[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
	all := got.Stdout + got.Stderr
	for _, file := range files {
		all += file
	}
	for _, canary := range []string{"canary", own, strings.Split(own, "_")[2], clitest.ChosenPassword} {
		if strings.Contains(all, canary) {
			t.Errorf("%q is shown in\n%s", canary, all)
		}
	}
	for file, part := range map[string]string{"contexts": "https://other.example", "runtimes": "[redacted]@git.example", "audit": "runtime.register"} {
		if !strings.Contains(files["doctor/"+file+".json"], part) {
			t.Errorf("%q is missing in %s:\n%s", part, file, files["doctor/"+file+".json"])
		}
	}
	w.Environ = []string{"SLIPWAY_URL=http://127.0.0.1:1", "SLIPWAY_API_KEY=" + own}
	if got := w.Run(t, "doctor"); got.Code != 1 || !strings.Contains(got.Stdout, "does not respond") {
		t.Errorf("without the platform: %+v", got)
	}
	// A key of the environment is redacted also if the contexts cannot be read.
	must.Do(t, os.WriteFile(w.Config, []byte("contexts: none\n"), 0o600))
	w.Environ = []string{"SLIPWAY_URL=http://127.0.0.1:1/canary-env-key", "SLIPWAY_API_KEY=canary-env-key"}
	if got := w.Run(t, "doctor"); got.Code != 1 || strings.Contains(got.Stdout+got.Stderr, "canary") || !strings.Contains(got.Stdout, "[redacted]") {
		t.Errorf("without contexts: %+v", got)
	}
}

// TestDatabaseState: a planned fail-over without a standby, and one that loses writes, are
// warnings.
func TestDatabaseState(t *testing.T) {
	for _, c := range []struct {
		found *platformv1.PlatformDatabase
		state string
	}{
		{&platformv1.PlatformDatabase{Kind: "sqlite"}, "ok"},
		{&platformv1.PlatformDatabase{Kind: "postgres", Hosts: 1}, "ok"},
		{&platformv1.PlatformDatabase{Kind: "postgres", Hosts: 2}, "warning"},
		{&platformv1.PlatformDatabase{Kind: "postgres", Hosts: 2, Standbys: 1}, "warning"},
		{&platformv1.PlatformDatabase{Kind: "postgres", Hosts: 2, Standbys: 1, Synchronous: true}, "ok"},
	} {
		if state, message := diagnosecmd.DatabaseState(c.found); state != c.state {
			t.Errorf("%v is %s: %s", c.found, state, message)
		}
	}
}

// TestDoctorGatewayAPI: a cluster without Gateway API skips its check, and a GatewayClass
// that no edge serves fails it.
func TestDoctorGatewayAPI(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode()) // before the environment is cleaned
	clitest.Clean(t, "KUBECONFIG="+cluster.Kubeconfig)
	if got := clitest.Run(t, "doctor"); got.Code != 0 || !strings.Contains(clitest.TrimLines(got.Stdout), "gateway api skipped the runtime does not use Gateway API") {
		t.Errorf("without Gateway API: %+v", got)
	}
	clitest.Run(t, "crds upgrade --only gateway")
	cluster.Apply(t, "", "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: slipway}\nspec: {controllerName: slipway.dev/gateway-controller}\n")
	if got := clitest.Run(t, "doctor"); got.Code != 1 || !strings.Contains(clitest.TrimLines(got.Stdout), "gateway api failed GatewayClass slipway: no edge has accepted it") {
		t.Errorf("without an edge: %+v", got)
	}
}

// TestDoctorRuntimeParts: settings of notifications, image updates and limits over
// replicas are checked where they are used, and values of Secrets are not shown.
func TestDoctorRuntimeParts(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode()) // before the environment is cleaned
	clitest.Clean(t, "KUBECONFIG="+cluster.Kubeconfig)
	expect := func(code int, lines ...string) {
		t.Helper()
		got := clitest.Run(t, "doctor")
		shown := clitest.TrimLines(got.Stdout)
		if got.Code != code || strings.Contains(shown, "canary") {
			t.Errorf("%+v", got)
		}
		for _, line := range lines {
			if !strings.Contains(shown, line) {
				t.Errorf("%q is missing in\n%s", line, shown)
			}
		}
	}
	expect(0, "notifications skipped there is no ConfigMap", "image updates skipped there is no ImageUpdater", "limits skipped there is no edge")
	cluster.Apply(t, "default", `
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-notifications-cm}
data: {service.carrier-pigeon: "token: $token", servce.slack: ""}
---
apiVersion: v1
kind: Secret
metadata: {name: argocd-notifications-secret}
stringData: {token: canary-token}
`)
	edge := func(name, ports string) string {
		return `
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, labels: {app.kubernetes.io/part-of: slipway, app.kubernetes.io/component: edge}}
spec: {containers: [{name: edge, image: edge, ports: [` + ports + `]}]}
`
	}
	cluster.Apply(t, "default", edge("edge-0", "{name: limits, containerPort: 8094}")+"---"+edge("edge-1", ""))
	expect(1, "notifications failed default/argocd-notifications-cm: servce.slack: there is no such setting",
		"limits warning 1 of 2 edges in default count limits on their own")
}

// gitOpsObjects are objects of two agents, one of which takes part in a division, of a
// Promotion and an ApplicationSet that no agent has read, and Events of agents.
func gitOpsObjects(at time.Time) string {
	now := at.UTC().Format("2006-01-02T15:04:05.000000Z")
	agent := "apiVersion: v1\nkind: Pod\nmetadata: {name: agent-%d, labels: {app.kubernetes.io/part-of: slipway, app.kubernetes.io/component: agent}}\nspec: {containers: [{name: agent, image: agent}]}\n---\n"
	return fmt.Sprintf(agent+agent, 0, 1) + `
apiVersion: slipway.dev/v1alpha1
kind: Promotion
metadata: {name: web-1}
spec: {product: web}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: slipway-agent-division, labels: {slipway.dev/division: slipway-agent}, annotations: {slipway.dev/division-generations: "[]"}}
spec: {renewTime: "` + now + `", leaseDurationSeconds: 600}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: slipway-agent-member-a, labels: {slipway.dev/division: slipway-agent}}
spec: {holderIdentity: a, renewTime: "` + now + `", leaseDurationSeconds: 600}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: slipway-agent-member-b, labels: {slipway.dev/division: slipway-agent}}
spec: {holderIdentity: b, renewTime: "2026-01-01T00:00:00.000000Z", leaseDurationSeconds: 600}
---
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: previews}
spec:
  generators: [{matrix: {generators: [{list: {elements: [{a: b}]}}, {pullRequest: {gitlab: {project: acme/web, tokenRef: {secretName: a, key: b}}}}]}}]
  template: {metadata: {name: 'pr'}, spec: {project: default, source: {repoURL: https://git/a, path: x}, destination: {namespace: x}}}
---
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: plain}
spec:
  generators: [{list: {elements: [{a: b}]}}]
  template: {metadata: {name: 'pr'}, spec: {project: default, source: {repoURL: https://git/a, path: x}, destination: {namespace: x}}}
---
apiVersion: v1
kind: Event
metadata: {name: refused}
type: Warning
reason: ImageUpdateRefused
message: the project does not allow it
involvedObject: {apiVersion: argoproj.io/v1alpha1, kind: Application, namespace: default, name: web}
---
apiVersion: v1
kind: Event
metadata: {name: unreported}
type: Warning
reason: PreviewNotReported
message: 403 Forbidden
involvedObject: {apiVersion: argoproj.io/v1alpha1, kind: ApplicationSet, namespace: default, name: previews}
---
apiVersion: v1
kind: Event
metadata: {name: unstarted}
type: Warning
reason: PromotionNotStarted
message: there is no such flow
involvedObject: {apiVersion: codefresh.io/v1beta1, kind: Product, namespace: default, name: web}
`
}

// TestDoctorGitOps: promotions, the division of Applications, previews and updates of
// images that do not go on are found, each with what to do.
func TestDoctorGitOps(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode()) // before the environment is cleaned
	clitest.Clean(t, "KUBECONFIG="+cluster.Kubeconfig)
	cluster.Define(t, string(must.Get(argo.CRDs())(t)))
	cluster.Define(t, string(must.Get(slipway.CRDs())(t)))
	expect := func(code int, lines ...string) {
		t.Helper()
		got := clitest.Run(t, "doctor")
		shown := clitest.TrimLines(got.Stdout)
		for _, line := range lines {
			if got.Code != code || !strings.Contains(shown, line) {
				t.Errorf("%d: %q is missing in\n%s", got.Code, line, shown)
			}
		}
	}
	expect(0, "promotions skipped there are no promotions", "division skipped no agents divide", "previews skipped there are no applicationsets")
	cluster.Apply(t, "default", gitOpsObjects(time.Now()))
	status := func(resource, name, text string) {
		t.Helper()
		at, _ := schema.ParseResourceArg(resource)
		must.Get(cluster.Dynamic.Resource(*at).Namespace("default").Patch(t.Context(), name, types.MergePatchType, []byte(`{"status": `+text+`}`), metav1.PatchOptions{}, "status"))(t)
	}
	for i := range 2 {
		must.Get(cluster.Client.CoreV1().Pods("default").Patch(t.Context(), fmt.Sprint("agent-", i), types.MergePatchType, []byte(`{"status": {"phase": "Running"}}`), metav1.PatchOptions{}, "status"))(t)
	}
	expect(0, "promotions warning Promotion default/web-1 of web: no agent has read it: check that the agent runs",
		"division warning namespace default: 1 of 2 agents share the Applications: give all replicas the same applications.divide",
		"promotions warning Product default/web: no promotion begins by itself: there is no such flow: repair",
		"previews warning ApplicationSet default/previews: no agent has read it", "previews warning ApplicationSet default/previews: 403 Forbidden: the token of the generator needs",
		"image updates warning Application default/web: the project does not allow it: change what the message names")
	status("promotions.v1alpha1.slipway.dev", "web-1", `{"phase": "Failed", "message": "staging: the gate saw 9 errors"}`)
	status("applicationsets.v1alpha1.argoproj.io", "previews", `{"conditions": [{"type": "ErrorOccurred", "status": "True", "message": "401 Unauthorized", "reason": "x"}]}`)
	expect(1, "promotions failed Promotion default/web-1 of web: staging: the gate saw 9 errors: repair that, and start another one: slipway promote start web -n default",
		"previews failed ApplicationSet default/previews: 401 Unauthorized: change what the message names")
	status("applicationsets.v1alpha1.argoproj.io", "previews", `{"conditions": [{"type": "ParametersGenerated", "status": "True", "message": "2 pull requests of forks are left out", "reason": "x"}]}`)
	expect(1, "previews ok ApplicationSet default/previews: 2 pull requests of forks are left out")
}

func TestPromotionState(t *testing.T) {
	now := time.Now()
	refused := []metav1.Condition{{Type: "Succeeded", Status: metav1.ConditionFalse, Reason: "Refused", Message: "there is no Product web"}}
	before, after := metav1.NewTime(now.Add(-time.Second)), metav1.NewTime(now.Add(time.Second))
	for _, test := range []struct {
		status       slipway.PromotionStatus
		state, wants string
	}{
		{slipway.PromotionStatus{}, "warning", "no agent has read it"},
		{slipway.PromotionStatus{Conditions: refused}, "failed", "there is no Product web: repair the object"},
		{slipway.PromotionStatus{Phase: slipway.PromotionProgressing, Message: "prod: an approval is missing", DeadlineAt: &after}, "ok", "Progressing: prod: an approval is missing"},
		{slipway.PromotionStatus{Phase: slipway.PromotionProgressing, DeadlineAt: &before}, "warning", "its deadline has passed"},
		{slipway.PromotionStatus{Phase: slipway.PromotionSucceeded, DeadlineAt: &before}, "ok", "Succeeded"},
	} {
		if state, message := diagnosecmd.PromotionState(&slipway.Promotion{Status: test.status}, now); state != test.state || !strings.Contains(message, test.wants) {
			t.Errorf("%+v: %s, %s", test.status, state, message)
		}
	}
}

func TestDivisionState(t *testing.T) {
	for _, test := range []struct {
		live, running int
		state, wants  string
	}{
		{2, 2, "ok", "2 agents share the Applications"}, {1, 1, "ok", "1 agent shares"}, {2, 0, "ok", "2 agents"}, {1, 2, "warning", "1 of 2 agents"},
		{0, 0, "failed", "check that the agents run"}, {0, 1, "warning", "none of 1 agent"},
	} {
		if state, message := diagnosecmd.DivisionState(test.live, test.running); state != test.state || !strings.Contains(message, test.wants) {
			t.Errorf("%d of %d: %s, %s", test.live, test.running, state, message)
		}
	}
}

func TestReadyCondition(t *testing.T) {
	object := func(conditions ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": conditions}}}
	}
	for _, test := range []struct {
		object *unstructured.Unstructured
		state  string
	}{
		{&unstructured.Unstructured{Object: map[string]any{}}, "warning"},
		{object("text", map[string]any{"type": "Other", "status": "True"}), "warning"},
		{object(map[string]any{"type": "Ready", "status": "False", "message": "two updaters"}), "failed"},
		{object(map[string]any{"type": "Ready", "status": "True"}), "ok"},
	} {
		if state, message := diagnosecmd.ReadyCondition(test.object); state != test.state || state == "failed" && message != "two updaters" {
			t.Errorf("%v: %s, %s", test.object, state, message)
		}
	}
}

// unpack reads a bundle.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	file := must.Get(os.Open(path))(t)
	defer func() { _ = file.Close() }()
	zipped := must.Get(gzip.NewReader(file))(t)
	files := map[string]string{}
	for archive := tar.NewReader(zipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must.Do(t, err)
		text := must.Get(io.ReadAll(archive))(t)
		files[header.Name] = string(text)
	}
}
