package ingress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// rights is the scene: a namespace with an Ingress for each thing that an edge
// reads.
type rights struct {
	suite     *suite
	cluster   *kubetest.Cluster
	api       *kube.Cluster
	namespace string
	edges     atomic.Uint32
}

// The hosts of the scene. What is asked for over TLS has a certificate.
const (
	plainHost  = "plain.test"
	classHost  = "class.test"
	secretHost = "secret.test"
)

// customHosts are the hosts whose Ingress, or Service, names an object of a kind.
func customHosts() map[string]string {
	return map[string]string{
		"middlewares.slipway.dev":       "own-middleware.test",
		"tlsoptions.slipway.dev":        "own-options.test",
		"backendtransports.slipway.dev": "own-transport.test",
		"middlewares.traefik.io":        "their-middleware.test",
		"tlsoptions.traefik.io":         "their-options.test",
		"serverstransports.traefik.io":  "their-transport.test",
	}
}

func newRights(t *testing.T, s *suite) *rights {
	t.Helper()
	// Not the shared one: an edge with rights for the cluster sees what others do.
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	c := &rights{suite: s, cluster: cluster, api: connect(t, cluster), namespace: cluster.Namespace(t)}
	definitions, err := filepath.Glob(filepath.Join(root, "charts/gitops-runtime/crds/*.yaml"))
	if err != nil || len(definitions) == 0 {
		t.Fatal("no CustomResourceDefinitions of our own kinds", err)
	}
	for _, path := range definitions {
		c.cluster.Apply(t, c.namespace, readFile(t, strings.TrimPrefix(path, root)))
	}
	c.cluster.Apply(t, c.namespace, readFile(t, "test/conformance/ingress/testdata/traefik.io.yaml"))
	c.cluster.Apply(t, c.namespace, readFile(t, "deploy/ingressclass.yaml"))
	w := &world{cluster: cluster, api: c.api, namespace: c.namespace, addresses: newAddresses(podsOf(cluster, 5)), errors: &collector{}}
	for _, name := range []string{"plain", "own", "their"} {
		w.newService(t, name, 1)
	}
	manifest := strings.ReplaceAll(rightsManifest, "$ns", c.namespace)
	eventually(t, patience, func() error { // a kind that was defined a moment ago is not served yet
		_, err := c.api.Apply(t.Context(), kube.Target{Namespace: c.namespace, Manager: "resilience"}, manifest)
		return err
	})
	return c
}

// rightsManifest has what reading needs a right for.
const rightsManifest = `
apiVersion: slipway.dev/v1alpha1
kind: Middleware
metadata: {name: own}
spec: {filters: [{basicAuth: {secret: users}}]}
---
apiVersion: slipway.dev/v1alpha1
kind: TLSOption
metadata: {name: own}
spec: {minVersion: "1.2"}
---
apiVersion: slipway.dev/v1alpha1
kind: BackendTransport
metadata: {name: own}
spec: {timeouts: {connect: 10s}}
---
apiVersion: slipway.dev/v1alpha1
kind: Release
metadata: {name: own}
spec:
  workload: {apiVersion: apps/v1, kind: Deployment, name: own}
  revisions: [{name: stable, hash: a, replicaSet: a, weight: 1}, {name: canary, hash: b, replicaSet: b}]
---
apiVersion: traefik.io/v1alpha1
kind: Middleware
metadata: {name: their}
spec: {basicAuth: {secret: users}}
---
apiVersion: traefik.io/v1alpha1
kind: TLSOption
metadata: {name: their}
spec: {minVersion: VersionTLS12}
---
apiVersion: traefik.io/v1alpha1
kind: ServersTransport
metadata: {name: their}
spec: {forwardingTimeouts: {dialTimeout: 10s}}
---
apiVersion: v1
kind: Secret
metadata: {name: users}
type: kubernetes.io/basic-auth
stringData: {username: guard, password: guard}
---
apiVersion: v1
kind: Service
metadata: {name: own, annotations: {slipway.dev/transport: own}}
---
apiVersion: v1
kind: Service
metadata: {name: their, annotations: {traefik.ingress.kubernetes.io/service.serverstransport: $ns-their@kubernetescrd}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: plain}
spec: {rules: [{host: plain.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: plain, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: class}
spec:
  ingressClassName: slipway
  rules: [{host: class.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: plain, port: {number: 80}}}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: secret, annotations: {slipway.dev/basic-auth: users}}
spec: {rules: [{host: secret.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: plain, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: own-middleware, annotations: {slipway.dev/middlewares: own}}
spec: {rules: [{host: own-middleware.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: plain, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: their-middleware, annotations: {traefik.ingress.kubernetes.io/router.middlewares: $ns-their@kubernetescrd}}
spec: {rules: [{host: their-middleware.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: plain, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: own-options, annotations: {slipway.dev/tls-options: own}}
spec: {rules: [{host: own-options.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: plain, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: their-options, annotations: {traefik.ingress.kubernetes.io/router.tls.options: $ns-their@kubernetescrd}}
spec: {rules: [{host: their-options.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: plain, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: own-transport}
spec: {rules: [{host: own-transport.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: own, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: their-transport}
spec: {rules: [{host: their-transport.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: their, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: refused, annotations: {slipway.dev/priority: high}}
spec: {rules: [{host: refused.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: plain, port: {number: 80}}}}]}}]}
`

// rightsEdge is an edge with rights of its own.
type rightsEdge struct {
	gateway *gateway
	replica *replica
	// address is what it publishes, like no other.
	address    string
	namespaced bool
}

// account is a service account that exists and has rights.
type account struct{ namespace, name string }

// user is how the API server calls an account.
func (a account) user() string { return "system:serviceaccount:" + a.namespace + ":" + a.name }

// shipped makes the account of deploy/rbac with the files as they are, until the
// end of the test.
func (c *rights) shipped(t *testing.T, given grants) account {
	t.Helper()
	edge := account{"slipway-system", "slipway-edge"}
	names := []string{"namespace", "rbac/serviceaccount", "rbac/role-lease", "rbac/clusterrole", "rbac/clusterrolebinding"}
	if given.namespaced {
		names = []string{"namespace", "rbac/serviceaccount", "rbac/role-lease", "rbac/role-namespaced"}
	}
	for _, name := range names {
		c.cluster.Apply(t, c.namespace, readFile(t, "deploy/"+name+".yaml"))
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		own := kube.Named(edge.name)
		err := errors.Join(
			c.api.Client.RbacV1().ClusterRoleBindings().DeleteCollection(ctx, metav1.DeleteOptions{}, own),
			c.api.Client.RbacV1().RoleBindings(c.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, own),
			c.api.Client.CoordinationV1().Leases(edge.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, own),
			until(ctx, func() error { return c.allowed(ctx, edge, given.granted[0], c.namespace, false) }),
		)
		if err != nil {
			t.Error(err)
		}
	})
	return edge
}

// made makes an account that has the rights that are given, and no others.
func (c *rights) made(t *testing.T, given grants) account {
	t.Helper()
	edge := account{c.cluster.Namespace(t), "slipway-edge"}
	c.cluster.Apply(t, edge.namespace, c.roles(edge.namespace, given))
	t.Cleanup(func() { c.forget(t, edge.namespace) })
	return edge
}

// newEdge starts an edge as an account, once the API server knows of its rights.
func (c *rights) newEdge(t *testing.T, as account, given grants, old bool) *rightsEdge {
	t.Helper()
	served := ""
	if given.namespaced {
		served = c.namespace
	}
	eventually(t, patience, func() error {
		return errors.Join(
			c.allowed(t.Context(), as, given.granted[0], served, true), c.allowed(t.Context(), as, given.lease[0], as.namespace, true))
	})
	number := byte(c.edges.Add(1))
	e := &rightsEdge{address: fmt.Sprintf("198.51.100.%d", number), namespaced: given.namespaced}
	e.gateway = newGateway(t, c.api, hostOf(6, number))
	e.gateway.old = old
	e.gateway.listen(t)
	arguments := []string{
		"--providers.kubernetesIngress.ingressEndpoint.ip=" + e.address,
		"--entryPoints.web.transport.lifeCycle.requestAcceptGraceTimeout=0s",
		"--entryPoints.websecure.transport.lifeCycle.requestAcceptGraceTimeout=0s",
	}
	if given.namespaced {
		arguments = append(arguments, "--providers.kubernetesIngress.namespaces="+c.namespace, "--providers.kubernetesIngress.disableClusterScopeResources=true")
	}
	e.replica = seat{
		Binary: c.suite.binary, At: hostOf(7, number), Namespace: as.namespace, Arguments: arguments,
		Kubeconfig: e.gateway.kubeconfig(t, c.api, as.namespace, as.name),
	}.Start(t)
	return e
}

// allowed is nil when the API server's review of a right is as wanted.
func (c *rights) allowed(ctx context.Context, as account, needed right, namespace string, wanted bool) error {
	resource, sub, _ := strings.Cut(needed.resource, "/")
	review, err := c.api.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: as.user(), ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Group: needed.group, Resource: resource, Subresource: sub, Verb: needed.verb,
		}},
	}, metav1.CreateOptions{})
	if err == nil && review.Status.Allowed != wanted {
		err = fmt.Errorf("%s may %v: %t", as.user(), needed, review.Status.Allowed)
	}
	return err
}

// roles are those of deploy/rbac, for an account in a namespace of its own.
func (c *rights) roles(home string, given grants) string {
	kind, metadata := "ClusterRole", "{name: "+home+"}"
	if given.namespaced {
		kind, metadata = "Role", "{name: "+home+", namespace: "+c.namespace+"}"
	}
	const text = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: slipway-edge}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: slipway-edge-lease}
%[4]s---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: slipway-edge-lease}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: slipway-edge-lease}
subjects: [{kind: ServiceAccount, name: slipway-edge, namespace: %[1]s}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: %[2]s
metadata: %[3]s
%[5]s---
apiVersion: rbac.authorization.k8s.io/v1
kind: %[2]sBinding
metadata: %[3]s
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %[2]s, name: %[1]s}
subjects: [{kind: ServiceAccount, name: slipway-edge, namespace: %[1]s}]
`
	return fmt.Sprintf(text, home, kind, metadata, rules(given.lease), rules(given.granted))
}

// forget removes what lies outside the namespace of an edge.
func (c *rights) forget(t *testing.T, home string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := c.api.Client.RbacV1().ClusterRoleBindings().DeleteCollection(ctx, metav1.DeleteOptions{}, kube.Named(home))
	err = errors.Join(err, c.api.Client.RbacV1().ClusterRoles().DeleteCollection(ctx, metav1.DeleteOptions{}, kube.Named(home)))
	if err != nil {
		t.Error(err)
	}
}

// served is nil when a host is served as it should be. Over TLS any certificate
// will do: none is given for these hosts.
func (e *rightsEdge) served(ctx context.Context, host string) error {
	asking := &client{method: http.MethodGet, scheme: "http", fresh: true, user: "guard"}
	if strings.Contains(host, "options") {
		asking.scheme = "https"
	}
	transport := asking.transport(func(port int) dialer { return e.replica.Dialer(port) }, nil)
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	got, err := asking.exchange(ctx, transport, host, "nonce")
	if err == nil && got.status != http.StatusOK {
		err = fmt.Errorf("%s: status %d", host, got.status)
	}
	return err
}
