package ingress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// gatewayProgram is how much there is of everything, at least.
type gatewayProgram struct {
	lasts                       time.Duration
	edits, listeners, rotations int
}

// newGatewayProgram takes the time from CHURN, if it is set.
func newGatewayProgram(t *testing.T) gatewayProgram {
	t.Helper()
	program := gatewayProgram{lasts: 15 * time.Second, edits: 15, listeners: 5, rotations: 5}
	if long() {
		program = gatewayProgram{lasts: 3 * time.Minute, edits: 200, listeners: 100, rotations: 50}
	}
	if text := os.Getenv("CHURN"); text != "" {
		program.lasts = must.Get(time.ParseDuration(text))(t)
	}
	return program
}

// podsOfRoute is the number of pods of each Service.
const podsOfRoute = 3

// gatewayChurn is the scene: a Gateway with listeners of all protocols, and a
// Service and an edited route for each.
type gatewayChurn struct {
	*world
	program   gatewayProgram
	authority *pkitest.Authority
	pairs     []pkitest.Pair
	// address is that of the Gateway, and beside that of one that comes and goes.
	address, beside netip.Addr

	// edited has the Service that the edited route of each protocol leads to, and special
	// that of a host which a listener of its own takes. shown is the certificate.
	edited         map[string]*fact
	special, shown *fact
	datagrams      []*datagramClient

	edits, listeners, turns changes
}

// protocols are those that routes are edited of.
func protocols() []string { return []string{"http", "grpc", "tls", "tcp", "udp"} }

// testGateways: while routes, listeners, certificates and endpoints change, every
// request of every protocol is served, by a pod that may serve it.
func (s *suite) testGateways(t *testing.T) {
	c := newGatewayChurn(t)
	at := seat{Binary: s.binary, At: hostOf(2, 100), Kubeconfig: c.cluster.Kubeconfig, Namespace: c.namespace,
		Arguments: []string{"--providers.kubernetesGateway.addresses=" + netip.PrefixFrom(hostOf(2, 0), 28).String()}}
	edge := at.Start(t)
	edge.AwaitReady(t)
	all := c.requesters(t)
	for _, r := range all {
		eventually(t, patience, func() error { return r.ask(t.Context(), 0) })
	}
	for _, client := range c.datagrams {
		client.lost.Store(0) // before it was ready
	}
	w := &traffic{}
	stop := w.run(all)
	began := time.Now()
	end := disturb(c.errors, c.churn, c.editRoutes, c.changeListeners, c.rotate)
	c.conduct(t, edge, began)
	end() // before the traffic, so that it sees the last change too
	stop()
	t.Logf("in %v: %s; %s; %s", time.Since(began).Round(time.Second),
		c.edits.String("edits of routes"), c.listeners.String("changes of listeners"), c.turns.String("certificates"))
	for _, client := range c.datagrams {
		lost, received := client.lost.Load(), client.received.Load()
		t.Logf("%s: %d datagrams were lost for good, %d not", client.name, lost, received)
		if lost > received {
			t.Errorf("%s: most datagrams were lost", client.name)
		}
	}
	w.report(t)
	c.errors.report(t, "things were wrong")
}

// conduct waits until there was enough of everything.
func (c *gatewayChurn) conduct(t *testing.T, edge *replica, began time.Time) {
	t.Helper()
	enough := func() bool {
		return time.Since(began) >= c.program.lasts && c.edits.count() >= c.program.edits &&
			c.listeners.count() >= c.program.listeners && c.turns.count() >= c.program.rotations
	}
	for !enough() && pause(t.Context(), lookAgain) {
		must.Do(t, edge.Alive())
		if time.Since(began) > 5*c.program.lasts+patience {
			t.Errorf("too little happens: %d edits, %d changes of listeners, %d certificates", c.edits.count(), c.listeners.count(), c.turns.count())
			return
		}
	}
}

func newGatewayChurn(t *testing.T) *gatewayChurn {
	t.Helper()
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	cluster.DefineFiles(t, filepath.Join(programs.ModuleFolder(t, "sigs.k8s.io/gateway-api"), "config", "crd", "standard", "gateway.networking.k8s.io_[a-u]*.yaml"))
	c := &gatewayChurn{
		world: &world{
			cluster: cluster, api: connect(t, cluster), namespace: cluster.Namespace(t),
			addresses: newAddresses(cluster.PodNetwork), errors: &collector{},
		},
		program: newGatewayProgram(t), authority: pkitest.NewAuthority(t), address: hostOf(2, 1), beside: hostOf(2, 2),
		edited: map[string]*fact{}, special: newFact("http-one"), shown: newFact("v0"),
	}
	// A rotation takes longer than its pause, so these are enough.
	for i := range c.program.rotations + int(c.program.lasts/rotatePeriod) + 1 {
		c.pairs = append(c.pairs, c.authority.Issue(t, fmt.Sprintf("v%d", i), "secure.test"))
	}
	for _, kind := range protocols() {
		c.edited[kind] = newFact(kind + "-blue")
		for _, name := range []string{"one", "blue", "green"} {
			c.newStreamService(t, kind, kind+"-"+name)
		}
	}
	manifests := fmt.Sprintf(gatewayManifest, c.address, listenersText(baseListeners()))
	c.cluster.Apply(t, c.namespace, manifests+secretManifest("secure", c.pairs[0])+secretManifest("other", c.authority.Issue(t, "other.test")))
	return c
}

// newStreamService makes a Service of a protocol.
func (c *gatewayChurn) newStreamService(t *testing.T, kind, name string) {
	t.Helper()
	network, serve := "TCP", protocol(serveHTTP)
	switch kind {
	case "grpc":
		serve = serveGRPC
	case "tls":
		serve = serveTLS(c.authority.Sign(t, pkitest.Certificate{Names: []string{"one.tls.test", "edited.tls.test"}, Subject: name}).TLS(t))
	case "tcp":
		serve = serveLines
	case "udp":
		network, serve = "UDP", serveDatagrams
	}
	c.newServiceOf(t, name, network, serve, podsOfRoute)
}

// requesters send requests of all protocols.
func (c *gatewayChurn) requesters(t *testing.T) []requester {
	t.Helper()
	facts := map[string]*fact{}
	for _, kind := range protocols() {
		facts[kind] = newFact(kind + "-one")
	}
	of := func(host string, right *fact) func(int) (string, *fact) {
		return func(int) (string, *fact) { return host, right }
	}
	all := requesters([]*client{
		{name: "kept", method: http.MethodGet, scheme: "http", host: of("one.test", facts["http"])},
		{name: "fresh", method: http.MethodPost, scheme: "http", host: of("one.test", facts["http"]), fresh: true},
		{name: "slow", method: http.MethodGet, scheme: "http", host: of("one.test", facts["http"]), hold: 700 * time.Millisecond},
		{name: "edited", method: http.MethodGet, scheme: "http", host: of("edited.test", c.edited["http"])},
		{name: "special", method: http.MethodGet, scheme: "http", host: of("special.test", c.special)},
		{name: "secure h2", method: http.MethodGet, scheme: "https", host: of("secure.test", facts["http"]), h2: true},
		{name: "handshake", method: http.MethodGet, scheme: "https", host: of("secure.test", facts["http"]), certificate: c.shown, fresh: true},
	}, c.dial, c.authority.Pool)
	all = append(all, must.Get(newCaller("grpc", c.on(80), "one.grpc.test", facts["grpc"]))(t),
		must.Get(newCaller("grpc edited", c.on(80), "edited.grpc.test", c.edited["grpc"]))(t))
	for _, one := range []*lineClient{
		{name: "tls", address: c.on(8443), server: "one.tls.test", right: facts["tls"], lines: 1},
		{name: "tls edited", address: c.on(8443), server: "edited.tls.test", right: c.edited["tls"], lines: 1},
		{name: "tcp", address: c.on(9000), right: facts["tcp"], lines: 1},
		{name: "tcp kept", address: c.on(9000), right: facts["tcp"], lines: 5, gap: 200 * time.Millisecond},
		{name: "tcp edited", address: c.on(9001), right: c.edited["tcp"], lines: 1},
	} {
		one.trusted = c.authority.Pool
		all = append(all, one.requester())
	}
	c.datagrams = []*datagramClient{
		{name: "udp", address: c.on(9000), right: facts["udp"]},
		{name: "udp kept", address: c.on(9000), right: facts["udp"], kept: true},
		{name: "udp edited", address: c.on(9001), right: c.edited["udp"]},
		{name: "udp edited kept", address: c.on(9001), right: c.edited["udp"], kept: true},
	}
	for _, one := range c.datagrams {
		all = append(all, one.requester())
	}
	return all
}

// on is a port of the Gateway.
func (c *gatewayChurn) on(port uint16) string { return netip.AddrPortFrom(c.address, port).String() }

// dial leads HTTP clients to the listeners of the Gateway.
func (c *gatewayChurn) dial(port int) dialer {
	address := c.on(80)
	if port == edgeprocess.TLSPort {
		address = c.on(443)
	}
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
}

// errOpen is why a listener that was removed is not gone yet.
var errOpen = errors.New("the listener takes connections")
