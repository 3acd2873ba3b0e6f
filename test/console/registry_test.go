package console

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"helm.sh/helm/v4/pkg/registry"

	"slipway.dev/slipway/charts"
	"slipway.dev/slipway/internal/install/handover"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// chartHost is where the commands of the console have the chart from.
const chartHost = "charts.slipway.dev"

// startRegistry runs Debian's docker-registry with the chart in it. It gives the proxy by
// which its clients reach it under its name.
func (w *world) startRegistry(t *testing.T) (proxy string) {
	t.Helper()
	address := programs.FreeAddress(t).String()
	programs.Registry(t, "tcp", address, fmt.Sprintf(", tls: {certificate: %q, key: %q}", w.authority.CertFile, w.authority.KeyFile), "")
	w.pushChart(t, address)
	return leadTo(t, map[string]string{chartHost + ":443": address})
}

// pushChart puts the chart of this checkout into the registry.
func (w *world) pushChart(t *testing.T, address string) {
	t.Helper()
	archive := must.Get(charts.Archive(charts.Runtime))(t)
	read := must.Get(release.ReadChart(archive))(t)
	client := must.Get(registry.NewClient(registry.ClientOptHTTPClient(w.client()), registry.ClientOptCredentialsFile(filepath.Join(t.TempDir(), "config.json"))))(t)
	must.Get(client.Push(archive, address+"/"+read.Name()+":"+read.Version()))(t)
}

// leadTo is a proxy that leads hosts elsewhere, and to no other.
func leadTo(t *testing.T, hosts map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		address, known := hosts[r.Host]
		if r.Method != http.MethodConnect || !known {
			http.Error(answer, "nobody is asked for "+r.Host, http.StatusForbidden)
			return
		}
		to, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", address)
		if err != nil {
			http.Error(answer, err.Error(), http.StatusBadGateway)
			return
		}
		from, _, err := http.NewResponseController(answer).Hijack()
		if err != nil {
			_ = to.Close()
			return
		}
		defer from.Close()
		// Only now: what the client sends after the response belongs to the other side.
		if _, err := io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
			_ = to.Close()
			return
		}
		splice(t.Context(), from, to)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// programsOf makes a folder with the programs that a person has who runs the
// commands of the console.
func programsOf(t *testing.T, devcluster string) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "helm"), "slipway.dev/slipway/test/console/helm")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath -buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("helm does not build: %v\n%s", err, out)
	}
	kubectl := "#!/bin/sh\nexec " + handover.ShellWord(devcluster) + " kubectl \"$@\"\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "kubectl"), []byte(kubectl), 0o700))
	return dir
}
