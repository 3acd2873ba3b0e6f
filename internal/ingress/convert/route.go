package convert

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// target is where the route of a host attaches.
type target struct {
	host string
	// plain and encrypted are references to listeners, nil for none.
	plain, encrypted *gatewayv1.ParentReference
}

// writeRoutes writes the routes of the Ingress: one for the hosts with the same rules,
// and one for their redirect.
func (d *draft) writeRoutes() {
	left := slices.Clone(d.paths)
	for len(left) > 0 {
		first := left[0]
		var targets []target
		left = slices.DeleteFunc(left, func(of hostPaths) bool {
			if len(targets) == maxHostnames || (of.host == "") != (first.host == "") || !sameRules(of.rules, first.rules) {
				return false
			}
			targets = append(targets, d.targetOf(of.host))
			return true
		})
		if len(first.rules) == 0 {
			continue
		}
		if d.redirect == nil {
			d.addRoutes(d.in.Object.Name, first.rules, targets, func(t target) []*gatewayv1.ParentReference {
				return []*gatewayv1.ParentReference{t.plain, t.encrypted}
			})
			continue
		}
		d.addRoutes(d.in.Object.Name, first.rules, targets, func(t target) []*gatewayv1.ParentReference {
			return []*gatewayv1.ParentReference{t.encrypted}
		})
		d.addRoutes(d.in.Object.Name+"-redirect", redirectRules(first.rules, d.redirect), targets, func(t target) []*gatewayv1.ParentReference {
			return []*gatewayv1.ParentReference{t.plain}
		})
	}
	d.writeGrants()
}

// targetOf returns the listeners of a host, and records where it is served.
func (d *draft) targetOf(host string) target {
	t := target{host: host}
	gateway, section := d.listenerFor(host)
	switch {
	case !d.encrypted:
	case gateway != nil:
		t.encrypted = d.parent(gateway, section)
	case d.plain:
		d.note("spec.tls", "%s is served over HTTPS with the default certificate of the edge today; a Gateway serves it over HTTP only, until it has a certificate", hostText(host))
	default:
		d.note("spec.tls", "%s is not served: it has HTTPS only, and no certificate that a listener could name", hostText(host))
	}
	if gateway == nil {
		if !d.plain {
			return t
		}
		all := d.gateways[d.namespaceOf(host)]
		if len(all) == 0 {
			all = []*gatewayv1.Gateway{d.roomFor(d.namespaceOf(host))}
		}
		gateway = all[0]
	}
	if d.plain {
		t.plain = d.parent(gateway, plainListener)
	}
	if _, wildcard := route.WildcardParent(host); wildcard {
		d.note("spec.rules", "%s has one more label in an Ingress, and one or more in a Gateway", host)
	}
	if owner := d.in.OwnerOf(host); owner != "" && owner != d.in.Object.Namespace {
		d.note("spec.rules", "%s belongs to the namespace %s as long as that has the oldest route for it: apply its routes before those of %s", host, owner, d.in.Object.Namespace)
	}
	d.result.Places = append(d.result.Places, Place{
		Ingress: d.in.Resolved.Ingress, Host: host, Gateway: snapshot.Ref{Kind: snapshot.Gateway, Namespace: gateway.Namespace, Name: gateway.Name},
		Plain: t.plain != nil, Encrypted: t.encrypted != nil,
	})
	return t
}

func hostText(host string) string {
	if host == "" {
		return "every host"
	}
	return host
}

// parent returns the reference to a listener, and lets the namespace of the Ingress
// attach to it.
func (d *draft) parent(gateway *gatewayv1.Gateway, section gatewayv1.SectionName) *gatewayv1.ParentReference {
	guests := d.guests[gateway]
	if guests[section] == nil {
		guests[section] = map[string]bool{}
	}
	guests[section][d.in.Object.Namespace] = true
	ref := &gatewayv1.ParentReference{Name: gatewayv1.ObjectName(gateway.Name), SectionName: &section}
	if gateway.Namespace != d.in.Object.Namespace {
		namespace := gatewayv1.Namespace(gateway.Namespace)
		ref.Namespace = &namespace
	}
	return ref
}

// redirectRules returns rules with the same matches that redirect.
func redirectRules(rules []gatewayv1.HTTPRouteRule, to *gatewayv1.HTTPRequestRedirectFilter) []gatewayv1.HTTPRouteRule {
	var all []gatewayv1.HTTPRouteRule
	for i := range rules {
		all = append(all, gatewayv1.HTTPRouteRule{
			Matches: rules[i].Matches,
			Filters: []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterRequestRedirect, RequestRedirect: to}},
		})
	}
	return all
}

// addRoutes adds routes with the rules, as many as their number needs. The order of
// rules does not depend on the route that they are in.
func (d *draft) addRoutes(name string, rules []gatewayv1.HTTPRouteRule, targets []target, parents func(target) []*gatewayv1.ParentReference) {
	var spec gatewayv1.HTTPRouteSpec
	for _, t := range targets {
		attached := false
		for _, parent := range parents(t) {
			if parent == nil {
				continue
			}
			attached = true
			same := func(other gatewayv1.ParentReference) bool { return sameParent(&other, parent) }
			if !slices.ContainsFunc(spec.ParentRefs, same) {
				spec.ParentRefs = append(spec.ParentRefs, *parent)
			}
		}
		if attached && t.host != "" {
			spec.Hostnames = append(spec.Hostnames, gatewayv1.Hostname(t.host))
		}
	}
	if len(spec.ParentRefs) == 0 {
		return
	}
	for chunk := range slices.Chunk(rules, maxRules) {
		object := &gatewayv1.HTTPRoute{TypeMeta: typeOf("HTTPRoute"), ObjectMeta: metav1.ObjectMeta{Namespace: d.in.Object.Namespace, Name: d.freeName(name)}}
		object.CreationTimestamp = d.in.Object.CreationTimestamp
		d.copyRecordAnnotations(object)
		object.Spec = spec
		object.Spec.Rules = chunk
		d.result.Routes = append(d.result.Routes, object)
		d.written = append(d.written, gatewayv1.ObjectName(object.Name))
	}
}

// copyRecordAnnotations copies the annotations of external-dns. It reads the target of
// records from a Gateway, where it counts for all routes, and ignores it on a route.
func (d *draft) copyRecordAnnotations(to *gatewayv1.HTTPRoute) {
	for _, prefix := range externalDNSPrefixes {
		d.copyAnnotations(to, prefix, d.in.Object.Annotations)
		if target := prefix + "target"; d.in.Object.Annotations[target] != "" {
			d.noteOnce("metadata.annotations["+target+"]", "external-dns reads it from Gateways, not from routes: set it on the Gateway")
		}
	}
}

// sameParent reports whether two references name one listener.
func sameParent(a, b *gatewayv1.ParentReference) bool {
	namespace := func(ref *gatewayv1.ParentReference) gatewayv1.Namespace {
		if ref.Namespace == nil {
			return ""
		}
		return *ref.Namespace
	}
	return a.Name == b.Name && *a.SectionName == *b.SectionName && namespace(a) == namespace(b)
}

// freeName returns a name for a route that no other route of the namespace has.
func (d *draft) freeName(name string) string {
	for i := 1; ; i++ {
		suffix := ""
		if i > 1 {
			suffix = "-" + strconv.Itoa(i)
		}
		ref := snapshot.Ref{Kind: snapshot.HTTPRoute, Namespace: d.in.Object.Namespace, Name: name[:min(len(name), maxName-len(suffix))] + suffix}
		if !d.names[ref] {
			d.names[ref] = true
			return ref.Name
		}
	}
}

// writeGrants lets the routes of other namespaces have hosts of this Ingress, as its
// grants do.
func (d *draft) writeGrants() {
	for _, grant := range d.in.Resolved.Grants {
		if len(grant.Prefixes) > 0 {
			d.note("metadata.annotations[slipway.dev/host-grants]", "the namespace %s gets whole hosts or nothing from a ReferenceGrant: it gets nothing", grant.Namespace)
			continue
		}
		from := gatewayv1.ReferenceGrantFrom{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Namespace: gatewayv1.Namespace(grant.Namespace)}
		for _, name := range d.written {
			d.addGrant(d.in.Object.Namespace, d.in.Object.Name+"-hosts", from, gatewayv1.ReferenceGrantTo{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Name: &name})
		}
	}
}
