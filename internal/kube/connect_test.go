package kube_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/must"
)

func TestConnectErrors(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	must.Do(t, os.WriteFile(broken, []byte("clusters: 7\n"), 0o600))
	missing := filepath.Join(dir, "missing")
	tests := []struct{ name, path, want string }{
		{"no path", "", "no kubeconfig given"},
		{"missing", missing, "read kubeconfig " + missing},
		{"broken", broken, "read kubeconfig " + broken},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := kube.Connect(test.path); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want it to contain %q", err, test.want)
			}
		})
	}
}

func TestUserAgent(t *testing.T) {
	agents := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agents <- r.UserAgent()
		http.Error(w, "{}", http.StatusNotFound)
	}))
	defer server.Close()
	tests := []struct {
		name    string
		options []kube.Option
		want    string
	}{
		{"default", nil, "slipway/devel"},
		{"version", []kube.Option{kube.Version("v1.2.3")}, "slipway/v1.2.3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cluster, err := kube.Connect(writeKubeconfig(t, server.URL), test.options...)
			must.Do(t, err)
			defer cluster.Close()
			_, err = cluster.Client.CoreV1().Pods("default").Get(t.Context(), "any", metav1.GetOptions{})
			if err == nil {
				t.Error("got a Pod from a server that has none")
			}
			if got := <-agents; got != test.want {
				t.Errorf("user agent is %q, want %q", got, test.want)
			}
		})
	}
}

// A server that is away is waited for, not given up on: what is missing is
// reported when the caller's time is over.
func TestWaitForServerAway(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	kubeconfig := writeKubeconfig(t, server.URL)
	server.Close()
	cluster, err := kube.Connect(kubeconfig)
	must.Do(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err = kube.WaitFor(ctx, cluster.Client.CoreV1().ConfigMaps("default"), kube.Named("any"), exists)
	if err == nil || !strings.Contains(err.Error(), "no response from the API server") ||
		!strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got error %v, want it to say that nobody answers, and why", err)
	}
}

func writeKubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := `apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test}}]
clusters: [{name: test, cluster: {server: "` + server + `"}}]
users: [{name: test, user: {}}]
`
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}
