package ingress

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/ingress/status"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// The addresses that ingress-nginx and the edges publish.
const (
	oldAddress = "192.0.2.10"
	newAddress = "192.0.2.20"
)

// nginxSwitch is the scene: ingress-nginx and two edges serve the same Ingresses, behind a
// load balancer.
type nginxSwitch struct {
	*world
	suite     *suite
	authority *pkitest.Authority
	balancer  *balancer
	clients   []*client
	edges     []*replica
}

// testNGINXSwitch follows the steps of docs/migration-nginx.md from ingress-nginx to the
// edge and back, under load. No request fails, no status becomes empty, and each is
// written only by the controller that holds the Lease.
func (s *suite) testNGINXSwitch(t *testing.T) {
	c := newNGINXSwitch(t, s)
	recorded := c.record(t)
	first := c.startOld(t, 1)
	first.competes(t, c.namespace)
	c.balancer.lead(first.replica)
	c.awaitStatus(t, oldAddress)
	w := &traffic{}
	stop := w.run(requesters(c.clients, func(port int) dialer { return seat{At: hostOf(8, 100)}.Dialer(port) }, c.authority.Pool))

	began := time.Now()
	c.goBeside(t)
	c.setPublish(t, true)
	second := c.handOver(t, first)
	c.balancer.lead(c.edges...) // as DNS does, which follows the status
	pause(t.Context(), newProgram().calm)
	second.end(t)
	pause(t.Context(), newProgram().calm)
	t.Logf("switched in %v", time.Since(began).Round(time.Millisecond))

	began = time.Now()
	third := c.startOld(t, 3)
	third.competes(t, c.namespace)
	c.setPublish(t, false)
	c.awaitStatus(t, oldAddress)
	c.balancer.lead(third.replica)
	pause(t.Context(), newProgram().calm)
	for _, edge := range c.edges {
		edge.Stop(t)
	}
	t.Logf("switched back in %v", time.Since(began).Round(time.Millisecond))

	stop()
	recorded(t)
	w.report(t)
}

func newNGINXSwitch(t *testing.T, s *suite) *nginxSwitch {
	t.Helper()
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	c := &nginxSwitch{
		world: &world{
			cluster: cluster, api: connect(t, cluster), namespace: cluster.Namespace(t),
			addresses: newAddresses(cluster.PodNetwork), errors: &collector{},
		},
		suite: s, authority: pkitest.NewAuthority(t), balancer: newBalancer(t, hostOf(8, 100)),
	}
	facts := map[string]*fact{}
	for _, name := range []string{"one", "two", "vault"} {
		c.newService(t, name, 3)
		facts[name] = newFact(name)
	}
	c.cluster.Apply(t, c.namespace, switchManifest+secretManifest("secure", c.authority.Issue(t, "secure.test")))
	of := func(host, service string) func(int) (string, *fact) {
		return func(int) (string, *fact) { return host, facts[service] }
	}
	c.clients = []*client{
		{name: "kept", method: http.MethodGet, scheme: "http", host: of("one.test", "one")},
		{name: "fresh", method: http.MethodPost, scheme: "http", host: of("one.test", "one"), fresh: true},
		{name: "slow", method: http.MethodGet, scheme: "http", host: of("one.test", "one"), hold: 700 * time.Millisecond},
		{name: "regex", method: http.MethodGet, scheme: "http", host: of("two.test", "two"), fresh: true},
		{name: "secure h2", method: http.MethodGet, scheme: "https", host: of("secure.test", "vault"), h2: true},
		{name: "handshake", method: http.MethodGet, scheme: "https", host: of("secure.test", "vault"), fresh: true},
	}
	return c
}

const switchManifest = `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: nginx}
spec: {controller: k8s.io/ingress-nginx}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: one}
spec:
  ingressClassName: nginx
  rules: [{host: one.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: one, port: {number: 80}}}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: two, annotations: {nginx.ingress.kubernetes.io/use-regex: "true"}}
spec:
  ingressClassName: nginx
  rules: [{host: two.test, http: {paths: [{path: "/[a-z0-9]+", pathType: ImplementationSpecific, backend: {service: {name: two, port: {number: 80}}}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: secure}
spec:
  ingressClassName: nginx
  tls: [{hosts: [secure.test], secretName: secure}]
  rules: [{host: secure.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: vault, port: {number: 80}}}}]}}]
`

// lateManifest is an Ingress that is created while no controller has the Lease.
const lateManifest = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: late}
spec:
  ingressClassName: nginx
  rules: [{host: late.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: one, port: {number: 80}}}}]}}]
`

// startOld starts a Pod of ingress-nginx, which does not write status.
func (c *nginxSwitch) startOld(t *testing.T, number byte) *oldController {
	t.Helper()
	started := startOldController(t, c.api, hostOf(8, number), oldAddress)
	c.check(t, started.replica)
	return started
}

// edge starts one, which writes the status of ingress-nginx's Ingresses or does not.
func (c *nginxSwitch) edge(t *testing.T, number int, publish bool) *replica {
	t.Helper()
	r := seat{
		Binary: c.suite.binary, At: hostOf(8, byte(10+number)), Kubeconfig: c.cluster.Kubeconfig, Namespace: c.namespace,
		Arguments: []string{
			"--providers.kubernetesIngress.ingressEndpoint.ip=" + newAddress,
			"--providers.kubernetesIngressNGINX.publishStatus=" + strconv.FormatBool(publish),
			"--providers.kubernetesIngressNGINX.statusLease=" + c.namespace + "/" + oldLease,
			"--entryPoints.web.transport.lifeCycle.requestAcceptGraceTimeout=1s",
			"--entryPoints.websecure.transport.lifeCycle.requestAcceptGraceTimeout=1s",
		},
	}.Start(t)
	r.AwaitReady(t)
	c.check(t, r)
	return r
}

// check sends a request of each client to one server.
func (c *nginxSwitch) check(t *testing.T, r *replica) {
	t.Helper()
	for _, asking := range c.clients {
		transport := asking.transport(func(port int) dialer { return r.Dialer(port) }, c.authority.Pool)
		if err := asking.ask(t.Context(), transport, 0); err != nil {
			t.Errorf("%s at %s: %v", asking.name, r.At, err)
		}
		transport.CloseIdleConnections()
	}
}

// goBeside starts the edges, which leave the status to ingress-nginx.
func (c *nginxSwitch) goBeside(t *testing.T) {
	t.Helper()
	for i := range 2 {
		c.edges = append(c.edges, c.edge(t, i, false))
	}
}

// setPublish restarts the edges one after the other with another option.
func (c *nginxSwitch) setPublish(t *testing.T, publish bool) {
	t.Helper()
	for i, before := range c.edges {
		serves := c.balancer.drop(before)
		before.Stop(t)
		c.edges[i] = c.edge(t, i, publish)
		if serves {
			c.balancer.add(c.edges[i])
		}
	}
}

// handOver replaces the Pod of ingress-nginx by one that does not write status, and then
// releases the Lease that it left behind.
func (c *nginxSwitch) handOver(t *testing.T, before *oldController) *oldController {
	t.Helper()
	next := c.startOld(t, 2)
	c.balancer.lead(next.replica)
	before.end(t)
	c.cluster.Apply(t, c.namespace, lateManifest)
	began := time.Now()
	must.Get(c.api.Client.CoordinationV1().Leases(c.namespace).Patch(t.Context(), oldLease, types.MergePatchType,
		[]byte(`{"spec":{"holderIdentity":""}}`), metav1.PatchOptions{}))(t)
	c.awaitStatus(t, newAddress)
	t.Logf("the edge wrote every status %v after the Lease was released", time.Since(began).Round(time.Millisecond))
	return next
}

// awaitStatus waits until all Ingresses have an address.
func (c *nginxSwitch) awaitStatus(t *testing.T, address string) {
	t.Helper()
	kubetest.WaitFor(t, c.api.Client.NetworkingV1().Ingresses(c.namespace), metav1.ListOptions{}, patience,
		func(all []*networkingv1.Ingress) error {
			for _, ingress := range all {
				if got := addressIn(ingress); got != address {
					return fmt.Errorf("%s has the address %q, want %s", ingress.Name, got, address)
				}
			}
			return nil
		})
}

func addressIn(ingress *networkingv1.Ingress) string {
	if len(ingress.Status.LoadBalancer.Ingress) != 1 {
		return ""
	}
	return ingress.Status.LoadBalancer.Ingress[0].IP
}

// record watches Ingresses and the Lease. What it returns checks that each status was
// written by the holder of the Lease: both have resource versions of one store, which
// order them.
func (c *nginxSwitch) record(t *testing.T) (check func(*testing.T)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ingresses := must.Get(c.api.Client.NetworkingV1().Ingresses(c.namespace).Watch(ctx, metav1.ListOptions{}))(t)
	leases := must.Get(c.api.Client.CoordinationV1().Leases(c.namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + oldLease}))(t)
	log := &writeLog{holders: map[uint64]string{}, statuses: map[uint64]*networkingv1.Ingress{}}
	var watching sync.WaitGroup
	watching.Go(func() { follow(ingresses, log.ingress) })
	watching.Go(func() { follow(leases, log.lease) })
	stop := sync.OnceFunc(func() {
		cancel()
		watching.Wait()
	})
	t.Cleanup(stop)
	return func(t *testing.T) {
		t.Helper()
		stop()
		if err := log.check(t); err != nil {
			t.Error(err)
		}
	}
}

// follow passes on the objects of a watch until it ends.
func follow[T any](events watch.Interface, see func(T)) {
	defer events.Stop()
	for event := range events.ResultChan() {
		if object, ok := event.Object.(T); ok && event.Type != watch.Deleted {
			see(object)
		}
	}
}

// writeLog has the holders of the Lease and the versions of Ingresses by their resource
// version. Each map belongs to one goroutine until all have ended.
type writeLog struct {
	holders  map[uint64]string
	statuses map[uint64]*networkingv1.Ingress
}

func (l *writeLog) ingress(object *networkingv1.Ingress) {
	l.statuses[version(object.ResourceVersion)] = object
}

func (l *writeLog) lease(object *coordinationv1.Lease) {
	holder := ""
	if object.Spec.HolderIdentity != nil {
		holder = *object.Spec.HolderIdentity
	}
	l.holders[version(object.ResourceVersion)] = holder
}

func version(text string) uint64 {
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(err) // those of etcd are numbers
	}
	return number
}

// versions are all resource versions.
func (l *writeLog) versions() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for at := range l.holders {
			if !yield(at) {
				return
			}
		}
		for at := range l.statuses {
			if !yield(at) {
				return
			}
		}
	}
}

// check goes through all writes in their order.
func (l *writeLog) check(t *testing.T) error {
	t.Helper()
	holder, handovers, writes := "", 0, map[string]int{}
	before := map[string]string{}
	var problems []error
	for _, at := range slices.Sorted(l.versions()) {
		if now, ok := l.holders[at]; ok {
			if now != holder && now != "" {
				handovers++
			}
			holder = now
			continue
		}
		ingress := l.statuses[at]
		now := addressIn(ingress)
		if now == before[ingress.Name] {
			continue
		}
		manager := statusManager(ingress)
		writes[manager]++
		switch ofEdge := manager == status.FieldManager; {
		case now == "":
			problems = append(problems, fmt.Errorf("the status of %s became empty", ingress.Name))
		case holder == "" || ofEdge == strings.HasPrefix(holder, oldIdentity):
			problems = append(problems, fmt.Errorf("%s wrote the status of %s while the Lease was held by %q", manager, ingress.Name, holder))
		case ofEdge != (now == newAddress):
			problems = append(problems, fmt.Errorf("%s wrote the address %s", manager, now))
		}
		before[ingress.Name] = now
	}
	t.Logf("%d versions of the Lease, %d holders in turn; writes of status: %v", len(l.holders), handovers, writes)
	// ingress-nginx, the edge, ingress-nginx.
	if handovers < 3 || writes[oldManager] < 7 || writes[status.FieldManager] != 4 {
		problems = append(problems, errors.New("the status was not handed over and back"))
	}
	return errors.Join(problems...)
}

// statusManager is the field manager that has the status; "" if none or several have it.
func statusManager(ingress *networkingv1.Ingress) string {
	found := ""
	for _, entry := range ingress.ManagedFields {
		if entry.Subresource != "status" {
			continue
		}
		if found != "" {
			return ""
		}
		found = entry.Manager
	}
	return found
}
