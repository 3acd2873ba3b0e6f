package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"slipway.dev/slipway/internal/kube/kubetest"
)

// deadKubeconfig leads to a port that nobody listens on.
func deadKubeconfig(t *testing.T) string {
	t.Helper()
	return writeKubeconfig(t, clientcmdapi.Cluster{Server: "http://127.0.0.1:1"}, clientcmdapi.AuthInfo{})
}

func writeKubeconfig(t *testing.T, cluster clientcmdapi.Cluster, user clientcmdapi.AuthInfo) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": &cluster}, AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": &user},
		Contexts: map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// accountKubeconfig is that of a ServiceAccount.
func accountKubeconfig(t *testing.T, cluster *kubetest.Cluster, namespace, account string) string {
	t.Helper()
	token, err := cluster.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	authorities := cluster.Config.CAData
	if len(authorities) == 0 {
		if authorities, err = os.ReadFile(cluster.Config.CAFile); err != nil {
			t.Fatal(err)
		}
	}
	return writeKubeconfig(t,
		clientcmdapi.Cluster{Server: cluster.Config.Host, CertificateAuthorityData: authorities},
		clientcmdapi.AuthInfo{Token: token.Status.Token})
}

// TestAppRights: who may not is told which right is missing.
func TestAppRights(t *testing.T) {
	w := newAppWorld(t)
	w.apply(t, shopApp)
	w.apply(t, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: nobody}\n")
	w.kubeconfig = accountKubeconfig(t, w.Cluster, w.namespace, "nobody")
	for line, want := range map[string]string{
		"get shop":  "you may not get Applications in the namespace " + w.namespace + ": ask for that right on applications.argoproj.io",
		"list":      "you may not list Applications in the namespace " + w.namespace,
		"list -A":   "you may not list Applications in all namespaces",
		"sync shop": "you may not get Applications",
	} {
		if got := w.app(t, line); got.code != 1 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: got %+v, wanted %q", line, got, want)
		}
	}
}

// TestAppWithoutKinds: a cluster that knows no Applications.
func TestAppWithoutKinds(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	clean(t)
	for _, line := range []string{"list -A", "get shop"} {
		got := execute(t, "app "+line+" --kubeconfig "+cluster.Kubeconfig)
		if got.code != 1 || !strings.Contains(got.stderr, "the cluster does not know Applications: install their definitions with kubectl apply") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}
