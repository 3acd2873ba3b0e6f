package release_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/registry"

	"slipway.dev/slipway/charts"
	"slipway.dev/slipway/internal/install/release"
)

// startRegistry runs Debian's docker-registry on a socket, and gives the host of what
// passes on to it.
func startRegistry(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		t.Fatal("docker-registry is missing: run scripts/install-packages.sh")
	}
	dir := t.TempDir()
	socket, config := filepath.Join(dir, "socket"), filepath.Join(dir, "config.yml")
	check(t, os.WriteFile(config, fmt.Appendf(nil, "version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %s, net: unix}\n", filepath.Join(dir, "data"), socket), 0o600))
	command := exec.Command(program, "serve", config)
	check(t, command.Start())
	exited := make(chan struct{})
	go func() { _ = command.Wait(); close(exited) }()
	t.Cleanup(func() {
		_ = command.Process.Kill() // it may be over
		<-exited
	})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	passing := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "registry"})
	passing.Transport = transport
	server := httptest.NewServer(passing)
	t.Cleanup(server.Close)
	awaitRegistry(t, socket, exited)
	return strings.TrimPrefix(server.URL, "http://")
}

func awaitRegistry(t *testing.T, socket string, exited <-chan struct{}) {
	t.Helper()
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	late := time.After(wait)
	for {
		if conn, err := net.Dial("unix", socket); err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-exited:
			t.Fatal("the registry ended")
		case <-late:
			t.Fatal("the registry does not listen")
		case <-ticks.C:
		}
	}
}

// TestRegistry: R49: a chart comes from a registry, the newest or the one that is
// named.
func TestRegistry(t *testing.T) {
	t.Setenv("HELM_REGISTRY_CONFIG", filepath.Join(t.TempDir(), "config.json"))
	host := startRegistry(t)
	archive, err := charts.Archive(charts.Runtime)
	check(t, err)
	version := ownChart(t).Version()
	client, err := registry.NewClient(registry.ClientOptPlainHTTP())
	check(t, err)
	_, err = client.Push(archive, host+"/charts/gitops-runtime:"+version)
	check(t, err)
	from := release.Source{Place: "oci://" + host + "/charts/gitops-runtime", PlainHTTP: true}
	for _, wanted := range []string{"", version} {
		from.Version = wanted
		chart, err := release.FindChart(t.Context(), from)
		check(t, err)
		if chart.Version() != version {
			t.Errorf("with version %q it is %s", wanted, chart.Version())
		}
	}
	from.Version = "9.9.9"
	if _, err := release.FindChart(t.Context(), from); err == nil || !strings.Contains(err.Error(), "9.9.9") {
		t.Errorf("a version that is not there: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	from.Version = version
	if _, err := release.FindChart(stopped, from); err == nil {
		t.Error("an interrupted fetch gave a chart")
	}
}
