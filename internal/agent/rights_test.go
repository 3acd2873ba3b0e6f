package agent_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/agent"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// tenant is a project whose Applications are applied as a ServiceAccount that may
// do little, and an Application of it.
const tenant = `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: deployer, namespace: shop}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: deployer, namespace: shop}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, create, update, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}
subjects: [{kind: ServiceAccount, name: deployer, namespace: shop}]
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: shop, namespace: argocd}
spec:
  sourceRepos: ["*"]
  destinations: [{server: "*", namespace: shop}]
  destinationServiceAccounts: [{server: "*", namespace: shop, defaultServiceAccount: deployer}]
---
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: shop, namespace: argocd}
spec:
  goTemplate: true
  generators: [{list: {elements: [{name: app}]}}]
  template:
    metadata: {name: "{{.name}}"}
    spec:
      project: shop
      source: {repoURL: "REPOSITORY", targetRevision: main, path: .}
      destination: {server: https://kubernetes.default.svc, namespace: shop}
      syncPolicy: {automated: {prune: true, selfHeal: true}}
`

// account connects as a ServiceAccount.
func account(t *testing.T, cluster *kubetest.Cluster, namespace, name string) *kube.Cluster {
	t.Helper()
	token := must.Get(cluster.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(t)
	authorities := filepath.Join(t.TempDir(), "ca.crt")
	must.Do(t, os.WriteFile(authorities, cluster.Config.CAData, 0o600))
	connected := must.Get(kube.ConnectAs(kube.ConnectOptions{
		Endpoint: cluster.Config.Host, Token: secret.New(token.Status.Token), CAFile: authorities,
		Environ: func(name string) string { return map[string]string{"POD_NAMESPACE": namespace}[name] },
	}))(t)
	t.Cleanup(connected.Close)
	return connected
}

// TestShippedRights: with the roles in deploy/agent and without deliver.yaml, an
// agent does all of its work, and a tenant no more than its ServiceAccount may.
func TestShippedRights(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	argotest.Install(t, cluster)
	for _, name := range []string{"namespace", "rbac/serviceaccount", "rbac/clusterrole", "rbac/clusterrolebinding", "rbac/role-control", "rbac/role-home"} {
		cluster.Apply(t, "", readText(t, "../../deploy/agent/"+name+".yaml"))
	}
	w := &world{Cluster: cluster, control: "argocd"}
	w.hookSecret(t)
	repository := gittest.Serve(t).Repository(t, "app", content("first"))
	cluster.Apply(t, "", strings.ReplaceAll(tenant, "REPOSITORY", repository.URL()))
	as := func(options *agent.Options) {
		options.Cluster, options.Lease = account(t, cluster, "slipway-system", "slipway-agent"), "slipway-agent"
	}
	first := w.start(t, "first", as)
	first.logs(t, "became leader")
	second := w.start(t, "second", as)
	second.readyWhen(t, "")
	w.syncedTo(t, "app", repository.Head(t))
	commit := repository.Commit(t, content("second"), "change")
	if status := second.pushed(t, "/webhooks", repository.URL(), hookSecret); status != 200 {
		t.Errorf("a webhook is answered with %d", status)
	}
	w.syncedTo(t, "app", commit)
	kubetest.WaitFor(t, cluster.Client.CoreV1().ConfigMaps("shop"), kube.Named("settings"), patience, func(found []*corev1.ConfigMap) error {
		if len(found) == 0 || found[0].Data["value"] != "second" {
			return errors.New("the second version is not live")
		}
		return nil
	})
	kubetest.WaitFor(t, cluster.Client.EventsV1().Events("argocd"), metav1.ListOptions{}, patience, func(found []*eventsv1.Event) error {
		if len(found) == 0 {
			return errors.New("there are no Events")
		}
		return nil
	})
	repository.Commit(t, map[string]string{"more.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: more}\n"}, "more than it may")
	if status := first.pushed(t, "/webhooks", repository.URL(), hookSecret); status != 200 {
		t.Errorf("a webhook is answered with %d", status)
	}
	w.await(t, "app", func(status map[string]any) error {
		if text := fmt.Sprint(status); !strings.Contains(text, "deployer") || !strings.Contains(text, "secrets") {
			return errors.New("nobody is told that the ServiceAccount may not make Secrets")
		}
		return nil
	})
	for _, replica := range []*replica{first, second} {
		text := replica.log.String()
		if strings.Contains(text, "slipway-agent\" cannot") || strings.Contains(text, "slipway-system:slipway-agent") {
			t.Errorf("a right of the agent is missing:\n%s", text)
		}
	}
}

// TestMissingRight: an agent that lacks a right to read reports it, and goes on when it is granted.
func TestMissingRight(t *testing.T) {
	w := newWorld(t)
	w.apply(t, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: poor}\n")
	r := w.start(t, "one", func(options *agent.Options) { options.Cluster = account(t, w.Cluster, w.control, "poor") })
	r.readyWhen(t, "is forbidden: User \"system:serviceaccount:"+w.control+":poor\" cannot")
	r.logs(t, "secrets is forbidden")
	w.apply(t, `apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: rich}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: poor, namespace: CONTROL}]
`)
	r.readyWhen(t, "")
}
