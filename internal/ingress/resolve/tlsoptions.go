package resolve

import (
	"slipway.dev/slipway/internal/ingress/policy"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/traefik"
)

// readHandshakes resolves the TLS options that the annotations name, for all
// hosts of the rules. Where they cannot be had, the Ingress is closed, and so
// are its hosts. Traefik's name default stands for the options that every host
// has, as long as there is no object of that name.
func (r *resolver) readHandshakes() {
	name := r.settings.handshake
	if name == nil {
		return
	}
	if name.kind == snapshot.TraefikTLSOption && name.text == "default@internal" {
		return
	}
	use := HandshakeUse{Field: name.field, Hosts: r.namedHosts()}
	object, fault := r.find(*name)
	if fault != nil && fault.Reason == snapshot.NotFound && name.kind == snapshot.TraefikTLSOption && name.text == "default" {
		return // nobody made options of that name
	}
	switch {
	case fault != nil:
		use.Closed = r.refuse(r.resolved.Ingress, fault.At(name.field))
	default:
		use.Conditions, use.Closed = r.conditions(object, name.field)
	}
	if use.Closed != nil {
		use.Conditions = reference.TLSConditions{}
		use.Conditions.Options.Refused = true
		r.closeAll(use.Closed)
	}
	if len(use.Hosts) > 0 {
		r.resolved.Handshakes = append(r.resolved.Handshakes, use)
	}
	r.closeHostless(name.field)
}

// conditions makes the conditions of a TLS option.
func (r *resolver) conditions(object *snapshot.Resource, field string) (reference.TLSConditions, *snapshot.Fault) {
	read := policy.TLSOption
	if object.Kind == snapshot.TraefikTLSOption {
		read = traefik.TLSOption
	}
	conditions, faults := read(object, r.source.In(object.Namespace))
	if len(faults) > 0 {
		return reference.TLSConditions{}, r.refuseObject(object, field, faults)
	}
	return conditions, nil
}

// closeHostless closes the paths that take requests for every host: options
// belong to hosts, and those of all others are not this Ingress's to choose.
func (r *resolver) closeHostless(field string) {
	var fault *snapshot.Fault
	for i := range r.resolved.Paths {
		path := &r.resolved.Paths[i]
		if path.Host != "" || path.Target.Closed != nil {
			continue
		}
		if fault == nil {
			fault = r.refuseHere(field, snapshot.Unsupported, "TLS options are for hosts, and a rule has none: give every rule a host")
		}
		path.Target.Closed = fault
	}
}
