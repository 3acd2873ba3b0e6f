package appcmd_test

import (
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// deadKubeconfig returns the path of a kubeconfig whose server refuses
// connections: port 1 has no listener.
func deadKubeconfig(t *testing.T) string {
	t.Helper()
	return writeKubeconfig(t, clientcmdapi.Cluster{Server: "http://127.0.0.1:1"}, clientcmdapi.AuthInfo{})
}

// writeKubeconfig writes a kubeconfig with one context, which is current, to a
// temporary file and returns its path.
func writeKubeconfig(t *testing.T, cluster clientcmdapi.Cluster, user clientcmdapi.AuthInfo) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": &cluster}, AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": &user},
		Contexts: map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	}, path)
	must.Do(t, err)
	return path
}

// accountKubeconfig returns the path of a kubeconfig that authenticates as a
// ServiceAccount, for tests of users with few rights.
func accountKubeconfig(t *testing.T, cluster *kubetest.Cluster, namespace, account string) string {
	t.Helper()
	token, err := cluster.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must.Do(t, err)
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
