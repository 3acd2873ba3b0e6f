package traefik

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/annotation"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// TCPRouteObject is the spec of an IngressRouteTCP. References in it are not resolved.
type TCPRouteObject struct {
	EntryPoints []string
	Routes      []Route
	// TLS is nil for connections that are passed on as they are.
	TLS *RouteTLS
	// Faults are those of fields that concern all routes.
	Faults []refusal.Refusal
}

// IngressRouteTCP decodes the spec of an IngressRouteTCP.
func IngressRouteTCP(object *snapshot.Resource) TCPRouteObject {
	found := &findings{}
	r := newRecord("spec", object.Spec, found)
	decoded := TCPRouteObject{EntryPoints: r.texts("entryPoints"), TLS: routeTLS(r, true)}
	for i, value := range r.list("routes") {
		field := fmt.Sprintf("spec.routes[%d]", i)
		fields, ok := value.(map[string]any)
		if !ok {
			r.wrong(fmt.Sprintf("routes[%d]", i), "an object")
			continue
		}
		decoded.Routes = append(decoded.Routes, tcpRoute(newRecord(field, fields, &findings{}), field))
	}
	r.rest()
	decoded.Faults = found.faults
	return decoded
}

// tcpRoute decodes one route of connections.
func tcpRoute(r *record, field string) Route {
	decoded := Route{Field: field, Rule: r.text("match"), Syntax: syntax(r), Priority: priority(r)}
	for _, used := range r.inners("middlewares") {
		decoded.Middlewares = append(decoded.Middlewares, objectReference(used))
		used.rest()
	}
	for _, used := range r.inners("services") {
		decoded.Services = append(decoded.Services, tcpService(used))
	}
	r.rest()
	decoded.Faults = r.found.faults
	return decoded
}

// streamService decodes the fields that services of connections and of datagrams share.
func streamService(r *record) ServiceUse {
	use := ServiceUse{Field: r.path, Name: r.text("name"), Port: r.textOrNumber("port"), Weight: weight(r)}
	if namespace := r.text("namespace"); namespace != "" {
		use.Name = namespace + "/" + use.Name
	}
	if strings.Contains(use.Name, "@") {
		r.fault("name", refusal.Unsupported, "%q names a provider: write the name of a Service of the cluster", brief(use.Name))
	}
	return use
}

// tcpService decodes one service of a route of connections. Only one with settings has a
// backend of its own.
func tcpService(r *record) ServiceUse {
	use := streamService(r)
	// Both directions of a connection end on their own.
	r.ignore("terminationDelay")
	r.refuse("proxyProtocol", noProxyProtocol)
	settings := annotation.Service{Scheme: annotation.SchemeHTTP, NativeLB: flagIfSet(r, "nativeLB"), NodePortLB: flagIfSet(r, "nodePortLB")}
	encrypted, transport := r.flag("tls"), r.text("serversTransport")
	if encrypted {
		settings.Scheme = annotation.SchemeHTTPS // bytes in TLS; there is no HTTP in them
	}
	if transport != "" {
		settings.Transport = &annotation.Name{Kind: snapshot.TraefikServersTransportTCP, Name: transport, Field: r.at("serversTransport")}
	}
	r.rest()
	if encrypted || transport != "" || settings.NativeLB != nil || settings.NodePortLB != nil {
		use.Settings = &settings
	}
	return use
}

// MiddlewareTCP returns the policies of a MiddlewareTCP, which does one thing.
func MiddlewareTCP(object *snapshot.Resource) ([]route.Policy, []refusal.Refusal) {
	found := &findings{}
	r := newRecord("spec", object.Spec, found)
	kinds := slices.DeleteFunc(slices.Sorted(maps.Keys(object.Spec)), func(name string) bool { return object.Spec[name] == nil })
	if len(kinds) != 1 {
		found.add("spec", refusal.Invalid, "a MiddlewareTCP does one thing, and this one has %d: make one of each", len(kinds))
		return nil, found.faults
	}
	var policy *route.Policy
	switch kind := kinds[0]; kind {
	case "ipAllowList", "ipWhiteList":
		policy = addresses(r.inner(kind))
	case "inFlightConn":
		policy = connections(r.inner(kind))
	default:
		r.fault(kind, refusal.Unsupported, "no such MiddlewareTCP is known: correct its name, or remove it")
	}
	r.rest()
	if len(found.faults) > 0 {
		return nil, found.faults
	}
	policy.ID = route.PolicyID{Kind: string(snapshot.TraefikMiddlewareTCP), Namespace: object.Namespace, Name: object.Name, Variant: kinds[0]}
	return []route.Policy{*policy}, nil
}

// connections converts a limit of connections, which is for each client as in Traefik.
func connections(r *record) *route.Policy {
	amount := r.whole("amount")
	if amount < 1 {
		r.fault("amount", refusal.Invalid, "no connection may be open: give a number from 1")
	}
	r.rest()
	return &route.Policy{InFlight: &route.InFlight{Max: amount, Key: route.HashKey{By: route.KeyClient}, PerReplica: true}}
}

// addresses converts an allow list of connections.
func addresses(r *record) *route.Policy {
	prefixes := networks(r, "sourceRange")
	if len(prefixes) == 0 {
		r.fault("sourceRange", refusal.Invalid, "no client is allowed: list addresses or networks such as 10.0.0.0/8")
	}
	r.rest()
	return &route.Policy{IPFilter: &route.IPFilter{Allow: prefixes}}
}

// networks decodes a list of addresses and networks.
func networks(r *record, name string) []netip.Prefix {
	var prefixes []netip.Prefix
	for _, text := range r.texts(name) {
		prefix, err := network(strings.TrimSpace(text))
		if err != nil {
			r.fault(name, refusal.Invalid, "%q is neither an address nor a network: write 10.0.0.1 or 10.0.0.0/8", brief(text))
			continue
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes
}
