package ingress

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

const (
	// hostileMemory is how much an edge may grow by all hostile objects together.
	hostileMemory = 160 << 20
	// honestDelay is how soon a change of the honest tenant is live among them. The
	// machine may be busy with other things.
	honestDelay = 5 * time.Second
)

// hostile is the scene: an honest tenant and a hostile one share an edge.
type hostile struct {
	*world
	authority *pkitest.Authority
	other     string // the namespace of the other one
	replica   *replica
	edited    *fact
	turn      int
}

// testHostile: objects that are too much or nonsense hurt only themselves.
func (s *suite) testHostile(t *testing.T) {
	cluster := kubetest.Shared(t)
	c := &hostile{
		world: &world{
			cluster: cluster, api: connect(t, cluster), namespace: cluster.Namespace(t),
			addresses: newAddresses(podsOf(cluster, 1)), errors: &collector{},
		},
		authority: pkitest.NewAuthority(t), other: cluster.Namespace(t), edited: newFact("blue"),
	}
	for _, name := range []string{"one", "two", "three", "blue", "green", "vault", "guarded"} {
		c.newService(t, name, 1)
	}
	cluster.Apply(t, c.namespace, continuityManifest+secretManifest("secure", c.authority.Issue(t, "v0", "secure.test")))
	elsewhere := &world{cluster: cluster, api: c.api, namespace: c.other, addresses: c.addresses, errors: c.errors}
	elsewhere.newService(t, "trap", 1)
	c.replica = seat{
		Binary: s.binary, At: hostOf(5, 1), Kubeconfig: cluster.Kubeconfig, Namespace: c.namespace,
		Arguments: []string{"--providers.kubernetesIngress.namespaces=" + c.namespace + "," + c.other},
	}.Start(t)
	c.replica.AwaitReady(t)
	c.play(t)
	c.errors.report(t, "things were wrong")
}

// play lets the hostile tenant attack, and watches the clients of the honest one.
func (c *hostile) play(t *testing.T) {
	asking := &continuity{world: c.world, authority: c.authority, edited: c.edited, shown: newFact("v0")}
	clients := asking.newClients()
	w := &traffic{}
	stop := w.run(requesters(clients, func(port int) dialer { return c.replica.Dialer(port) }, c.authority.Pool))
	c.changeOther(t, "nothing")
	before := memory(t, c.replica)
	for _, attack := range c.attacks(t) {
		c.cluster.Apply(t, c.other, attack.manifest)
		c.changeOther(t, attack.name)
		if attack.follow != nil {
			attack.follow()
			c.changeOther(t, attack.name+", again and again")
		}
	}
	stop()
	w.report(t)
	grown := memory(t, c.replica) - before
	t.Logf("memory grew by %d MB to %d MB", grown>>20, (before+grown)>>20)
	if grown > hostileMemory {
		t.Errorf("memory grew by %d MB, and not more than %d MB is fine", grown>>20, hostileMemory>>20)
	}
	if refusals, err := c.replica.Metric(t.Context(), "slipway_ingress_refusals", ""); err != nil || refusals == 0 {
		t.Errorf("%v refusals (%v)", refusals, err)
	}

	c.replica.Stop(t)
	began := time.Now()
	c.replica = c.replica.Start(t)
	c.replica.AwaitReady(t)
	t.Logf("an edge that starts among them is ready after %v", time.Since(began).Round(time.Millisecond))
	for _, asks := range clients {
		transport := asks.transport(func(port int) dialer { return c.replica.Dialer(port) }, c.authority.Pool)
		if err := asks.ask(t.Context(), transport, 0); err != nil {
			t.Errorf("%s: %v", asks.name, err)
		}
		transport.CloseIdleConnections()
	}
}

// changeOther edits a rule of the honest one, and measures how soon it is live.
func (c *hostile) changeOther(t *testing.T, after string) {
	t.Helper()
	c.turn++
	to := []string{"blue", "green"}[c.turn%2]
	c.edited.changes(to)
	patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/rules/0/http/paths/0/backend/service/name", "value": %q}]`, to)
	began := time.Now()
	must.Get(c.api.Client.NetworkingV1().Ingresses(c.namespace).Patch(t.Context(), "edited", types.JSONPatchType, []byte(patch), metav1.PatchOptions{}))(t)
	asks := &client{method: http.MethodGet, scheme: "http", fresh: true}
	transport := asks.transport(func(port int) dialer { return c.replica.Dialer(port) }, nil)
	eventually(t, honestDelay, func() error {
		got, err := asks.exchange(t.Context(), transport, "edited.test", "nonce")
		if err == nil && got.Service != to {
			err = fmt.Errorf("after %s: %s answers, and not %s", after, got.Service, to)
		}
		return err
	})
	c.edited.changed(to)
	t.Logf("%-40s a change of somebody else is live after %v", after+":", round(time.Since(began)))
}

// attack is something that the other one applies, and then goes on doing.
type attack struct {
	name     string
	manifest string
	follow   func()
}

func (c *hostile) attacks(t *testing.T) []attack {
	t.Helper()
	return []attack{
		{name: "2,000 rules", manifest: manyRules("rules", "", 2000)},
		{name: "2,500 expressions", manifest: manyRules("expressions", "slipway.dev/path-matcher: PathRegexp", 2500)},
		{name: "huge annotations", manifest: hugeAnnotations()},
		{name: "secrets of garbage", manifest: garbageSecrets()},
		{name: "hosts of somebody else", manifest: takenHosts},
		{name: "3,000 endpoints", manifest: manyEndpoints(), follow: func() { c.changeEndpoints(t) }},
	}
}

// manyRules is an Ingress as large as the API server takes it.
func manyRules(name, annotation string, count int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: %s, annotations: {%s}}\nspec:\n  rules:\n", name, annotation)
	for i := range count {
		path := "/"
		if annotation != "" {
			path = fmt.Sprintf("/((a+)+b|[a-z]{1,200}){1,4}(x|y|z)*%d$", i)
		}
		fmt.Fprintf(&text, "  - {host: %s-%d.other.test, http: {paths: [{path: '%s', pathType: ImplementationSpecific, backend: {service: {name: trap, port: {number: 80}}}}]}}\n",
			name, i, path)
	}
	return text.String()
}

// hugeAnnotations are as large as the API server takes them.
func hugeAnnotations() string {
	annotations := map[string]string{
		"slipway.dev/middlewares":                                 strings.Repeat("name-of-a-middleware,", 3000) + "last",
		"slipway.dev/basic-auth":                                  strings.Repeat("{", 50_000),
		"slipway.dev/headers":                                     strings.Repeat("[a, &a b, *a, ", 2000),
		"traefik.ingress.kubernetes.io/router.tls.domains.0.main": strings.Repeat("x.", 10_000),
	}
	for i := range 500 {
		annotations[fmt.Sprintf("slipway.dev/unknown-%d", i)] = "\u202e\x01{{.}}${PATH}"
	}
	object := map[string]any{
		"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
		"metadata": map[string]any{"name": "annotated", "annotations": annotations},
		"spec": map[string]any{"rules": []any{map[string]any{
			"host": "annotated.other.test", "http": map[string]any{"paths": []any{pathTo("/", "trap")}},
		}}},
	}
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // plain values
	}
	return string(text)
}

// garbageSecrets are certificates that are none, for hosts of another tenant.
func garbageSecrets() string {
	garbage := strings.Repeat("-----BEGIN CERTIFICATE-----\n\x00\xff", 10_000)
	return secretManifest("garbage", pkitest.Pair{Chain: garbage, Key: garbage}) + `
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: garbage, annotations: {slipway.dev/basic-auth: garbage}}
spec:
  tls:
  - {hosts: [secure.test, garbage.other.test], secretName: garbage}
  - {hosts: [secure.test], secretName: missing}
  rules:
  - {host: garbage.other.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: trap, port: {number: 80}}}}]}}
`
}

// takenHosts wants the hosts of another tenant, which was there before.
const takenHosts = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: taken}
spec:
  tls: [{hosts: [secure.test], secretName: garbage}]
  defaultBackend: {service: {name: trap, port: {number: 80}}}
  rules:
  - {host: one.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: trap, port: {number: 80}}}}]}}
  - {host: secure.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: trap, port: {number: 80}}}}]}}
  - {host: edited.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: trap, port: {number: 80}}}}]}}
  - {host: '*.test', http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: trap, port: {number: 80}}}}]}}
`

// manyEndpoints is a Service with three full slices, at addresses where nothing
// responds.
func manyEndpoints() string {
	var text strings.Builder
	text.WriteString("apiVersion: v1\nkind: Service\nmetadata: {name: crowd}\nspec: {ports: [{port: 80, targetPort: 8080}]}\n")
	text.WriteString("---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: crowd}\nspec: {rules: [{host: crowd.other.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: crowd, port: {number: 80}}}}]}}]}\n")
	for slice := range 3 {
		fmt.Fprintf(&text, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: crowd-%d, labels: {kubernetes.io/service-name: crowd}}\n"+
			"addressType: IPv4\nports: [{name: '', port: 8080}]\nendpoints: [%s]\n", slice, strings.Join(crowd(slice, 1000), ", "))
	}
	return text.String()
}

// crowd are the endpoints of one slice, as YAML and JSON alike.
func crowd(slice, count int) []string {
	at := netip.AddrFrom4([4]byte{198, 18, byte(8 * slice), 1})
	endpoints := make([]string, count)
	for i := range endpoints {
		endpoints[i] = fmt.Sprintf(`{"addresses": ["%s"]}`, at)
		at = at.Next()
	}
	return endpoints
}

// changeEndpoints writes all of a slice again and again.
func (c *hostile) changeEndpoints(t *testing.T) {
	t.Helper()
	for turn := range 50 {
		patch := fmt.Sprintf(`{"endpoints": [%s]}`, strings.Join(crowd(0, 999+turn%2), ", "))
		err := c.write(t.Context(), func(ctx context.Context) error {
			_, err := c.api.Client.DiscoveryV1().EndpointSlices(c.other).Patch(ctx, "crowd-0", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		})
		must.Do(t, err)
	}
}

// podsOf is a part of the addresses of a cluster that its own Pods do not get:
// there are none.
func podsOf(cluster *kubetest.Cluster, part byte) netip.Prefix {
	base := cluster.PodNetwork.Addr().As4()
	base[3] = 128 + 16*part
	return netip.PrefixFrom(netip.AddrFrom4(base), 28)
}
