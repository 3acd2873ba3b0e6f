package appcmd_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/cli/clitest"
)

// shopApp is an Application as its agent has left it: synced once by policy,
// with a Deployment that is not ready and an object that left Git.
const shopApp = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: default
  source: {repoURL: https://git.example/shop.git, path: deploy, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: NAMESPACE}
  syncPolicy: {automated: {prune: true}}
status:
  sync: {status: OutOfSync, revision: aaaa111111111111111111111111111111111111}
  health: {status: Progressing, message: "Deployment web: 1 of 2 replicas are ready"}
  resources:
  - {group: apps, version: v1, kind: Deployment, namespace: NAMESPACE, name: web, status: Synced, syncWave: 1, health: {status: Progressing, message: "1 of 2 replicas are ready"}}
  - {version: v1, kind: Service, namespace: NAMESPACE, name: web, status: Synced, health: {status: Healthy}}
  - {version: v1, kind: ConfigMap, namespace: NAMESPACE, name: old, status: OutOfSync, requiresPruning: true}
  conditions:
  - {type: SharedResourceWarning, message: "ConfigMap old is also of another Application", lastTransitionTime: "2026-01-02T03:04:05Z"}
  history:
  - {id: 0, revision: bbbb000000000000000000000000000000000000, deployedAt: "2026-01-01T00:00:00Z", initiatedBy: {username: ada}, source: {repoURL: https://git.example/shop.git, path: deploy, targetRevision: main}}
  - {id: 1, revision: aaaa111111111111111111111111111111111111, deployedAt: "2026-01-02T00:00:00Z", initiatedBy: {automated: true}, source: {repoURL: https://git.example/shop.git, path: deploy, targetRevision: main}}
  operationState:
    phase: Succeeded
    message: successfully synced (all tasks run)
    startedAt: "2026-01-01T23:59:58Z"
    finishedAt: "2026-01-02T00:00:00Z"
    operation: {initiatedBy: {automated: true}, sync: {revision: aaaa111111111111111111111111111111111111, prune: true}}
    syncResult:
      revision: aaaa111111111111111111111111111111111111
      resources:
      - {group: apps, version: v1, kind: Deployment, namespace: NAMESPACE, name: web, status: Synced, syncPhase: Sync, message: configured}
      - {group: batch, version: v1, kind: Job, namespace: NAMESPACE, name: migrate, hookType: PreSync, hookPhase: Succeeded, syncPhase: PreSync, message: it has ended}
`

// bareApp is an Application that no agent has looked at.
const bareApp = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: bare, labels: {team: blue}}
spec:
  project: blue
  sources:
  - {repoURL: https://charts.example, chart: redis, targetRevision: 1.x}
  - {repoURL: https://git.example/values.git, ref: values}
  destination: {namespace: NAMESPACE}
`

// webRelease is a release of the Deployment of shopApp.
const webRelease = `apiVersion: slipway.dev/v1alpha1
kind: Release
metadata: {name: web}
spec:
  workload: {apiVersion: apps/v1, kind: Deployment, name: web}
  revisions:
  - {name: stable, hash: aaa, replicaSet: u1, weight: 80}
  - {name: canary, hash: bbb, replicaSet: u2, weight: 20}
status: {phase: Progressing, step: 2, steps: 4, message: "canary 20 %, waiting for 500 requests"}
`

// divisionLeases are those of one replica that divides the Applications with itself.
const divisionLeases = `apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: slipway-agent-division, annotations: {slipway.dev/division-generations: '[{"generation":1,"members":["slipway-agent-member-a"]}]'}}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: slipway-agent-member-a}
spec: {holderIdentity: agent-0, leaseDurationSeconds: 3600, renewTime: %q}
`

func TestAppList(t *testing.T) {
	w := clitest.NewAppWorld(t)
	w.ApplyManifests(t, shopApp)
	w.ApplyManifests(t, bareApp)
	for _, c := range []struct{ name, line, want string }{
		{"table", "list", `
NAME  PROJECT  SYNC       HEALTH       REVISION  OPERATION
bare  blue     Unknown    Unknown      -         -
shop  default  OutOfSync  Progressing  aaaa111   Succeeded`},
		{"wide", "list -o wide", `
NAME  PROJECT  SYNC       HEALTH       REVISION  OPERATION  DESTINATION  POLICY           CONDITIONS             SOURCE
bare  blue     Unknown    Unknown      -         -          NAMESPACE    manual           -                      https://charts.example chart redis at 1.x; https://git.example/values.git at HEAD as $values
shop  default  OutOfSync  Progressing  aaaa111   Succeeded  NAMESPACE    automated,prune  SharedResourceWarning  https://git.example/shop.git path deploy at main`},
		{"labels", "list -l team=blue -o name", "NAMESPACE/bare"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := w.App(t, c.line)
			if got.Code != 0 {
				t.Fatalf("got %+v", got)
			}
			clitest.RequireText(t, w.Shown(got.Stdout), c.want)
		})
	}
	if got := w.App(t, "list -A -o name"); got.Code != 0 || !strings.Contains(got.Stdout, w.TestNamespace+"/bare\n"+w.TestNamespace+"/shop\n") {
		t.Errorf("of all namespaces: %+v", got)
	}
	var list struct {
		Kind  string
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(w.App(t, "list -o json").Stdout), &list); err != nil || list.Kind != "ApplicationList" || len(list.Items) != 2 {
		t.Errorf("as JSON: %v, %+v", err, list)
	}
	empty := w.Namespace(t)
	if got := w.App(t, "list -n "+empty); got.Code != 0 || got.Stdout != "" || !strings.Contains(got.Stderr, "look in all with -A") {
		t.Errorf("in a namespace without: %+v", got)
	}
}

func TestAppGet(t *testing.T) {
	w := clitest.NewAppWorld(t)
	w.ApplyManifests(t, shopApp)
	w.ApplyManifests(t, bareApp)
	got := w.App(t, "get shop")
	if got.Code != 0 {
		t.Fatalf("got %+v", got)
	}
	clitest.RequireText(t, w.Shown(got.Stdout), `
Name:            shop
Namespace:       NAMESPACE
Project:         default
Destination:     https://kubernetes.default.svc, namespace NAMESPACE
Source:          https://git.example/shop.git path deploy at main
Sync policy:     automated,prune
Sync:            OutOfSync at aaaa111
Health:          Progressing: Deployment web: 1 of 2 replicas are ready
Last operation:  Succeeded: successfully synced (all tasks run)
                 sync to aaaa111 with prune by policy, started 2026-01-01T23:59:58Z, ended 2026-01-02T00:00:00Z

CONDITION              SINCE                 MESSAGE
SharedResourceWarning  2026-01-02T03:04:05Z  ConfigMap old is also of another Application

KIND             NAMESPACE  NAME  SYNC      HEALTH
Deployment.apps  NAMESPACE  web   Synced    Progressing
Service          NAMESPACE  web   Synced    Healthy
ConfigMap        NAMESPACE  old   to prune  -

PHASE    OBJECT                       RESULT     MESSAGE
PreSync  Job.batch NAMESPACE/migrate  Succeeded  it has ended`)

	var read struct {
		Spec   struct{ Project string }
		Status struct{ Sync struct{ Status string } }
	}
	if err := yaml.Unmarshal([]byte(w.App(t, "get shop -o yaml").Stdout), &read); err != nil || read.Status.Sync.Status != "OutOfSync" {
		t.Errorf("as YAML: %v, %+v", err, read)
	}
	if got := w.App(t, "get "+w.TestNamespace+"/shop -n default -o name"); got.Stdout != w.TestNamespace+"/shop\n" {
		t.Errorf("with its namespace in the name: %+v", got)
	}
	w.DefineFiles(t, "../../../charts/gitops-runtime/crds/slipway.dev_releases.yaml")
	w.ApplyManifests(t, webRelease)
	w.ApplyManifests(t, strings.Replace(webRelease, "name: web", "name: other", 1))
	if got := w.App(t, "get shop"); strings.Count(got.Stdout, "Release:") != 1 ||
		!strings.Contains(clitest.TrimLines(got.Stdout), "Release: release/web is Progressing, step 2/4, weight 20: canary 20 %, waiting for 500 requests") {
		t.Errorf("with a release: %+v", got)
	}
	if got := w.App(t, "get shop"); strings.Contains(got.Stdout, "Owner:") {
		t.Errorf("nothing is divided: %+v", got)
	}
	renewed := func(at time.Time) string {
		return fmt.Sprintf(divisionLeases, at.UTC().Format("2006-01-02T15:04:05.000000Z"))
	}
	w.ApplyManifests(t, renewed(time.Now()))
	if got := w.App(t, "get shop"); !strings.Contains(clitest.TrimLines(got.Stdout), "Owner: agent-0") {
		t.Errorf("with a division: %+v", got)
	}
	// The Leases stay when the division is turned off.
	w.ApplyManifests(t, renewed(time.Now().Add(-3*time.Hour)))
	if got := w.App(t, "get shop"); strings.Contains(got.Stdout, "Owner:") {
		t.Errorf("with Leases of replicas that are gone: %+v", got)
	}
	if got := w.App(t, "get bare"); !strings.Contains(got.Stdout, "Source 2:") || !strings.Contains(got.Stdout, "Sync policy:  manual") {
		t.Errorf("one that nobody has looked at: %+v", got)
	}
}

func TestAppHistory(t *testing.T) {
	w := clitest.NewAppWorld(t)
	w.ApplyManifests(t, shopApp)
	w.ApplyManifests(t, bareApp)
	clitest.RequireText(t, w.App(t, "history shop").Stdout, `
ID  DEPLOYED              REVISION  BY      SOURCE
0   2026-01-01T00:00:00Z  bbbb000   ada     https://git.example/shop.git path deploy at main
1   2026-01-02T00:00:00Z  aaaa111   policy  https://git.example/shop.git path deploy at main`)
	if got := w.App(t, "history bare"); got.Code != 0 || !strings.Contains(got.Stdout, "has not been synced yet") {
		t.Errorf("one that was never synced: %+v", got)
	}
	if got := w.App(t, "history bare -o json"); got.Stdout != "[]\n" {
		t.Errorf("as JSON: %+v", got)
	}
}

// TestAppErrors: what went wrong, and what to do.
func TestAppErrors(t *testing.T) {
	w := clitest.NewAppWorld(t)
	w.ApplyManifests(t, shopApp)
	for _, c := range []struct {
		name, line string
		code       int
		want       string
	}{
		{"not there", "get nothing", 1, "there is no Application nothing in the namespace " + w.TestNamespace + ": see slipway app list -A"},
		{"elsewhere", "get shop -n default", 1, "-n " + w.TestNamespace}, // beside those of tests whose namespaces are not gone yet
		{"no name", "get", 2, "takes the name of one Application"},
		{"bad name", "get a/b/c", 2, "write NAME, or NAMESPACE/NAME"},
		{"output", "get shop -o xml", 2, `--output "xml" is not known: choose one of table, wide, json, yaml, name`},
		{"context", "list --context nobody", 2, `context "nobody" does not exist`},
		{"strategy", "sync shop --strategy fast", 2, `--strategy "fast" is neither hook nor apply`},
		{"resource", "sync shop --resource web", 2, "--resource web: "},
		{"no such resource", "sync shop --resource apps:Deployment:db", 2, "takes none of the Application's objects: apps:Deployment:web, :Service:web, :ConfigMap:old"},
		{"sync option", "sync shop --sync-option Prunne=true", 2, "Prunne"},
		{"rollback to no past sync", "rollback shop 9", 1, "has no past sync 9: there are "},
		{"rollback without a number", "rollback shop first", 2, `"first" is no ID of a past sync`},
		{"nothing to end", "terminate shop", 1, "there is nothing to end"},
		{"no Pods", "logs shop", 1, "has no Pods"},
		{"two revisions", "diff shop --local . --revision x", 2, "a folder has no revisions"},
		{"unknown flag", "sync shop --prun", 2, "did you mean --prune?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := w.App(t, c.line); got.Code != c.code || !strings.Contains(got.Stderr, c.want) {
				t.Errorf("got %+v, wanted %d and %q", got, c.code, c.want)
			}
		})
	}
	for _, c := range []struct{ name, line, want string }{
		{"no server", "app list --kubeconfig " + deadKubeconfig(t), "does not respond: is the cluster up"},
		{"no file", "app list --kubeconfig nowhere", "nowhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := clitest.Run(t, c.line); got.Code == 0 || !strings.Contains(got.Stderr, c.want) {
				t.Errorf("got %+v, wanted %q", got, c.want)
			}
		})
	}
}
