package release_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/registry"

	"slipway.dev/slipway/charts"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// startRegistry runs Debian's docker-registry on a socket, and gives the host of what
// passes on to it.
func startRegistry(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "socket")
	programs.Registry(t, "unix", socket, "", "")
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	passing := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "registry"})
	passing.Transport = transport
	server := httptest.NewServer(passing)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// TestRegistry: R49: a chart comes from a registry, the newest or the one that is
// named.
func TestRegistry(t *testing.T) {
	t.Setenv("HELM_REGISTRY_CONFIG", filepath.Join(t.TempDir(), "config.json"))
	host := startRegistry(t)
	archive, err := charts.Archive(charts.Runtime)
	must.Do(t, err)
	version := ownChart(t).Version()
	client, err := registry.NewClient(registry.ClientOptPlainHTTP())
	must.Do(t, err)
	_, err = client.Push(archive, host+"/charts/gitops-runtime:"+version)
	must.Do(t, err)
	from := release.Source{Place: "oci://" + host + "/charts/gitops-runtime", PlainHTTP: true}
	for _, wanted := range []string{"", version} {
		from.Version = wanted
		chart, err := release.FindChart(t.Context(), from)
		must.Do(t, err)
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
