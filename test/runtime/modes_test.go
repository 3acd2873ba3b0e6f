package runtime

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/api/gatewayapi"
	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// R51, R52, R53, R54, R123: the same runtime through an Ingress of the edge, through an
// HTTPRoute of a Gateway of the same edge, as a mesh at the address of the first, and through
// the tunnel again: other options of the agent, and no other registration. The webhooks follow.
func (g *stage) testModes(t *testing.T) {
	m := g.east
	before := must.Get(m.get(t.Context()))(t)
	ingress, route := m.startEdge(t)
	hook := g.git.provider.Hooks("team/apps")[0]
	for _, chosen := range []struct {
		mode    platformv1.AccessMode
		address string
		args    []string
	}{
		{platformv1.AccessMode_ACCESS_MODE_INGRESS, ingress, []string{"--access.mode=ingress", "--access.url=" + ingress, "--access.ingressClass=slipway"}},
		{platformv1.AccessMode_ACCESS_MODE_HTTP_ROUTE, route, []string{"--access.mode=httpRoute", "--access.url=" + route}},
		{platformv1.AccessMode_ACCESS_MODE_MESH, ingress, []string{"--access.mode=mesh", "--access.url=" + ingress}},
		{platformv1.AccessMode_ACCESS_MODE_TUNNEL, "", []string{"--access.mode=tunnel"}},
	} {
		address, direct := chosen.address, chosen.mode != platformv1.AccessMode_ACCESS_MODE_TUNNEL
		m.process.Stop(t)
		m.start(t, chosen.args...)
		after := m.await(t, func(found *platformv1.Runtime) error {
			if found.GetAccessMode() != chosen.mode || direct && found.GetAccessUrl() != address || !direct && (found.GetAccessUrl() == ingress || found.GetAccessUrl() == route) {
				return fmt.Errorf("the runtime is reached by %s at %q", found.GetAccessMode(), found.GetAccessUrl())
			}
			return nil
		})
		if after.GetId() != before.GetId() || !after.GetRegisteredAt().AsTime().Equal(before.GetRegisteredAt().AsTime()) {
			t.Errorf("the runtime was %v and is %v", before, after)
		}
		m.reached(t)
		m.stream(t)
		target := hook.URL
		if direct {
			target = address + "/webhooks/east/apps"
			if status := g.git.deliver(t, hook, g.git.apps.Head(t), g.git.apps.Head(t)); status != http.StatusNotFound {
				t.Errorf("the host of a tunnel that is closed answers %d", status)
			}
		}
		g.pushTo(t, target, chosen.mode.String())
	}
}

// pushTo waits until the provider knows the address of the runtime, and pushes.
func (g *stage) pushTo(t *testing.T, address, value string) {
	t.Helper()
	programs.Eventually(t, func(context.Context) error {
		if hooks := g.git.provider.Hooks("team/apps"); len(hooks) != 1 || hooks[0].URL != address {
			return fmt.Errorf("the webhooks are %v, not the one at %s", hooks, address)
		}
		return nil
	})
	commit := g.git.push(t, value)
	programs.Eventually(t, func(ctx context.Context) error {
		found, err := g.east.value(ctx)
		if err == nil && found != value {
			err = fmt.Errorf("the cluster has %q, not %q", found, value)
		}
		return err
	})
	g.east.awaitListed(t, "web", commit)
}

// stream sees an Application change through the platform.
func (m *member) stream(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := m.stage.admin.of(m.name).applications.WatchApplication(ctx, connect.NewRequest(&runtimev1.WatchApplicationRequest{Ref: m.ref("web")}))
	if err != nil || !stream.Receive() {
		t.Fatalf("no stream: %v", err)
	}
	defer stream.Close()
	if !strings.Contains(string(stream.Msg().GetApplication().GetManifest()), `"web"`) {
		t.Errorf("the stream has %v", stream.Msg())
	}
}

// startEdge serves the router of the runtime by the Ingress and by the HTTPRoute that its
// settings give, and gives the URLs of both.
func (m *member) startEdge(t *testing.T) (ingress, route string) {
	t.Helper()
	host, port, err := net.SplitHostPort(m.router)
	must.Do(t, err)
	settings := mode.Settings{
		Runtime: m.name, Namespace: m.namespace,
		Ingress: mode.IngressSettings{Enabled: true, Hosts: []string{"127.0.0.1"}, ClassName: "slipway", Protocol: "http"},
	}
	if chosen, findings := mode.Resolve(settings); chosen != mode.Ingress {
		t.Fatalf("the mode is %v: %v", chosen, findings)
	}
	text := must.Get(mode.YAML(mode.Objects(settings, mode.Ingress)...))(t)
	gateway := freeAddress(t, "127.0.0.1")
	_, gatewayPort, err := net.SplitHostPort(gateway)
	must.Do(t, err)
	m.cluster.Define(t, string(must.Get(gatewayapi.Text())(t)))
	settings.Ingress.Enabled = false
	settings.HTTPRoute = mode.HTTPRouteSettings{Enabled: true, Hostnames: []string{"localhost"}, Protocol: "http", ParentRefs: []mode.ParentRef{{Name: "public"}}}
	if chosen, findings := mode.Resolve(settings); chosen != mode.HTTPRoute {
		t.Fatalf("the mode is %v: %v", chosen, findings)
	}
	text += "---\n" + must.Get(mode.YAML(mode.Objects(settings, mode.HTTPRoute)...))(t)
	m.cluster.Apply(t, m.namespace, fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: slipway}
spec: {controllerName: slipway.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public}
spec:
  gatewayClassName: slipway
  listeners: [{name: http, port: %s, protocol: HTTP}]
`, gatewayPort))
	m.cluster.Apply(t, m.namespace, fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: slipway}
spec: {controller: slipway.dev/ingress-controller}
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {ports: [{port: 80, targetPort: %[3]s}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: "", port: %[3]s}]
endpoints: [{addresses: [%[2]q], conditions: {ready: true}}]
---
`, mode.RouterService, host, port)+text)
	address := freeAddress(t, "127.0.0.1")
	m.stage.runs(m.stage.launch(m.stage.t, "the edge", []string{"KUBECONFIG=" + m.cluster.Kubeconfig, "POD_NAMESPACE=" + m.namespace},
		"edge", "--log.format=json", "--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0",
		"--providers.kubernetesIngress", "--providers.kubernetesIngress.ingressClass=slipway", "--entryPoints.web.address="+address,
		"--providers.kubernetesGateway.addresses=127.0.0.1"))
	ingress, route = "http://"+address, "http://localhost:"+gatewayPort
	for _, url := range []string{ingress, route} {
		programs.Eventually(t, func(ctx context.Context) error {
			response, err := m.stage.ask(t, "", http.MethodPost, url+infoPath, "{}")
			if err != nil {
				return err
			}
			_ = response.Body.Close()
			if response.Header.Get(wire.RouterHeader) != m.name || response.StatusCode != http.StatusUnauthorized {
				return fmt.Errorf("the edge responds with %s at %s, from the router %q", response.Status, url, response.Header.Get(wire.RouterHeader))
			}
			return nil
		})
	}
	return ingress, route
}
