package diagnosecmd_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
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
