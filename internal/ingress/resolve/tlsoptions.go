package resolve

import (
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/policy"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/traefik"
)

// readHandshakes resolves the TLS options that the annotations name, for all hosts
// of the rules. If they cannot be used, the Ingress and its hosts are closed:
// options restrict clients. Traefik's name "default" means the built-in options,
// unless an object of that name exists.
func (r *resolver) readHandshakes() {
	name := r.settings.handshake
	if name == nil {
		r.readClientAuth()
		return
	}
	if name.kind == snapshot.TraefikTLSOption && name.text == "default@internal" {
		return
	}
	use := HandshakeUse{Field: name.field, Hosts: r.namedHosts()}
	object, fault := r.find(*name)
	if fault != nil && fault.Reason == refusal.NotFound && name.kind == snapshot.TraefikTLSOption && name.text == "default" {
		return // no object overrides the built-in options
	}
	switch {
	case fault != nil:
		use.Closed = r.refuse(r.resolved.Ingress, fault.At(name.field))
	default:
		use.Conditions, use.Closed = r.conditions(object, name.field)
	}
	r.addHandshake(use)
}

// addHandshake adds TLS options; those that cannot be used close the Ingress.
func (r *resolver) addHandshake(use HandshakeUse) {
	if use.Closed != nil {
		use.Conditions = reference.TLSConditions{}
		use.Conditions.Options.Refused = true
		r.closeAll(use.Closed)
	}
	if len(use.Hosts) > 0 {
		r.resolved.Handshakes = append(r.resolved.Handshakes, use)
	}
	r.closeHostless(use.Field)
}

// conditions parses the object of TLS options.
func (r *resolver) conditions(object *snapshot.Resource, field string) (reference.TLSConditions, *refusal.Refusal) {
	read := policy.TLSOption
	if snapshot.IsTraefik(object.Kind) {
		read = traefik.TLSOption
	}
	conditions, faults := read(object, r.source.In(object.Namespace))
	if len(faults) > 0 {
		return reference.TLSConditions{}, r.refuseObject(object, field, faults)
	}
	return conditions, nil
}

// closeHostless closes the paths for every host: TLS options belong to hosts, and
// this Ingress must not choose those of all others.
func (r *resolver) closeHostless(field string) {
	var fault *refusal.Refusal
	for i := range r.resolved.Paths {
		path := &r.resolved.Paths[i]
		if path.Host != "" || path.Target.Closed != nil {
			continue
		}
		if fault == nil {
			fault = r.refuseHere(field, refusal.Unsupported, "TLS options are for hosts, and a rule has none: give every rule a host")
		}
		path.Target.Closed = fault
	}
}
