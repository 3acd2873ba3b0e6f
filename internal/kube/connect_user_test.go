package kube_test

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/must"
)

// twoContexts is a kubeconfig with two contexts, the second being the current.
func twoContexts(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			"one": {Server: "https://one.example:6443"}, "two": {Server: "https://two.example:6443"}, "plain": {Server: "http://plain.example"},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"me": {Token: "a-token"}},
		Contexts: map[string]*clientcmdapi.Context{
			"first": {Cluster: "one", AuthInfo: "me", Namespace: "team"}, "second": {Cluster: "two", AuthInfo: "me"},
			"open": {Cluster: "plain", AuthInfo: "me"},
		},
		CurrentContext: "second",
	}, path)
	must.Do(t, err)
	return path
}

// TestConnectUser: the cluster that kubectl would take.
func TestConnectUser(t *testing.T) {
	path := twoContexts(t)
	for _, test := range []struct {
		name, environment        string
		choice                   kube.UserChoice
		host, namespace, failure string
	}{
		{"current context", "", kube.UserChoice{Kubeconfig: path}, "https://two.example:6443", "default", ""},
		{"chosen context", "", kube.UserChoice{Kubeconfig: path, Context: "first"}, "https://one.example:6443", "team", ""},
		{"file of the environment", path, kube.UserChoice{}, "https://two.example:6443", "default", ""},
		{"no such context", "", kube.UserChoice{Kubeconfig: path, Context: "third"}, "", "", `context "third" does not exist`},
		{"no such file", "", kube.UserChoice{Kubeconfig: path + "x"}, "", "", path + "x"},
		{"without encryption", "", kube.UserChoice{Kubeconfig: path, Context: "open"}, "http://plain.example", "default", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.environment)
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			cluster, err := kube.ConnectUser(test.choice)
			if test.failure != "" {
				if err == nil || !strings.Contains(err.Error(), test.failure) {
					t.Errorf("got error %v, want it to contain %q", err, test.failure)
				}
				return
			}
			must.Do(t, err)
			defer cluster.Close()
			if cluster.Config.Host != test.host || cluster.Namespace != test.namespace {
				t.Errorf("it is %s, namespace %s", cluster.Config.Host, cluster.Namespace)
			}
			if encrypted := strings.HasPrefix(test.host, "https:"); (cluster.Config.BearerToken != "") != encrypted {
				t.Errorf("the token is sent: %t", cluster.Config.BearerToken != "")
			}
		})
	}
}
