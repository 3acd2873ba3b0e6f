package kubetest

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/must"
)

// edgeNamespace is the namespace of the edge in the manifests of deploy.
const edgeNamespace = "slipway-system"

// Account makes a connection act as a ServiceAccount.
func Account(namespace, name string) kube.Option {
	return func(config *rest.Config) {
		config.Impersonate.UserName = "system:serviceaccount:" + namespace + ":" + name
		config.Impersonate.Groups = []string{"system:authenticated"}
	}
}

// KubeconfigAs returns a kubeconfig of the cluster whose user is another one,
// and whose namespace is the given one.
func (c *Cluster) KubeconfigAs(t testing.TB, namespace, user string, groups ...string) string {
	t.Helper()
	config := must.Get(clientcmd.LoadFromFile(c.Kubeconfig))(t)
	current := config.Contexts[config.CurrentContext]
	current.Namespace = namespace
	admin := config.AuthInfos[current.AuthInfo]
	admin.Impersonate, admin.ImpersonateGroups = user, groups
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must.Do(t, clientcmd.WriteToFile(*config, path))
	return path
}

// EdgeKubeconfig gives the edge the rights that deploy ships for it, with those
// of more files of deploy/rbac, and no others. It returns the kubeconfig of its
// ServiceAccount.
func (c *Cluster) EdgeKubeconfig(t testing.TB, more ...string) string {
	t.Helper()
	deploy := filepath.Join(must.Get(moduleRoot())(t), "deploy")
	files := []string{"namespace.yaml"}
	for _, name := range append([]string{"serviceaccount", "clusterrole", "clusterrolebinding", "role-lease"}, more...) {
		files = append(files, filepath.Join("rbac", name+".yaml"))
	}
	for _, file := range files {
		c.Apply(t, edgeNamespace, string(must.Get(os.ReadFile(filepath.Join(deploy, file)))(t)))
	}
	return c.KubeconfigAs(t, edgeNamespace, "system:serviceaccount:"+edgeNamespace+":slipway-edge", "system:serviceaccounts", "system:authenticated")
}
