package engine_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// streams lists the TCP routes of the table.
func (w *town) streams() string {
	var lines []string
	for _, tcp := range w.book.Table().TCPRoutes {
		line := fmt.Sprintf("%s %q %s %d %s of %s", tcp.ID, tcp.ServerName, tcp.TLS, tcp.Priority, strings.Join(tcp.EntryPoints, ","), tcp.HostOwner.Namespace)
		for i := range tcp.Policies {
			name, _ := tcp.Policies[i].Named()
			line += " " + name
		}
		for _, ref := range tcp.Backends {
			variant, _, _ := strings.Cut(ref.Backend.Variant, "-")
			line += " " + cmp.Or(ref.Backend.Name+variant, fmt.Sprint(ref.Status)) + fmt.Sprintf("*%d", ref.Weight)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestIngressRouteTCP: routes become TCP routes by mode and server name, whose names belong
// to namespaces; a fault closes connections.
func TestIngressRouteTCP(t *testing.T) {
	w := traefikTown(t, resolve.HostSharingDeny, false)
	options := resolve.Options{
		Traefik:     &resolve.TraefikOptions{Syntax: "v3", TCPEntryPoints: []string{"database"}, UDPEntryPoints: []string{"dns", "game"}},
		EntryPoints: map[string]bool{"web": false, "websecure": true, "database": false},
	}
	w.Engine = engine.New(w.facts, options)
	put := func(namespace, name string, second int64, spec string) {
		w.put(w.object(snapshot.IngressRouteTCP, namespace, name, second, spec))
	}
	w.put(w.object(snapshot.TraefikMiddlewareTCP, "shop", "few", 0, "inFlightConn: {amount: 7}"))
	put("shop", "a", 1, "routes: [{match: \"HostSNI(`a.example`) || HostSNI(`*.b.example`)\", priority: 5, middlewares: [{name: few}], services: [{name: web, port: 80, weight: 3}, {name: gone, port: 80}]}]\ntls: {passthrough: true}\nentryPoints: [websecure]")
	put("shop", "b", 1, "routes: [{match: \"HostSNI(`*`)\", services: [{name: web, port: 80}]}]\nentryPoints: [database]")
	put("shop", "c", 1, "routes: [{match: \"HostSNI(`*`)\", services: [{name: web, port: 80}]}]")
	put("shop", "d", 1, "routes: [{match: \"HostSNI(`d.example`)\", services: [{name: web, port: 80}]}]")
	put("shop", "e", 1, "routes: [{match: \"HostSNI(`e.example`)\", services: [{name: web, port: 80, proxyProtocol: {version: 2}}]}]\ntls: {}")
	put("shop", "g", 1, "routes: [{match: \"HostSNI(`g.example`)\", services: [{name: web, port: 80, tls: true, serversTransport: secure}]}]\ntls: {}\nentryPoints: [websecure]")
	w.put(w.object(snapshot.TraefikServersTransportTCP, "shop", "secure", 0, "dialTimeout: 3s\ndialKeepAlive: 5s\ntls: {serverName: db.internal}"))
	put("team", "f", 2, "routes: [{match: \"HostSNI(`a.example`)\", services: [{name: web, port: 80}]}]\ntls: {passthrough: true}\nentryPoints: [websecure]")
	names := serviceNamed("names")
	names.Spec.Ports = []corev1.ServicePort{{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, {Name: "dns-tcp", Port: 53}}
	w.put(names)
	udp := func(name, spec string) { w.put(w.object(snapshot.IngressRouteUDP, "shop", name, 1, spec)) }
	udp("u", "routes: [{services: [{name: names, port: 53}, {name: names, port: dns-tcp}]}]")
	udp("v", "entryPoints: [web, game]\nroutes: [{services: [{name: names, port: dns, weight: 2}]}]")
	udp("x", "entryPoints: [game]\nroutes: [{services: [{name: names, port: dns}]}, {services: [{name: names, port: dns}]}]")
	want := strings.Join([]string{
		`IngressRouteTCP shop/a[0][0] "a.example" passthrough 0 websecure of shop inFlight webtcp*3 503*1`,
		`IngressRouteTCP shop/a[0][1] "*.b.example" passthrough 0 websecure of shop inFlight webtcp*3 503*1`,
		`IngressRouteTCP shop/b[0][0] "" plain 0 database of shop webtcp*1`,
		`IngressRouteTCP shop/e[0][0] "e.example" terminate 0 database,web,websecure of shop 503*1`,
		`IngressRouteTCP shop/g[0][0] "g.example" terminate 0 websecure of shop webtraefik*1`,
		`IngressRouteUDP shop/u[0][0] "" plain 0 dns,game of shop namesudp*1 503*1`,
		`IngressRouteUDP shop/v[0][0] "" plain 0 game of shop namesudp*1`,
		`IngressRouteUDP shop/x[0][0] "" plain 0 game of shop 503*1`,
	}, "\n")
	if got := w.streams(); got != want {
		t.Errorf("the table has\n%s\nwant\n%s", got, want)
	}
	for name, want := range map[string]string{
		"a": "spec.routes[0].services[1]: there is no Service shop/gone", "c": "providers.kubernetesCRD.tcpEntryPoints", "d": "write HostSNI(`*`), or set tls",
		"e": "spec.routes[0].services[0].proxyProtocol: is not supported",
	} {
		if got := w.refused(snapshot.IngressRouteTCP, "shop", name); !strings.Contains(got, want) {
			t.Errorf("%s is refused with %q, want %q", name, got, want)
		}
	}
	if got := w.refused(snapshot.IngressRouteTCP, "team", "f"); !strings.Contains(got, "the host a.example belongs to namespace shop") {
		t.Errorf("f is refused with %q", got)
	}
	for name, want := range map[string]string{
		"u": "the Service shop/names has no port \"dns-tcp\"", "v": "set entryPoints.web.address to an address such as :53/udp", "x": "nothing in a datagram chooses one",
	} {
		if got := w.refused(snapshot.IngressRouteUDP, "shop", name); !strings.Contains(got, want) {
			t.Errorf("%s is refused with %q, want %q", name, got, want)
		}
	}
	encrypted := w.book.Table().TCPRoutes[slices.IndexFunc(w.book.Table().TCPRoutes, func(tcp *route.TCPRoute) bool { return tcp.ID.Name == "g" })]
	if wait := encrypted.Timeouts.Connect; wait != route.Duration(3*time.Second) {
		t.Errorf("the timeout is %s", time.Duration(wait))
	}
	for _, one := range w.book.Table().Backends {
		if one.ID == encrypted.Backends[0].Backend && (one.Transport.Protocol != route.ProtocolTLS || one.Transport.TLS.ServerName != "db.internal") {
			t.Errorf("the backend has %+v", one.Transport)
		}
	}

	open := traefikTown(t, resolve.HostSharingOpen, false)
	options.HostSharing = resolve.HostSharingOpen
	open.Engine = engine.New(open.facts, options)
	open.put(w.object(snapshot.IngressRouteTCP, "shop", "a", 1, "routes: [{match: \"HostSNI(`a.example`)\", services: [{name: web, port: 80}]}]\ntls: {passthrough: true}\nentryPoints: [websecure]"))
	if tcp := open.book.Table().TCPRoutes; len(tcp) != 1 || tcp[0].Priority != 20 || tcp[0].HostOwner != (route.HostOwner{}) {
		t.Errorf("with open hosts: %+v", tcp)
	}
}

// TestDatagramsOfOneEntryPoint: of two IngressRouteUDPs for an entry point the younger one is
// refused there, until the older one leaves.
func TestDatagramsOfOneEntryPoint(t *testing.T) {
	w := traefikTown(t, resolve.HostSharingDeny, false)
	w.Engine = engine.New(w.facts, resolve.Options{
		Traefik: &resolve.TraefikOptions{Syntax: "v3", UDPEntryPoints: []string{"dns", "game"}}, EntryPoints: map[string]bool{"web": false},
	})
	names := serviceNamed("names")
	names.Spec.Ports = []corev1.ServicePort{{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}
	w.put(names)
	const services = "routes: [{services: [{name: names, port: 53}]}]\nentryPoints: "
	w.put(w.object(snapshot.IngressRouteUDP, "shop", "young", 2, services+"[dns, game]"))
	w.put(w.object(snapshot.IngressRouteUDP, "shop", "other", 1, services+"[game]"))
	if got := w.refused(snapshot.IngressRouteUDP, "shop", "young"); !strings.Contains(got, "spec.entryPoints: the entry point game passes datagrams to IngressRouteUDP shop/other") || strings.Contains(got, "dns") {
		t.Errorf("young is refused with %q", got)
	}
	oldKind, _ := snapshot.OldTraefikKind(snapshot.IngressRouteUDP)
	w.put(w.object(oldKind, "shop", "old", 0, services+"[dns]"))
	if got := w.refused(snapshot.IngressRouteUDP, "shop", "young"); !strings.Contains(got, "shop/old") || !strings.Contains(got, "shop/other") {
		t.Errorf("young is refused with %q", got)
	}
	if got := w.refused(oldKind, "shop", "old") + w.refused(snapshot.IngressRouteUDP, "shop", "other"); got != "" {
		t.Errorf("the older ones are refused with %q", got)
	}
	w.remove(snapshot.IngressRouteUDP, "shop", "other")
	w.remove(oldKind, "shop", "old")
	if got := w.refused(snapshot.IngressRouteUDP, "shop", "young"); got != "" {
		t.Errorf("alone it is refused with %q", got)
	}
}
