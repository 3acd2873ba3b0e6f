package ingress

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// heldBack is how long an edge that must not be ready is watched.
const heldBack = time.Second

// readiness is the scene: a namespace with one route.
type readiness struct {
	suite     *suite
	cluster   *kubetest.Cluster
	api       *kube.Cluster
	namespace string
	asking    *client
}

// testReadiness: who is ready knows the whole cluster, or what it served last.
func (s *suite) testReadiness(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Shared(t)
	c := &readiness{suite: s, cluster: cluster, api: connect(t, cluster), namespace: cluster.Namespace(t)}
	w := &world{cluster: cluster, api: c.api, namespace: c.namespace, addresses: newAddresses(podsOf(cluster, 3)), errors: &collector{}}
	w.newService(t, "shop", 2)
	cluster.Apply(t, c.namespace, shopManifest)
	right := newFact("shop")
	c.asking = &client{name: "shop", method: http.MethodGet, scheme: "http", fresh: true, host: func(int) (string, *fact) { return "shop.test", right }}
	t.Run("slow", c.testSlow)
	t.Run("one kind missing", c.testOneKind)
	t.Run("last good", c.testLastGood)
}

const shopManifest = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop}
spec:
  rules:
  - {host: shop.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]}}
`

// seat is where an edge runs that comes by a gateway with all rights.
func (c *readiness) seat(t *testing.T, g *gateway, fourth byte, arguments ...string) seat {
	t.Helper()
	c.cluster.Apply(t, c.namespace, fmt.Sprintf(everythingManifest, c.namespace))
	return seat{
		Binary: c.suite.binary, At: hostOf(4, fourth), Namespace: c.namespace,
		Kubeconfig: g.kubeconfig(t, c.api, c.namespace, "default"),
		Arguments: append([]string{
			"--providers.kubernetesIngress.namespaces=" + c.namespace,
			"--entryPoints.web.transport.lifeCycle.requestAcceptGraceTimeout=0s",
			"--entryPoints.websecure.transport.lifeCycle.requestAcceptGraceTimeout=0s",
		}, arguments...),
	}
}

// everythingManifest lets the account of a namespace do everything.
const everythingManifest = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: default, namespace: %[1]s}]
`

// staysUnready looks for a while whether an edge is ready, which it must not be,
// and returns what it reports.
func staysUnready(t *testing.T, r *replica, answered <-chan error) string {
	t.Helper()
	said := ""
	eventually(t, patience, func() error { // it has to start
		status, text, err := r.Page(t.Context(), "/readyz")
		said = fmt.Sprintf("%d %s", status, text)
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), heldBack)
	defer cancel()
	for pause(ctx, lookAgain) {
		status, text, err := r.Page(t.Context(), "/readyz")
		if err != nil || status != http.StatusServiceUnavailable {
			t.Fatalf("readyz answers %d %s (%v)", status, text, err)
		}
		said = text
		select {
		case err := <-answered:
			t.Fatalf("a request was answered before the edge was ready: %v", err)
		default:
		}
	}
	return said
}

// ask makes a request in the background. It waits as long as it takes.
func (c *readiness) ask(t *testing.T, r *replica) <-chan error {
	t.Helper()
	eventually(t, patience, func() error { // the port opens early
		conn, err := r.Dialer(edgeprocess.PlainPort)(t.Context(), "tcp", "")
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	answered := make(chan error, 1)
	transport := c.asking.transport(func(port int) dialer { return r.Dialer(port) }, nil)
	go func() { answered <- c.asking.ask(t.Context(), transport, 0) }()
	return answered
}

// testSlow: an API server that takes its time is waited for. Who has connected
// meanwhile gets the right response then, and no 404 before.
func (c *readiness) testSlow(t *testing.T) {
	g := newGateway(t, c.api, hostOf(3, 1))
	gates := map[string]chan struct{}{"endpointslices": make(chan struct{}), "": make(chan struct{})}
	g.hold = func(r *http.Request, needed right) {
		gate, own := gates[needed.resource]
		if !own {
			gate = gates[""]
		}
		select {
		case <-gate:
		case <-r.Context().Done():
		}
		pause(r.Context(), 50*time.Millisecond)
	}
	r := c.seat(t, g.listen(t), 1).Start(t)
	answered := c.ask(t, r)
	said := staysUnready(t, r, answered)
	if !strings.Contains(said, "not live yet") {
		t.Errorf("readyz says %q", said)
	}
	close(gates[""])
	staysUnready(t, r, answered)
	close(gates["endpointslices"])
	if err := <-answered; err != nil {
		t.Errorf("who waited: %v", err)
	}
	r.AwaitReady(t)
}

// testOneKind: a right that is missing keeps the edge from being ready, and both
// readyz and the log name it. The edge gets ready when it has the right.
func (c *readiness) testOneKind(t *testing.T) {
	g := newGateway(t, c.api, hostOf(3, 2)).listen(t)
	at := c.seat(t, g, 2)
	c.cluster.Apply(t, c.namespace, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: poor}\n")
	at.Kubeconfig = g.kubeconfig(t, c.api, c.namespace, "poor")
	c.cluster.Apply(t, c.namespace, fmt.Sprintf(poorManifest, c.namespace, "services"))
	r := at.Start(t)
	answered := c.ask(t, r)
	eventually(t, patience, func() error {
		if _, text, err := r.Page(t.Context(), "/readyz"); err != nil || !strings.Contains(text, "endpointslices") {
			return fmt.Errorf("readyz says %q (%v)", text, err)
		}
		return nil
	})
	said := staysUnready(t, r, answered)
	if !strings.Contains(said, "endpointslices") || !strings.Contains(said, "forbidden") || strings.Contains(said, "services:") {
		t.Errorf("readyz says %q", said)
	}
	if !r.Logged("cannot read from the cluster", `"resource":"endpointslices"`, "forbidden") {
		t.Error("the log does not say what is missing")
	}
	c.cluster.Apply(t, c.namespace, fmt.Sprintf(poorManifest, c.namespace, "services, endpointslices"))
	r.AwaitReady(t)
	if err := <-answered; err != nil {
		t.Errorf("who waited: %v", err)
	}
}

// poorManifest lets an account read almost everything.
const poorManifest = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: poor-%[1]s}
rules:
- {apiGroups: ["", networking.k8s.io, discovery.k8s.io], resources: [ingresses, ingressclasses, nodes, %[2]s], verbs: [list, watch]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: poor-%[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: poor-%[1]s}
subjects: [{kind: ServiceAccount, name: poor, namespace: %[1]s}]
`

// testLastGood: without an API server the last-good table is served, unless its file
// was edited, cut or exposed.
func (c *readiness) testLastGood(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "last-good")
	file := filepath.Join(dir, "last-good.yaml")
	g := newGateway(t, c.api, hostOf(3, 3))
	at := c.seat(t, g, 3, "--lastGood.dir="+dir)
	direct := at
	direct.Kubeconfig = c.cluster.Kubeconfig
	first := direct.Start(t)
	first.AwaitReady(t)
	first.Stop(t)
	good := must.Get(os.ReadFile(file))(t)

	second := at.Start(t) // nothing listens there yet
	second.AwaitReady(t)
	if err := <-c.ask(t, second); err != nil {
		t.Errorf("what was served last: %v", err)
	}
	second.Stop(t)

	for _, damage := range []struct {
		name, why string
		inflict   func() error
	}{
		{"edited", "truncated or edited", func() error {
			return os.WriteFile(file, []byte(strings.Replace(string(good), "shop.test", "evil.test", 1)), 0o600)
		}},
		{"cut", "truncated or edited", func() error { return os.WriteFile(file, good[:len(good)-200], 0o600) }},
		{"exposed", "other users can access", func() error { return os.Chmod(file, 0o644) }},
	} {
		// The edge of the case before has written the file again.
		must.Do(t, damage.inflict())
		t.Run(damage.name, func(t *testing.T) { c.refusesLastGood(t, at, damage.why) })
	}
}

// refusesLastGood starts an edge without an API server that has a damaged file.
// It gets ready when the API server is there.
func (c *readiness) refusesLastGood(t *testing.T, at seat, why string) {
	g := newGateway(t, c.api, hostOf(3, 4))
	at.Kubeconfig = g.kubeconfig(t, c.api, c.namespace, "default")
	r := at.Start(t)
	answered := c.ask(t, r)
	eventually(t, patience, func() error {
		if !r.Logged("the cluster cannot be read, and neither can the routes served last", why) {
			return fmt.Errorf("it does not say that it refuses the file: %v", r.Alive())
		}
		return nil
	})
	staysUnready(t, r, answered)
	g.listen(t)
	r.AwaitReady(t)
	if err := <-answered; err != nil {
		t.Errorf("who waited: %v", err)
	}
	r.Stop(t)
}
