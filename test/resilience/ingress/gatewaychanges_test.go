package ingress

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// patch merges a spec into an object of Gateway API.
func (c *gatewayChurn) patch(ctx context.Context, resource, name string, spec map[string]any) error {
	text, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	in := c.api.Dynamic.Resource(schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: resource})
	return c.write(ctx, func(ctx context.Context) error {
		_, err := in.Namespace(c.namespace).Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{})
		return err
	})
}

// edit is a change of what is served.
type edit struct {
	of    *fact
	to    string
	noted *changes
	write func(context.Context) error
	// served is what is served now.
	served func(context.Context) (string, error)
}

// put makes a change and waits until it is served.
func (c *gatewayChurn) put(ctx context.Context, next edit) error {
	began := time.Now()
	next.of.changes(next.to)
	if err := next.write(ctx); err != nil {
		return err
	}
	err := c.until(ctx, func(ctx context.Context) error {
		got, err := next.served(ctx)
		if err == nil && got != next.to {
			err = fmt.Errorf("%q is served and not %q", got, next.to)
		}
		return err
	})
	if err != nil {
		return err
	}
	next.of.changed(next.to)
	next.noted.add(time.Since(began))
	return nil
}

// editRoutes leads the edited route of one protocol after the other to the other
// Service. Each edit adds and removes a rule too, where a route can have several.
func (c *gatewayChurn) editRoutes(ctx context.Context) error {
	for turn := 0; pause(ctx, editPeriod/2); turn++ {
		kind := protocols()[turn%len(protocols())]
		to := kind + "-" + []string{"green", "blue"}[turn/len(protocols())%2]
		rules := []any{map[string]any{"backendRefs": []any{map[string]any{"name": to, "port": 80}}}}
		if kind == "http" {
			rules = append(rules, map[string]any{
				"matches":     []any{map[string]any{"path": map[string]any{"type": "Exact", "value": fmt.Sprintf("/never/%d", turn)}}},
				"backendRefs": []any{map[string]any{"name": "http-one", "port": 80}},
			})
		}
		err := c.put(ctx, edit{
			of: c.edited[kind], to: to, noted: &c.edits,
			write: func(ctx context.Context) error {
				return c.patch(ctx, kind+"routes", "edited", map[string]any{"rules": rules})
			},
			served: func(ctx context.Context) (string, error) { return c.servedBy(ctx, kind) },
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// servedBy is the Service that the edited route of a protocol leads to.
func (c *gatewayChurn) servedBy(ctx context.Context, kind string) (string, error) {
	right := c.edited[kind]
	switch kind {
	case "http":
		return c.hostServedBy(ctx, "edited.test")
	case "grpc":
		conn, err := dialGRPC(c.on(80), "edited.grpc.test")
		if err != nil {
			return "", err
		}
		defer func() { _ = conn.Close() }()
		got, err := call(ctx, conn, "edited.grpc.test", right, right.now())
		return got.Service, err
	case "udp":
		return (&datagramClient{name: "probe", address: c.on(9001), right: right}).exchange(ctx)
	case "tls":
		return (&lineClient{name: "probe", address: c.on(8443), server: "edited.tls.test", trusted: c.authority.Pool, right: right, lines: 1}).exchange(ctx)
	default:
		return (&lineClient{name: "probe", address: c.on(9001), right: right, lines: 1}).exchange(ctx)
	}
}

// hostServedBy is the Service that responds for a host, on a new connection.
func (c *gatewayChurn) hostServedBy(ctx context.Context, host string) (string, error) {
	return serviceAt(ctx, c.on(80), host)
}

// serviceAt is the Service that responds for a host at an address.
func serviceAt(ctx context.Context, address, host string) (string, error) {
	one := &client{method: "GET", scheme: "http", fresh: true}
	got, err := one.exchange(ctx, one.transport(func(int) dialer {
		return func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}, nil), host, "nonce")
	return got.Service, err
}

// changeListeners adds listeners to the Gateway and removes them, and makes and deletes
// another Gateway. The host special.test belongs to a listener of its own meanwhile.
func (c *gatewayChurn) changeListeners(ctx context.Context) error {
	for pause(ctx, editPeriod) {
		if err := c.setListeners(ctx, "http-blue", append(baseListeners(), extraListeners()...)); err != nil {
			return err
		}
		if err := c.until(ctx, c.extrasServe); err != nil {
			return fmt.Errorf("listeners that were added: %w", err)
		}
		if err := c.besideServes(ctx); err != nil {
			return fmt.Errorf("another Gateway: %w", err)
		}
		if err := c.setListeners(ctx, "http-one", baseListeners()); err != nil {
			return err
		}
		if err := c.until(ctx, func(ctx context.Context) error { return refuses(ctx, c.on(8081), c.on(8082)) }); err != nil {
			return fmt.Errorf("listeners that were removed: %w", err)
		}
	}
	return nil
}

// setListeners replaces the listeners of the Gateway, which leads special.test to a
// Service.
func (c *gatewayChurn) setListeners(ctx context.Context, special string, listeners []map[string]any) error {
	return c.put(ctx, edit{
		of: c.special, to: special, noted: &c.listeners,
		write: func(ctx context.Context) error {
			return c.patch(ctx, "gateways", "main", map[string]any{"listeners": listeners})
		},
		served: func(ctx context.Context) (string, error) { return c.hostServedBy(ctx, "special.test") },
	})
}

// until is the function with a bound.
func (c *gatewayChurn) until(ctx context.Context, condition func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	return until(limited, func() error { return condition(limited) })
}

// extrasServe: the listeners that are added serve their routes, and the certificate.
func (c *gatewayChurn) extrasServe(ctx context.Context) error {
	if got, err := serviceAt(ctx, c.on(8081), "extra.test"); err != nil || got != "http-one" {
		return fmt.Errorf("port 8081 is served by %q: %w", got, err)
	}
	if _, err := (&lineClient{name: "extra", address: c.on(8082), right: newFact("tcp-one"), lines: 1}).exchange(ctx); err != nil {
		return err
	}
	got, err := (&datagramClient{name: "extra", address: c.on(8083), right: newFact("udp-one")}).exchange(ctx)
	if err != nil || got != "udp-one" {
		return fmt.Errorf("port 8083 is served by %q: %w", got, err)
	}
	conn, err := (&tls.Dialer{Config: &tls.Config{ServerName: "other.test", RootCAs: c.authority.Pool}}).DialContext(ctx, "tcp", c.on(443))
	if err != nil {
		return err
	}
	return conn.Close()
}

// besideServes makes a Gateway with an address of its own, waits until it serves, and
// deletes it.
func (c *gatewayChurn) besideServes(ctx context.Context) error {
	in := c.api.Dynamic.Resource(schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}).Namespace(c.namespace)
	object := map[string]any{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": map[string]any{"name": "beside"},
		"spec": map[string]any{
			"gatewayClassName": "slipway", "addresses": []any{map[string]any{"value": c.beside.String()}},
			"listeners": []any{map[string]any{"name": "http", "port": 80, "protocol": "HTTP"}},
		},
	}
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	force := true
	err = c.write(ctx, func(ctx context.Context) error {
		_, err := in.Patch(ctx, "beside", types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: "resilience", Force: &force})
		return err
	})
	if err != nil {
		return err
	}
	address := netip.AddrPortFrom(c.beside, 80).String()
	err = c.until(ctx, func(ctx context.Context) error {
		got, err := serviceAt(ctx, address, "one.test")
		if err == nil && got != "http-one" {
			err = fmt.Errorf("%s is served by %q", address, got)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := c.write(ctx, func(ctx context.Context) error { return in.Delete(ctx, "beside", metav1.DeleteOptions{}) }); err != nil {
		return err
	}
	c.listeners.add(0)
	return c.until(ctx, func(ctx context.Context) error { return refuses(ctx, address) })
}

// refuses: no listener takes connections at some addresses.
func refuses(ctx context.Context, addresses ...string) error {
	for _, address := range addresses {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
			return fmt.Errorf("%s: %w", address, errOpen)
		}
	}
	return nil
}

// rotate puts one certificate after the other into the Secret of a listener.
func (c *gatewayChurn) rotate(ctx context.Context) error {
	for turn := 1; turn < len(c.pairs) && pause(ctx, rotatePeriod); turn++ {
		patch, err := json.Marshal(map[string]any{"data": c.pairs[turn].Data()})
		if err != nil {
			return err
		}
		err = c.put(ctx, edit{
			of: c.shown, to: fmt.Sprintf("v%d", turn), noted: &c.turns, served: c.certificate,
			write: func(ctx context.Context) error {
				return c.write(ctx, func(ctx context.Context) error {
					_, err := c.api.Client.CoreV1().Secrets(c.namespace).Patch(ctx, "secure", types.MergePatchType, patch, metav1.PatchOptions{})
					return err
				})
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// certificate is the one that the listener shows.
func (c *gatewayChurn) certificate(ctx context.Context) (string, error) {
	conn, err := (&tls.Dialer{Config: &tls.Config{ServerName: "secure.test", RootCAs: c.authority.Pool}}).DialContext(ctx, "tcp", c.on(443))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

// newListener is a listener of a Gateway.
func newListener(name, protocol string, port int, more ...map[string]any) map[string]any {
	listener := map[string]any{"name": name, "port": port, "protocol": protocol}
	for _, fields := range more {
		for key, value := range fields {
			listener[key] = value
		}
	}
	return listener
}

// certifiedBy are the fields of a listener with a certificate.
func certifiedBy(secret, hostname string) map[string]any {
	return map[string]any{"hostname": hostname, "tls": map[string]any{"certificateRefs": []any{map[string]any{"name": secret}}}}
}

// baseListeners are those that the Gateway has all the time.
func baseListeners() []map[string]any {
	return []map[string]any{
		newListener("http", "HTTP", 80),
		newListener("https", "HTTPS", 443, certifiedBy("secure", "secure.test")),
		newListener("tls", "TLS", 8443, map[string]any{"tls": map[string]any{"mode": "Passthrough"}}),
		newListener("tcp", "TCP", 9000), newListener("tcp-edited", "TCP", 9001),
		newListener("udp", "UDP", 9000), newListener("udp-edited", "UDP", 9001),
	}
}

// extraListeners come and go: ports of their own, and hosts of ports that stay.
func extraListeners() []map[string]any {
	return []map[string]any{
		newListener("extra-http", "HTTP", 8081), newListener("extra-tcp", "TCP", 8082), newListener("extra-udp", "UDP", 8083),
		newListener("special", "HTTP", 80, map[string]any{"hostname": "special.test"}),
		newListener("other", "HTTPS", 443, certifiedBy("other", "other.test")),
	}
}

// listenersText are listeners for a manifest.
func listenersText(listeners []map[string]any) string {
	text, err := json.Marshal(listeners)
	if err != nil {
		panic(err) // plain values
	}
	return string(text)
}

// routeText is a route of the Gateway: its kind, name, listeners, hosts and Service.
func routeText(kind, name, sections, hosts, service string) string {
	var parents []string
	for section := range strings.SplitSeq(sections, " ") {
		parents = append(parents, "{name: main, sectionName: "+section+"}")
	}
	if slices.Contains(strings.Split(hosts, ", "), "one.test") {
		parents = append(parents, "{name: beside}")
	}
	if hosts != "" {
		hosts = "hostnames: [" + hosts + "], "
	}
	return fmt.Sprintf("---\napiVersion: gateway.networking.k8s.io/v1\nkind: %s\nmetadata: {name: %s}\nspec: {parentRefs: [%s], %srules: [{backendRefs: [{name: %s, port: 80}]}]}\n",
		kind, name, strings.Join(parents, ", "), hosts, service)
}

// gatewayManifest is what is served, besides Services and certificates.
var gatewayManifest = `apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: slipway}
spec: {controllerName: slipway.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: main}
spec: {gatewayClassName: slipway, addresses: [{value: %s}], listeners: %s}
` + routeText("HTTPRoute", "steady", "http", "one.test", "http-one") +
	routeText("HTTPRoute", "secure", "https", "secure.test", "http-one") +
	routeText("HTTPRoute", "edited", "http", "edited.test", "http-blue") +
	routeText("HTTPRoute", "special", "http", "special.test", "http-one") +
	routeText("HTTPRoute", "special-own", "special", "special.test", "http-blue") +
	routeText("HTTPRoute", "extra", "extra-http", "extra.test", "http-one") +
	routeText("GRPCRoute", "steady", "http", "one.grpc.test", "grpc-one") +
	routeText("GRPCRoute", "edited", "http", "edited.grpc.test", "grpc-blue") +
	routeText("TLSRoute", "steady", "tls", "one.tls.test", "tls-one") +
	routeText("TLSRoute", "edited", "tls", "edited.tls.test", "tls-blue") +
	routeText("TCPRoute", "steady", "tcp extra-tcp", "", "tcp-one") +
	routeText("TCPRoute", "edited", "tcp-edited", "", "tcp-blue") +
	routeText("UDPRoute", "steady", "udp extra-udp", "", "udp-one") +
	routeText("UDPRoute", "edited", "udp-edited", "", "udp-blue")
