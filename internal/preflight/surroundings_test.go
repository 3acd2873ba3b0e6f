package preflight_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/secret"
)

// tunnel is a runtime in a tunnel, in a namespace of its own.
func tunnel(t testing.TB, cluster *kubetest.Cluster) preflight.Options {
	t.Helper()
	namespace := cluster.Namespace(t)
	return preflight.Options{Release: "slipway-runtime", Settings: mode.Settings{Runtime: testRuntime, Namespace: namespace}, Objects: chartObjects(namespace)}
}

// chartObjects are some objects of a chart: one kind of each API group.
func chartObjects(namespace string) []preflight.Object {
	var all []preflight.Object
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "ServiceAccount"}, {Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Service"},
		{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "batch", Version: "v1", Kind: "Job"},
		{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}, {Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
		{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}, {Group: "networking.istio.io", Version: "v1alpha3", Kind: "VirtualService"},
		{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	} {
		all = append(all, preflight.Object{GroupVersionKind: kind, Namespace: namespace, Name: "chart"})
	}
	for _, kind := range []schema.GroupVersionKind{
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, {Group: "networking.k8s.io", Version: "v1", Kind: "IngressClass"},
	} {
		all = append(all, preflight.Object{GroupVersionKind: kind, Name: "chart"})
	}
	return all
}

// TestTunnel: R10, R11, R13, R44: a new cluster is ready for a tunnel, results come
// in the order of the catalogue, and skipped checks have a reason.
func TestTunnel(t *testing.T) {
	cluster := kubetest.Shared(t)
	options := tunnel(t, cluster)
	var order []string
	options.Found = func(result preflight.Result) { order = append(order, string(result.Code)) }
	options.Skip = []preflight.Code{preflight.NodeSize, preflight.CRDOwnership, preflight.ArgoCollision}
	results := preflight.Run(t.Context(), preflight.World{Cluster: cluster.Cluster}, options)
	clean(t, results)
	if got := strings.Join(order, " "); len(order) != 25 || !strings.HasPrefix(got, "P1 P2 P4 P6 P8 P9") {
		t.Errorf("they came as %s", got)
	}
	for _, result := range results {
		if result.State == preflight.Skipped && result.Message == "" {
			t.Errorf("%s does not say why it is skipped", result.Code)
		}
	}
}

// TestNames: R33, R43, R44: the names of the runtime and the namespace, and the
// version of Helm, by their rules.
func TestNames(t *testing.T) {
	cluster := kubetest.Shared(t)
	good := tunnel(t, cluster)
	for _, tt := range []struct {
		name   string
		change func(*preflight.Options)
		code   preflight.Code
		want   string
	}{
		{"R43 too long", func(o *preflight.Options) { o.Settings.Runtime = strings.Repeat("a", 39) }, preflight.RuntimeName, "at most 38"},
		{"R33 none", func(o *preflight.Options) { o.Settings.Runtime = "" }, preflight.RuntimeName, "needs a name"},
		{"R43 the label of the tunnel", func(o *preflight.Options) {
			o.Settings.Runtime, o.Settings.AccountID = strings.Repeat("a", 38), strings.Repeat("0", 25)
		}, preflight.RuntimeName, "64 characters"},
		{"R44 the namespace", func(o *preflight.Options) { o.Settings.Namespace = "My_Team" }, preflight.NamespaceName, "use my-team"},
		{"R11 Helm", func(o *preflight.Options) { o.HelmVersion = "v3.7.2" }, preflight.HelmVersion, "3.8.0 or newer is needed"},
		{"R11 no version", func(o *preflight.Options) { o.HelmVersion = "latest" }, preflight.HelmVersion, "cannot be read"},
		{"R36 no URL", func(o *preflight.Options) { off := false; o.Settings.TunnelEnabled = &off }, preflight.AccessMode, "ingressUrl"},
		{"R35 no host", func(o *preflight.Options) {
			o.Settings.Ingress = mode.IngressSettings{Enabled: true, ClassName: "nginx"}
		}, preflight.AccessMode, "needs a host"},
		{"R31 reserved", func(o *preflight.Options) { o.Token.SecretName = "slipway-token" }, preflight.TokenOrigin, "the runtime's own"},
		{"R31 no Secret", func(o *preflight.Options) { o.Token.SecretName = "absent" }, preflight.TokenOrigin, "create secret generic absent"},
		{"R31 both", func(o *preflight.Options) { o.Token.SecretName, o.Token.Inline = "absent", true }, preflight.TokenOrigin, "both"},
		{"no class", func(o *preflight.Options) {
			o.Settings.Ingress = mode.IngressSettings{Enabled: true, ClassName: "absent", Hosts: []string{testHost}}
		}, preflight.IngressClass, "it does not exist"},
		{"R57 the repository", func(o *preflight.Options) { o.Git.Repository = "ftp://x" }, preflight.SharedRepository, "<repository>.git"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			options := good
			tt.change(&options)
			options.Only = []preflight.Code{tt.code}
			finds(t, preflight.Run(t.Context(), preflight.World{Cluster: cluster.Cluster}, options), tt.code, preflight.Failed, tt.want)
		})
	}
}

// TestTokenSecret: R31: the Secret has to have the key.
func TestTokenSecret(t *testing.T) {
	cluster := kubetest.Shared(t)
	options := tunnel(t, cluster)
	cluster.Apply(t, options.Settings.Namespace, "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {apiKey: canary-value}\n")
	options.Only, options.Token.SecretName = []preflight.Code{preflight.TokenOrigin}, "key"
	results := preflight.Run(t.Context(), preflight.World{Cluster: cluster.Cluster}, options)
	finds(t, results, preflight.TokenOrigin, preflight.Failed, "it has apiKey")
	if text, err := json.Marshal(results); err != nil || strings.Contains(string(text), "canary") {
		t.Errorf("the value is told: %s %v", text, err)
	}
	options.Token.SecretKey = "apiKey"
	clean(t, preflight.Run(t.Context(), preflight.World{Cluster: cluster.Cluster}, options))
}

// limited is a connection of a user whose only permission is the access review.
func limited(t testing.TB, cluster *kubetest.Cluster, namespace, rules string) *kube.Cluster {
	t.Helper()
	cluster.Apply(t, namespace, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: limited}\n"+rules)
	user := fmt.Sprintf("system:serviceaccount:%s:limited", namespace)
	connected, err := kube.Connect(cluster.Kubeconfig, func(config *rest.Config) {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	})
	must.Do(t, err)
	t.Cleanup(connected.Close)
	return connected
}

// TestRights: R13, R14: missing rights are named with their plurals, in a role that
// gives them; with the role nothing is missing.
func TestRights(t *testing.T) {
	cluster := kubetest.Shared(t)
	options := tunnel(t, cluster)
	options.Only = []preflight.Code{preflight.Rights}
	world := preflight.World{Cluster: limited(t, cluster, options.Settings.Namespace, "")}
	found := finds(t, preflight.Run(t.Context(), world, options), preflight.Rights, preflight.Failed, "get,list,watch,create,update,patch,delete serviceaccounts")
	for _, want := range []string{"roles.rbac.authorization.k8s.io", "customresourcedefinitions.apiextensions.k8s.io", "escalate,bind clusterroles.rbac", "get pods/log", "create,delete namespaces", "deployments.apps"} {
		if !strings.Contains(found.Message, want) {
			t.Errorf("%q is not in %s", want, found.Message)
		}
	}
	_, role, _ := strings.Cut(found.Fix, "\n")
	name := "slipway-installer-" + options.Settings.Namespace
	role = strings.Replace(role, "name: slipway-installer", "name: "+name, 1)
	cluster.Apply(t, options.Settings.Namespace, role+fmt.Sprintf(`
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}
subjects: [{kind: ServiceAccount, name: limited, namespace: %s}]
`, name, name, options.Settings.Namespace))
	// The authorizer of the API server reads roles from a cache that lags behind.
	var results []preflight.Result
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		results = preflight.Run(ctx, world, options)
		return !slices.ContainsFunc(results, func(one preflight.Result) bool { return one.State == preflight.Failed }), nil
	})
	if err != nil {
		t.Error(err)
	}
	clean(t, results)

	options.Only = []preflight.Code{preflight.NodeSize} // it may not read nodes
	finds(t, preflight.Run(t.Context(), world, options), preflight.NodeSize, preflight.Warned, "cannot be checked")
}

// TestCRDs: R22, R23: CRDs without owner are adopted, those of another release are
// not touched.
func TestCRDs(t *testing.T) {
	cluster := kubetest.Shared(t)
	options := tunnel(t, cluster)
	options.Only = []preflight.Code{preflight.CRDOwnership}
	world := preflight.World{Cluster: cluster.Cluster, Adoption: func(_ *metav1.PartialObjectMetadata, release, namespace string) ([]byte, error) {
		return fmt.Appendf(nil, `{"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"},
			"annotations": {"meta.helm.sh/release-name": %q, "meta.helm.sh/release-namespace": %q}}}`, release, namespace), nil
	}}
	clean(t, preflight.Run(t.Context(), world, options))
	t.Cleanup(func() { removeCRD(t, cluster, "appprojects.argoproj.io") })
	cluster.Apply(t, "", kubetest.Definition("argoproj.io", "v1alpha1", "AppProject"))
	found := finds(t, preflight.Run(t.Context(), world, options), preflight.CRDOwnership, preflight.Warned, "slipway crds adopt")
	must.Do(t, found.Apply(t.Context()))
	clean(t, preflight.Run(t.Context(), world, options))
	options.Release = "other"
	if found := finds(t, preflight.Run(t.Context(), world, options), preflight.CRDOwnership, preflight.Warned, "belongs to the Helm release slipway-runtime"); found.Apply != nil {
		t.Error("another release's CRD would be taken")
	}
}

// TestSealedSecrets: R20: a controller of sealed-secrets is no obstacle, and
// the check reports that.
func TestSealedSecrets(t *testing.T) {
	cluster := kubetest.Shared(t)
	options := tunnel(t, cluster)
	options.Only = []preflight.Code{preflight.SealedSecrets}
	world := preflight.World{Cluster: cluster.Cluster}
	clean(t, preflight.Run(t.Context(), world, options))
	t.Cleanup(func() { removeCRD(t, cluster, "sealedsecrets.bitnami.com") })
	cluster.Apply(t, "", kubetest.Definition("bitnami.com", "v1alpha1", "SealedSecret"))
	finds(t, preflight.Run(t.Context(), world, options), preflight.SealedSecrets, preflight.Passed, "decrypts SealedSecrets in Git")
}

// removeCRD deletes a kind and waits until it is gone.
func removeCRD(t testing.TB, cluster *kubetest.Cluster, name string) {
	t.Helper()
	crds := cluster.Dynamic.Resource(kube.DefinitionResource())
	if err := crds.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), programs.Timeout)
	defer cancel()
	if _, err := kube.WaitFor(ctx, crds, kube.Named(name), func(left []*unstructured.Unstructured) error {
		if len(left) > 0 {
			return errors.New(name + " is still there")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestArgo: R19, R27: Argo CD beside us is a warning, in our namespace an error,
// and the other projects are reported.
func TestArgo(t *testing.T) {
	cluster := kubetest.Shared(t)
	options := tunnel(t, cluster)
	options.Only = []preflight.Code{preflight.ArgoCollision}
	world := preflight.World{Cluster: cluster.Cluster}
	deployment := func(name, image string) string {
		return fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %s}\nspec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: %q}]}}}\n---\n", name, image)
	}
	clean(t, preflight.Run(t.Context(), world, options))
	beside := cluster.Namespace(t)
	t.Cleanup(func() { // the namespaces go later, and others look at all of them
		for _, namespace := range []string{beside, options.Settings.Namespace} {
			if err := cluster.Client.AppsV1().Deployments(namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	cluster.Apply(t, beside, deployment("argocd-server", "quay.io/argoproj/argocd:v3.3.10")+deployment("argo-rollouts", "quay.io/argoproj/argo-rollouts:v1.8"))
	results := preflight.Run(t.Context(), world, options)
	finds(t, results, preflight.ArgoCollision, preflight.Warned, "besides the runtime")
	finds(t, results, preflight.ArgoCollision, preflight.Warned, "Argo Rollouts")
	cluster.Apply(t, options.Settings.Namespace, deployment("argocd-server", "mirror.example.test/argoproj/argocd@sha256:"+strings.Repeat("0", 64)))
	finds(t, preflight.Run(t.Context(), world, options), preflight.ArgoCollision, preflight.Failed, "slipway app migrate")
}

// TestNodes: R12: the largest node decides; a small one that holds our own need is
// a warning.
func TestNodes(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	options := tunnel(t, cluster)
	options.Only = []preflight.Code{preflight.NodeSize}
	world := preflight.World{Cluster: cluster.Cluster}
	finds(t, preflight.Run(t.Context(), world, options), preflight.NodeSize, preflight.Failed, "no node")
	s := &scene{t: t, cluster: cluster}
	for _, tt := range []struct {
		cpu, memory string
		state       preflight.State
		want        string
	}{
		{"100m", "200Mi", preflight.Failed, "has 100m of 2 CPU and has 200Mi of 5G memory"},
		{"1", "2Gi", preflight.Warned, "the runtime itself fits"},
		{"2", "5000M", preflight.Passed, ""},
	} {
		s.makeNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}})
		has := corev1.ResourceList{"cpu": resource.MustParse(tt.cpu), "memory": resource.MustParse(tt.memory)}
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": has, "allocatable": has}})
		must.Do(t, err)
		if _, err := cluster.Client.CoreV1().Nodes().Patch(t.Context(), s.node, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		results := preflight.Run(t.Context(), world, options)
		if tt.state == preflight.Passed {
			clean(t, results)
			continue
		}
		finds(t, results, preflight.NodeSize, tt.state, tt.want)
	}
}

// TestNoCluster: an unreachable API server is reported once.
func TestNoCluster(t *testing.T) {
	away, err := kube.ConnectRemote(kube.Remote{Server: "https://127.0.0.1:9", Token: func() secret.Text { return secret.New("x") }})
	must.Do(t, err)
	t.Cleanup(away.Close)
	options := preflight.Options{Settings: mode.Settings{Runtime: testRuntime, Namespace: "default"}}
	results := preflight.Run(t.Context(), preflight.World{Cluster: away}, options)
	if wrong := preflight.Errors(results); wrong != 1 {
		t.Errorf("%d checks failed", wrong)
	}
	finds(t, results, preflight.KubernetesVersion, preflight.Failed, "kubectl get --raw /readyz")
	options.Only = []preflight.Code{preflight.NodeSize}
	finds(t, preflight.Run(t.Context(), preflight.World{Cluster: away}, options), preflight.NodeSize, preflight.Failed, "kubectl get --raw /readyz")
}

// TestSecretsAreNotReported: a token is in no result of any failure.
func TestSecretsAreNotReported(t *testing.T) {
	cluster := kubetest.Shared(t)
	options := tunnel(t, cluster)
	options.Git = preflight.GitAccess{Repository: "https://git.example.test/a/b.git", Token: secret.New("canary-token")}
	results := preflight.Run(t.Context(), preflight.World{Cluster: cluster.Cluster, Resolver: serveDNS(t, nil)}, options)
	if text := fmt.Sprintf("%+v", results); strings.Contains(text, "canary") {
		t.Error("the token is in the results")
	}
	finds(t, results, preflight.Egress, preflight.Failed, "DNS has no record of git.example.test")
}
