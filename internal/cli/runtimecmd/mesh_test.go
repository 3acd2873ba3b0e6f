package runtimecmd_test

import (
	"encoding/json"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/cli/clitest"
)

// mesh runs `slipway runtime mesh`. The words are split at blanks.
func mesh(t *testing.T, line string) clitest.Result {
	t.Helper()
	var stdout, stderr strings.Builder
	code := cli.Execute(t.Context(), append([]string{"runtime", "mesh"}, strings.Fields(line)...), &stdout, &stderr)
	return clitest.Result{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}
}

// TestMeshGenerate: R90, R91, R92: the shape follows the version, and everything
// that is wrong is reported at once.
func TestMeshGenerate(t *testing.T) {
	clitest.Clean(t)
	for _, tt := range []struct {
		name, line string
		code       int
		has        []string
		hasNot     string
	}{
		{"R91 ours", "generate --runtime prod --gateway istio-system/public --host prod.example.com", 0,
			[]string{"name: internal-router", "prefix: /workflows", "namespace: slipway", "- istio-system/public"}, "cap-app-proxy"},
		{"R91 newer", "generate --runtime prod -n rt --gateway g --host a.example.com --host b.example.com --runtime-version 0.0.543", 0,
			[]string{"namespace: rt", "- a.example.com\n  - b.example.com"}, "cap-app-proxy"},
		{"R92 older", "generate --runtime prod --gateway g --host a.example.com --runtime-version 0.0.542 --event-source push-github", 0,
			[]string{"name: cap-app-proxy", "number: 3017", "prefix: /webhooks/prod/push-github", "host: push-github-eventsource-svc"}, "internal-router"},
		{"R92 without event sources", "generate --runtime prod --gateway g --host a.example.com --runtime-version 0.0.542", 2, []string{"--event-source"}, "apiVersion"},
		{"everything wrong", "generate --runtime Prod --host https://x --runtime-version x", 2,
			[]string{"--runtime", "--gateway", "--host", "--runtime-version"}, "apiVersion"},
		{"a warning", "generate --runtime prod --gateway g --host a.example.com --event-source x", 0, []string{"warning", "--event-source"}, "eventsource-svc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := mesh(t, tt.line)
			all := got.Stdout + got.Stderr
			for _, part := range tt.has {
				if !strings.Contains(all, part) {
					t.Errorf("%q is missing in\n%s", part, all)
				}
			}
			if got.Code != tt.code || strings.Contains(got.Stdout, tt.hasNot) {
				t.Errorf("it ended with %d:\n%s", got.Code, all)
			}
		})
	}
}

// TestMeshApplyAndVerify: R90: what is applied is verified, and what is broken
// afterwards is named by its path.
func TestMeshApplyAndVerify(t *testing.T) {
	w := clitest.NewAppWorld(t)
	flags := " --runtime prod -n " + w.TestNamespace + " --host prod.example.com --kubeconfig " + w.UserKubeconfig
	if got := mesh(t, "verify"+flags); got.Code != 1 || !strings.Contains(got.Stderr, "install Istio") {
		t.Fatalf("without the kind: %+v", got)
	}
	w.DefineFiles(t, "../../access/mode/testdata/crds.yaml")
	if got := mesh(t, "verify"+flags); got.Code != 1 || !strings.Contains(got.Stderr, "3 of 3 paths") {
		t.Fatalf("without a VirtualService: %+v", got)
	}
	if got := mesh(t, "apply --gateway istio-system/public"+flags); got.Code != 0 || strings.Count(got.Stdout, " ok ") != 3 {
		t.Fatalf("apply: %+v", got)
	}
	if got := mesh(t, "apply --gateway istio-system/public"+flags); got.Code != 0 {
		t.Fatalf("apply again: %+v", got)
	}
	if got := mesh(t, "verify --gateway other"+flags); got.Code != 1 || !strings.Contains(got.Stdout, "not other") {
		t.Errorf("another gateway: %+v", got)
	}
	var told struct {
		Paths []struct {
			Path string
			OK   bool
		}
	}
	got := mesh(t, "verify -o json"+flags)
	if err := json.Unmarshal([]byte(got.Stdout), &told); err != nil || len(told.Paths) != 3 || !told.Paths[0].OK {
		t.Errorf("as JSON: %+v %v", got, err)
	}

	// One of another manager is left alone.
	w.ApplyManifests(t, `apiVersion: networking.istio.io/v1alpha3
kind: VirtualService
metadata: {name: internal-router, labels: {app.kubernetes.io/managed-by: somebody}}
spec:
  hosts: [prod.example.com]
  gateways: [istio-system/public]
  http:
  - match: [{uri: {prefix: /app-proxy}}]
    route: [{destination: {host: internal-router, port: {number: 8080}}}]
`)
	got = mesh(t, "verify"+flags)
	if got.Code != 1 || !strings.Contains(got.Stdout, "internal-router:8080 and not to internal-router:80") || strings.Count(got.Stdout, "no route matches") != 2 {
		t.Errorf("broken: %+v", got)
	}
	if got := mesh(t, "apply --gateway istio-system/public"+flags); got.Code != 1 || !strings.Contains(got.Stderr, "--force") {
		t.Errorf("somebody else's is replaced: %+v", got)
	}
	if got := mesh(t, "apply --force --gateway istio-system/public"+flags); got.Code != 0 {
		t.Errorf("by force: %+v", got)
	}
}
