package traefik

import (
	"fmt"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// UDPRouteObject is the spec of an IngressRouteUDP. References in it are not resolved.
type UDPRouteObject struct {
	EntryPoints []string
	// Routes have services only: a datagram has no name to choose a route by.
	Routes []Route
	// Faults are those of fields that concern all routes.
	Faults []refusal.Refusal
}

// IngressRouteUDP decodes the spec of an IngressRouteUDP.
func IngressRouteUDP(object *snapshot.Resource) UDPRouteObject {
	found := &findings{}
	r := newRecord("spec", object.Spec, found)
	decoded := UDPRouteObject{EntryPoints: r.texts("entryPoints")}
	for i, value := range r.list("routes") {
		field := fmt.Sprintf("spec.routes[%d]", i)
		fields, ok := value.(map[string]any)
		if !ok {
			r.wrong(fmt.Sprintf("routes[%d]", i), "an object")
			continue
		}
		decoded.Routes = append(decoded.Routes, udpRoute(newRecord(field, fields, &findings{}), field))
	}
	if len(decoded.Routes) > 1 {
		r.fault("routes", refusal.Unsupported, "there are %d, and nothing in a datagram chooses one: keep one route, with weights for its services", len(decoded.Routes))
	}
	r.rest()
	decoded.Faults = found.faults
	return decoded
}

// udpRoute decodes one route of datagrams.
func udpRoute(r *record, field string) Route {
	decoded := Route{Field: field}
	for _, used := range r.inners("services") {
		use := streamService(used)
		used.refuse("nativeLB", "set the annotation slipway.dev/native-lb of the Service")
		used.refuse("nodePortLB", "set the annotation slipway.dev/node-port-lb of the Service")
		used.rest()
		decoded.Services = append(decoded.Services, use)
	}
	r.rest()
	decoded.Faults = r.found.faults
	return decoded
}
