// Package convert writes Gateways and HTTPRoutes that serve what Ingresses serve, for
// slipway migrate gateway. It is pure: it gets resolved Ingresses, with the policies
// that the edge runs for them, and returns objects.
//
// It promises that nothing is lost silently: a part of an Ingress that Gateway API
// cannot express is a Note. Where that part restricts who is served, or how the
// backend is reached, the Ingress is kept and nothing is written for it.
//
// Each Gateway is in the namespace that owns the hosts, with the certificates there,
// unless the options name one namespace for all of them. See decision 0051.
package convert

import (
	"cmp"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Options are how the objects are written.
type Options struct {
	// Class is the GatewayClass, and Name the name of the Gateways.
	Class, Name string
	// Namespace is that of all Gateways; empty for the one that owns the hosts.
	Namespace string
	// EntryPoints are those of the edge, and whether connections to each are
	// encrypted. One of each becomes a port of the Gateways.
	EntryPoints map[string]bool
}

// Ingress is an Ingress to convert.
type Ingress struct {
	Object   *networkingv1.Ingress
	Resolved *resolve.ResolvedIngress
	// OwnerOf returns the namespace that a host belongs to.
	OwnerOf func(host string) string
	// PortOf returns the number of a port of a Service that is named, 0 if there is
	// none.
	PortOf func(service, port string) int32
	// SameTransport reports whether the backend is reached in the same way from a
	// route.
	SameTransport func(route.BackendID) bool
}

// Note is a part of an Ingress that becomes something else, or nothing.
type Note struct {
	Ingress snapshot.Ref `json:"-"`
	// Object is the Ingress for people, and Field the part of it.
	Object  string `json:"object"`
	Field   string `json:"field"`
	Message string `json:"message"`
	// Kept is set if nothing was written for the Ingress.
	Kept bool `json:"kept,omitempty"`
}

// Result has the objects, each list sorted by namespace and name.
type Result struct {
	Gateways []*gatewayv1.Gateway
	// Routes have the age of their Ingresses, which decides between equal ones.
	Routes []*gatewayv1.HTTPRoute
	Grants []*gatewayv1.ReferenceGrant
	// Places are the routes' hosts with their Gateway, of converted Ingresses.
	Places []Place
	Notes  []Note
}

// Place is where the paths of an Ingress for a host are served after the conversion.
type Place struct {
	Ingress snapshot.Ref
	Host    string
	// Gateway has ports 80 and 443, as far as Plain and Encrypted are set.
	Gateway          snapshot.Ref
	Plain, Encrypted bool
}

// Ingresses converts Ingresses, the oldest first: it decides about a host that several
// have.
func Ingresses(all []Ingress, options Options) *Result {
	all = slices.SortedFunc(slices.Values(all), func(a, b Ingress) int {
		return cmp.Or(a.Resolved.Created.Compare(b.Resolved.Created), a.Resolved.Ingress.Compare(b.Resolved.Ingress))
	})
	w := newWriter(options)
	var drafts []*draft
	for i := range all {
		d := &draft{writer: w, in: &all[i]}
		if d.read(); !d.kept {
			drafts = append(drafts, d)
		}
	}
	// The listeners of all hosts exist before routes are attached to them: a
	// certificate for a wildcard serves the hosts of other Ingresses, too.
	for _, d := range drafts {
		d.addListeners()
	}
	for _, d := range drafts {
		d.writeRoutes()
	}
	return w.finish()
}

// draft is the working state for one Ingress.
type draft struct {
	*writer
	in *Ingress
	// paths are those of the Ingress by host, in order, with their rules.
	paths []hostPaths
	// redirect is the redirect of plain requests, nil for none.
	redirect *gatewayv1.HTTPRequestRedirectFilter
	// plain and encrypted are the ports that serve it.
	plain, encrypted bool
	kept             bool
	// written are the names of its routes.
	written []gatewayv1.ObjectName
}

// hostPaths are the rules of one host.
type hostPaths struct {
	host  string
	rules []gatewayv1.HTTPRouteRule
	// exact are further rules, for the paths that are a prefix and nothing more.
	exact []gatewayv1.HTTPRouteRule
}

// note records what becomes of a part of the Ingress.
func (d *draft) note(field, format string, args ...any) {
	ref := d.in.Resolved.Ingress
	d.result.Notes = append(d.result.Notes, Note{Ingress: ref, Object: ref.String(), Field: field, Message: fmt.Sprintf(format, args...)})
}

// keep records why the Ingress is not converted.
func (d *draft) keep(field, format string, args ...any) {
	d.note(field, format, args...)
	d.kept = true
	d.result.Notes[len(d.result.Notes)-1].Kept = true
}

// read reads the Ingress, and decides whether it is converted.
func (d *draft) read() {
	resolved := d.in.Resolved
	switch {
	case resolved.Closed != nil:
		d.keep(resolved.Closed.Field, "it is refused today: %s", resolved.Closed.Message)
		return
	case resolved.NGINX != nil:
		d.keep("spec.ingressClassName", "it is an Ingress of ingress-nginx, whose annotations and paths are not converted")
		return
	case len(resolved.Handshakes) > 0:
		d.keep(resolved.Handshakes[0].Field, "Gateway API has no TLS options for a host")
		return
	case len(resolved.Requests) > 0:
		d.keep(resolved.Requests[0].Field, "its certificates come from a resolver of the edge, which is not converted: name it in tls.options of a listener")
		return
	}
	d.readPorts()
	filters := d.readPolicies(resolved.Policies)
	if resolved.Priority != 0 {
		d.note("metadata.annotations", "Gateway API has no priority: the most specific match wins")
	}
	if resolved.Unrecorded != (route.Unrecorded{}) {
		d.note("metadata.annotations", "Gateway API has no switch for logs, metrics and traces: they are on")
	}
	for i := range resolved.Paths {
		d.readPath(&resolved.Paths[i], filters)
	}
	for i := range d.paths {
		d.paths[i].addExact()
	}
}

// readPorts decides which ports of the Gateways serve the Ingress.
func (d *draft) readPorts() {
	resolved := d.in.Resolved
	plain, encrypted := d.firstPoints()
	d.plain, d.encrypted = plain != "" && !resolved.EncryptedOnly, encrypted != ""
	if len(resolved.EntryPoints) == 0 {
		return
	}
	d.plain = d.plain && slices.Contains(resolved.EntryPoints, plain)
	d.encrypted = d.encrypted && slices.Contains(resolved.EntryPoints, encrypted)
	for _, name := range resolved.EntryPoints {
		if name != plain && name != encrypted {
			d.keep("metadata.annotations", "it is served by the entry point %s, and a Gateway has the ports 80 and 443 only", name)
			return
		}
	}
}
