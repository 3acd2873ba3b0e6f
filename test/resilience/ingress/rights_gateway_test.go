package ingress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// home is the namespace of the edge in the files of deploy.
const home = "slipway-system"

// gatewayRights is the scene: a cluster with an object of each kind of Gateway API, and an
// edge with the rights that deploy ships for it.
type gatewayRights struct {
	suite     *suite
	cluster   *kubetest.Cluster
	api       *kube.Cluster
	namespace string
}

// grant is a right of a shipped role: a ClusterRole is valid everywhere, and a Role in the
// namespace of the edge.
type grant struct {
	right
	atHome bool
}

// testGatewayRights: the roles for Gateways in deploy/rbac are exactly what is used. Each
// right is used where its role is valid, and nothing is denied. An edge that writes no
// Services needs none of the rights to do so.
func (s *suite) testGatewayRights(t *testing.T) {
	t.Parallel()
	c := newGatewayRights(t, s)
	granted := append(grantsIn(t, "deploy/rbac/gateway-role.yaml"), grantsIn(t, "deploy/rbac/gateway-deployments-role.yaml")...)
	plain := c.run(t, 1, false, []string{"--providers.kubernetesGateway.addresses=" + netip.PrefixFrom(hostOf(14, 0), 28).String()},
		func(t *testing.T, _ func() []usedRight) { c.awaitProgrammed(t) })
	for _, one := range plain() {
		if one.group != "coordination.k8s.io" && one.group != "events.k8s.io" && one.verb != "list" && one.verb != "watch" && !strings.HasSuffix(one.resource, "/status") {
			t.Errorf("without Services it uses %v in %q", one.right, one.namespace)
		}
	}
	services := []string{"--providers.kubernetesGateway.serviceType=ClusterIP", "--providers.kubernetesGateway.edgeService=" + home + "/edge",
		"--providers.kubernetesGateway.deployment=edge", "--providers.kubernetesGateway.targetPorts=21000-21009"}
	withServices := c.run(t, 2, false, services, c.removeGateway)
	// An older API server is asked for lists.
	c.run(t, 3, true, services, func(t *testing.T, now func() []usedRight) {
		eventually(t, patience, func() error {
			all := slices.Concat(plain(), withServices(), now())
			if i := slices.IndexFunc(granted, func(g grant) bool { return !g.isUsed(all) }); i >= 0 {
				return fmt.Errorf("%v is granted and never used, at home: %t", granted[i].right, granted[i].atHome)
			}
			return nil
		})
	})
}

// isUsed reports whether a request used the right where the role is valid.
func (g grant) isUsed(used []usedRight) bool {
	return slices.ContainsFunc(used, func(u usedRight) bool { return u.right == g.right && (u.namespace == home) == g.atHome })
}

// grantsIn are the rights of all roles in a file.
func grantsIn(t *testing.T, path string) []grant {
	t.Helper()
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(readFile(t, path)), 4096)
	var all []grant
	for {
		var role rbacv1.ClusterRole // a Role has the same rules, and a binding has none
		err := documents.Decode(&role)
		if errors.Is(err, io.EOF) {
			return all
		}
		must.Do(t, err)
		for _, one := range rightsOfRules(t, path, role.Rules) {
			all = append(all, grant{one, role.Kind == "Role"})
		}
	}
}

func newGatewayRights(t *testing.T, s *suite) *gatewayRights {
	t.Helper()
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	cluster.DefineFiles(t, filepath.Join(programs.ModuleFolder(t, "sigs.k8s.io/gateway-api"), "config", "crd", "standard", "gateway.networking.k8s.io_[a-u]*.yaml"))
	c := &gatewayRights{suite: s, cluster: cluster, api: connect(t, cluster), namespace: cluster.Namespace(t)}
	for _, name := range []string{"namespace", "rbac/serviceaccount", "rbac/role-lease", "rbac/clusterrole", "rbac/clusterrolebinding", "rbac/gateway-role", "rbac/gateway-deployments-role"} {
		cluster.Apply(t, home, readFile(t, "deploy/"+name+".yaml"))
	}
	cluster.Apply(t, home, edgeObjects)
	authority := strings.ReplaceAll(strings.TrimSpace(pkitest.NewAuthority(t).PEM), "\n", "\n    ")
	cluster.Apply(t, c.namespace, fmt.Sprintf(gatewayRightsManifest, authority))
	return c
}

// run starts an edge with the shipped rights behind a recorder, ends it once the check
// returns, and returns the recorder's list of used rights. None may have been denied.
func (c *gatewayRights) run(t *testing.T, number byte, old bool, arguments []string, check func(*testing.T, func() []usedRight)) func() []usedRight {
	t.Helper()
	recorder := newGateway(t, c.api, hostOf(12, number))
	recorder.old = old
	recorder.listen(t)
	edge := seat{
		Binary: c.suite.binary, At: hostOf(13, number), Namespace: home, Kubeconfig: recorder.kubeconfig(t, c.api, home, "slipway-edge"),
		Arguments: append(arguments, "--entryPoints.web.transport.lifeCycle.requestAcceptGraceTimeout=0s", "--entryPoints.websecure.transport.lifeCycle.requestAcceptGraceTimeout=0s"),
	}.Start(t)
	edge.AwaitReady(t)
	check(t, recorder.usedRights)
	edge.Stop(t) // it deletes its Lease
	if _, denied, _ := recorder.rights(); len(denied) > 0 {
		t.Errorf("denied: %v", denied)
	}
	return recorder.usedRights
}

// awaitProgrammed waits until both Gateways are programmed.
func (c *gatewayRights) awaitProgrammed(t *testing.T) {
	t.Helper()
	gateways := c.api.Dynamic.Resource(gatewayv1.SchemeGroupVersion.WithResource("gateways")).Namespace(c.namespace)
	for _, name := range []string{"first", "second"} {
		eventually(t, patience, func() error {
			found, err := gateways.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
			for _, one := range conditions {
				if of, _ := one.(map[string]any); of["type"] == "Programmed" && of["status"] == "True" {
					return nil
				}
			}
			return fmt.Errorf("the Gateway %s is not programmed: %v", name, conditions)
		})
	}
}

// removeGateway deletes a Gateway once it has a Deployment, and waits until that is gone.
func (c *gatewayRights) removeGateway(t *testing.T, _ func() []usedRight) {
	t.Helper()
	await := func(count int) {
		eventually(t, patience, func() error {
			list, err := c.api.Client.AppsV1().Deployments(home).List(t.Context(), metav1.ListOptions{LabelSelector: "slipway.dev/gateway-deployments"})
			if err == nil && len(list.Items) != count {
				err = fmt.Errorf("there are %d Deployments of Gateways, and not %d", len(list.Items), count)
			}
			return err
		})
	}
	await(2)
	must.Do(t, c.api.Dynamic.Resource(gatewayv1.SchemeGroupVersion.WithResource("gateways")).Namespace(c.namespace).Delete(context.WithoutCancel(t.Context()), "second", metav1.DeleteOptions{}))
	await(1)
}

// edgeObjects are the Service and the Deployment of the edge, which options name.
const edgeObjects = `apiVersion: v1
kind: Service
metadata: {name: edge}
spec: {ports: [{name: web, port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: edge}
spec:
  selector: {matchLabels: {app: edge}}
  template: {metadata: {labels: {app: edge}}, spec: {containers: [{name: edge, image: "slipway:1"}]}}
`

// gatewayRightsManifest has an object of each kind that is read or has a status.
const gatewayRightsManifest = `apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: slipway}
spec: {controllerName: slipway.dev/gateway-controller}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: authority}
data:
  ca.crt: |
    %s
---
apiVersion: v1
kind: Service
metadata: {name: a}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: first}
spec:
  gatewayClassName: slipway
  allowedListeners: {namespaces: {from: Same}}
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: tls, port: 443, protocol: TLS, tls: {mode: Passthrough}}
  - {name: tcp, port: 9000, protocol: TCP}
  - {name: udp, port: 9001, protocol: UDP}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: second}
spec: {gatewayClassName: slipway, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: more}
spec: {parentRef: {name: first}, listeners: [{name: more, port: 8080, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: http}
spec: {parentRefs: [{name: first}], hostnames: [http.test], rules: [{backendRefs: [{name: a, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: grpc}
spec: {parentRefs: [{name: first}], hostnames: [grpc.test], rules: [{backendRefs: [{name: a, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: tls}
spec: {parentRefs: [{name: first}], hostnames: [tls.test], rules: [{backendRefs: [{name: a, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: tcp}
spec: {parentRefs: [{name: first}], rules: [{backendRefs: [{name: a, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: udp}
spec: {parentRefs: [{name: first}], rules: [{backendRefs: [{name: a, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: a}
spec:
  targetRefs: [{group: "", kind: Service, name: a}]
  validation: {hostname: a.test, caCertificateRefs: [{group: "", kind: ConfigMap, name: authority}]}
`
