package engine_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

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
			line += " " + cmp.Or(ref.Backend.Name+ref.Backend.Variant, fmt.Sprint(ref.Status)) + fmt.Sprintf("*%d", ref.Weight)
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
		Traefik:     &resolve.TraefikOptions{Syntax: "v3", TCPEntryPoints: []string{"database"}},
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
	put("shop", "e", 1, "routes: [{match: \"HostSNI(`e.example`)\", services: [{name: web, port: 80, tls: true}]}]\ntls: {}")
	put("team", "f", 2, "routes: [{match: \"HostSNI(`a.example`)\", services: [{name: web, port: 80}]}]\ntls: {passthrough: true}\nentryPoints: [websecure]")
	w.put(w.object(snapshot.IngressRouteUDP, "shop", "u", 1, "routes: [{services: [{name: web, port: 80}]}]"))
	want := strings.Join([]string{
		`IngressRouteTCP shop/a[0][0] "a.example" passthrough 0 websecure of shop inFlight webtcp*3 503*1`,
		`IngressRouteTCP shop/a[0][1] "*.b.example" passthrough 0 websecure of shop inFlight webtcp*3 503*1`,
		`IngressRouteTCP shop/b[0][0] "" plain 0 database of shop webtcp*1`,
		`IngressRouteTCP shop/e[0][0] "e.example" terminate 0 database,web,websecure of shop 503*1`,
	}, "\n")
	if got := w.streams(); got != want {
		t.Errorf("the table has\n%s\nwant\n%s", got, want)
	}
	for name, want := range map[string]string{
		"a": "spec.routes[0].services[1]: there is no Service shop/gone", "c": "providers.kubernetesCRD.tcpEntryPoints", "d": "write HostSNI(`*`), or set tls",
		"e": "spec.routes[0].services[0].tls: is not supported",
	} {
		if got := w.refused(snapshot.IngressRouteTCP, "shop", name); !strings.Contains(got, want) {
			t.Errorf("%s is refused with %q, want %q", name, got, want)
		}
	}
	if got := w.refused(snapshot.IngressRouteTCP, "team", "f"); !strings.Contains(got, "the host a.example belongs to namespace shop") {
		t.Errorf("f is refused with %q", got)
	}
	if got := w.refused(snapshot.IngressRouteUDP, "shop", "u"); !strings.Contains(got, "UDPRoute of Gateway API") {
		t.Errorf("u is refused with %q", got)
	}

	open := traefikTown(t, resolve.HostSharingOpen, false)
	options.HostSharing = resolve.HostSharingOpen
	open.Engine = engine.New(open.facts, options)
	open.put(w.object(snapshot.IngressRouteTCP, "shop", "a", 1, "routes: [{match: \"HostSNI(`a.example`)\", services: [{name: web, port: 80}]}]\ntls: {passthrough: true}\nentryPoints: [websecure]"))
	if tcp := open.book.Table().TCPRoutes; len(tcp) != 1 || tcp[0].Priority != 20 || tcp[0].HostOwner != (route.HostOwner{}) {
		t.Errorf("with open hosts: %+v", tcp)
	}
}
