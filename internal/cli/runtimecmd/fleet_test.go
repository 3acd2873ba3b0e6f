package runtimecmd_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// shownTimes are times in outputs.
var shownTimes = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// TestRuntimes: R33, R61, R62, R63, R113, R119: the life of a runtime as people see
// it.
func TestRuntimes(t *testing.T) {
	w := clitest.NewPlatformWorld(t)
	w.Login(t)
	if got := w.Run(t, "runtime list"); got.Code != 0 || got.Stdout != "" || !strings.Contains(got.Stderr, "slipway runtime install") {
		t.Errorf("none: %+v", got)
	}
	agent := w.Registered(t, "prod")
	clitest.Beat(t, agent, pendingHeartbeat())
	w.Registered(t, "silent")
	clitest.RequireText(t, shownTimes.ReplaceAllString(w.Must(t, "runtime list"), "TIME"), `
NAME NAMESPACE CLUSTER MODE VERSION ONLINE SYNC_STATUS HEALTH INSTALLATION LAST_SEEN
prod slipway prod-cluster tunnel 1.2.3 yes Complete installation Degraded In progress TIME
silent slipway silent-cluster tunnel 1.0.0 no Complete installation Unknown In progress -`)
	clitest.RequireText(t, shownTimes.ReplaceAllString(w.Must(t, "runtime get prod"), "TIME"), `
Name: prod
Namespace: slipway
Cluster: prod-cluster, Kubernetes v1.36.0
Version: 1.2.3
Chart: 0.9.0
Access: tunnel
Online: yes
Registered: TIME
Configuration runtime: yes
Sync: Complete installation
Health: Degraded: agent: 0 of 1 ready
Installation: In progress

STILL TO DO COMMAND
Git credentials of the runtime slipway integration git set-runtime-token --runtime prod --token-file FILE
Git token of a user slipway integration git register default --runtime prod --token-file FILE
Runtime as an Application slipway runtime configure prod

COMPONENT VERSION SYNC HEALTH MESSAGE
agent 1.2.3 Synced Degraded 0 of 1 ready

GIT SOURCE REPOURL PATH SYNC HEALTH MESSAGE
apps https://git.example/apps.git prod Out of sync Healthy

CLUSTER SERVER VERSION STATUS MESSAGE
far https://far.example v1.35.0 Connected`)
	var told struct{ PendingSteps []string }
	if err := json.Unmarshal([]byte(w.Must(t, "runtime get prod -o json")), &told); err != nil || len(told.PendingSteps) != 3 {
		t.Errorf("as JSON: %+v, %v", told, err)
	}
	if got := w.Must(t, "runtime list -o name"); got != "prod\nsilent\n" {
		t.Errorf("names: %q", got)
	}
	w.Must(t, "runtime check-name free")
	w.Fails(t, "runtime check-name prod", 1, "prod-2 is free")
	w.Fails(t, "runtime check-name Pro_d", 1, "lower-case")
	w.Must(t, "runtime set-configuration silent")
	w.Fails(t, "runtime rename prod other", 1, "a runtime cannot be renamed")
	w.Fails(t, "runtime delete prod --yes", 1, "only an offline one can be deleted")
	w.Fails(t, "runtime get nothing", 1, "nothing")
	if got := w.Must(t, "runtime uninstall prod --clean-shared-repository --print helm --yes"); got != "helm uninstall slipway-runtime --namespace slipway\n" {
		t.Errorf("uninstall: %q", got)
	}
	if got := w.Must(t, "runtime list"); !strings.Contains(got, "Uninstalling") {
		t.Errorf("uninstalling:\n%s", got)
	}
	w.Must(t, "runtime delete silent --yes")
	w.Must(t, "runtime revoke prod --yes")
	w.Fails(t, "git-source list --runtime prod", 1, "offline")
}

func pendingHeartbeat() *platformv1.HeartbeatRequest {
	return &platformv1.HeartbeatRequest{
		Version: "1.2.3", ChartVersion: "0.9.0", KubernetesVersion: "v1.36.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL,
		Sync: platformv1.SyncStatus_SYNC_STATUS_OUT_OF_SYNC, Health: platformv1.HealthStatus_HEALTH_STATUS_DEGRADED, HealthMessage: "agent: 0 of 1 ready",
		PendingSteps: []platformv1.CompletionStep{
			platformv1.CompletionStep_COMPLETION_STEP_GIT_CREDENTIALS, platformv1.CompletionStep_COMPLETION_STEP_USER_TOKEN, platformv1.CompletionStep_COMPLETION_STEP_RUNTIME_APPLICATION,
		},
		Components: []*platformv1.Component{{
			Name: "agent", Version: "1.2.3", Sync: platformv1.SyncStatus_SYNC_STATUS_SYNCED,
			Health: platformv1.HealthStatus_HEALTH_STATUS_DEGRADED, HealthMessage: "0 of 1 ready",
		}},
		GitSources: []*platformv1.GitSourceSummary{{
			Name: "apps", RepoUrl: "https://git.example/apps.git", Path: "prod",
			Sync: platformv1.SyncStatus_SYNC_STATUS_OUT_OF_SYNC, Health: platformv1.HealthStatus_HEALTH_STATUS_HEALTHY,
		}},
		Clusters: []*platformv1.ManagedClusterSummary{{Name: "far", Server: "https://far.example", Version: "v1.35.0", Status: "Connected"}},
	}
}

// TestRuntimeInstall: R43 to R53, R76: what installs a runtime in each mode; the key
// is in a file and never in a command.
func TestRuntimeInstall(t *testing.T) {
	w := clitest.NewPlatformWorld(t)
	w.Login(t)
	account := clitest.AccountOf(t, w)
	got := w.Run(t, "runtime install prod --create-key --print helm")
	if got.Code != 0 {
		t.Fatalf("install: %+v", got)
	}
	path := filepath.Join(w.Home, "prod.key")
	key, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(key), "slw_") || strings.Contains(got.Stdout+got.Stderr, string(key)) {
		t.Fatalf("the key: %v, %+v", err, got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the key: %v, %v", info, err)
	}
	clitest.RequireText(t, strings.NewReplacer(w.Home, "HOME", w.Url, "URL", account, "ACCOUNT").Replace(got.Stdout), `
# 1. The API key goes into a Secret.
kubectl create namespace slipway --dry-run=client -o yaml | kubectl apply -f -
kubectl create secret generic slipway-user-token --namespace slipway --from-file=token=/dev/stdin < HOME/prod.key

# 2. Helm installs the runtime, which joins with the key.
helm upgrade --install slipway-runtime --create-namespace --namespace slipway \
  --set-string global.platform.url=URL \
  --set-string global.platform.userToken.secretKeyRef.name=slipway-user-token \
  --set-string global.platform.userToken.secretKeyRef.key=token \
  --set-string global.runtime.name=prod \
  --set-string global.platform.accountId=ACCOUNT \
  oci://charts.slipway.dev/gitops-runtime --wait`)
	w.Fails(t, "runtime install prod --create-key --print helm", 2, "is there already")
	ingress := w.Must(t, "runtime install prod --key-file prod.key --mode ingress --host prod.example.com --ingress-class nginx --no-wait --version 1.2.3 --print helm")
	for _, part := range []string{
		"--set global.runtime.ingress.enabled=true", "--set-string 'global.runtime.ingress.hosts[0]=prod.example.com'",
		"--set-string global.runtime.ingress.className=nginx", "gitops-runtime --version 1.2.3\n",
	} {
		if !strings.Contains(ingress, part) || strings.Contains(ingress, "accountId") {
			t.Errorf("%q is missing in\n%s", part, ingress)
		}
	}
	route := w.Must(t, "runtime install prod --key-file prod.key --mode http-route --host prod.example.com --gateway infra/public --print helm")
	for _, part := range []string{"httpRoute.enabled=true", "'global.runtime.httpRoute.hostnames[0]=prod.example.com'", "parentRefs[0].namespace=infra", "parentRefs[0].name=public"} {
		if !strings.Contains(route, part) {
			t.Errorf("R123: %q is missing in\n%s", part, route)
		}
	}
	terraform := w.Must(t, "runtime install prod --key-file prod.key --mode mesh --ingress-url https://prod.example.com --print terraform")
	for _, part := range []string{
		`resource "helm_release" "slipway_runtime" {`, `repository       = "oci://charts.slipway.dev"`, `chart            = "gitops-runtime"`, "create_namespace = true",
		`{ name = "global.runtime.ingressUrl", value = "https://prod.example.com", type = "string" }`, `{ name = "tunnel-client.enabled", value = "false" }`,
	} {
		if !strings.Contains(terraform, part) {
			t.Errorf("%q is missing in\n%s", part, terraform)
		}
	}
	w.Fails(t, "runtime install prod --mode ingress", 2, "--host, --mode: an Ingress needs a host")
	w.Fails(t, "runtime install prod --mode ingress --set a=b", 2, "global.runtime.ingress.hosts")
	w.Fails(t, "runtime install prod --mode mesh", 2, "--ingress-url")
	w.Fails(t, "runtime install prod --mode wire", 2, "choose tunnel, ingress, http-route or mesh")
	w.Must(t, "runtime install prod --key-file prod.key --mode httpRoute --host prod.example.com --gateway infra/public --print helm")
	w.Fails(t, "runtime install prod --mode tunnel --host x", 2, "--host is for --mode ingress and http-route")
	w.Fails(t, "runtime install other --key-file missing --print helm", 2, "create one with --create-key")
	w.Fails(t, "runtime install Prod --create-key", 2, "lower-case letters")
	clitest.Beat(t, w.Registered(t, "prod"), pendingHeartbeat())
	w.Fails(t, "runtime install prod --create-key --key-file other.key --print helm", 1, "prod-2 is free")
	if got := w.Must(t, "runtime upgrade prod --version 2.0.0 --print helm"); got != "helm upgrade slipway-runtime oci://charts.slipway.dev/gitops-runtime --namespace slipway --version 2.0.0 --reset-then-reuse-values --wait\n" {
		t.Errorf("R110: %q", got)
	}
}
