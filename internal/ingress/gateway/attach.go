package gateway

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/translate"
	"slipway.dev/slipway/internal/route"
)

// Route is a resolved route.
type Route struct {
	// Ours is set if it names a Gateway of ours. Only then it has rules and a status.
	Ours    bool
	Created time.Time
	// Outcome is its part of the routing table. The engine takes it out.
	Outcome *translate.Outcome
	// Parents is the status for each reference to a Gateway of ours.
	Parents []gatewayv1.RouteParentStatus
	// Attached has the listeners that it is attached to, by Gateway; none if it is not
	// accepted. Those of ListenerSets are among them, see listenerName.
	Attached Attachments
}

// Attachments are the listeners of each Gateway that a route is attached to. Most routes
// have one Gateway, and a map for each of thousands would take more than all the rest.
type Attachments []Attachment

// Attachment are the listeners of one Gateway, by their names.
type Attachment struct {
	Gateway   snapshot.Ref
	Listeners []string
}

// At returns the listeners of a Gateway; nil for none.
func (a Attachments) At(ref snapshot.Ref) []string {
	for i := range a {
		if a[i].Gateway == ref {
			return a[i].Listeners
		}
	}
	return nil
}

// add adds a listener of a Gateway.
func (a *Attachments) add(ref snapshot.Ref, name string) {
	for i := range *a {
		if of := &(*a)[i]; of.Gateway == ref {
			if !slices.Contains(of.Listeners, name) {
				of.Listeners = append(of.Listeners, name)
			}
			return
		}
	}
	*a = append(*a, Attachment{Gateway: ref, Listeners: []string{name}})
}

// place is where the rules of a route apply: a listener of the routing table, and a
// host name.
type place struct {
	listener route.ListenerID
	host     string
	// mode is how a listener without HTTP treats the encryption of connections.
	mode route.TLSMode
	// certificate is the one that the Gateway has for backends; zero for none.
	certificate route.CertificateID
	// tls is set if clients of the listener use TLS.
	tls bool
	// rank orders the routes of the listener with this host.
	rank int32
}

// attachment is the working state that routes of all kinds share: how one attaches to
// listeners, and what its backends are.
type attachment struct {
	view *snapshot.View
	// kind and meta are those of the object.
	kind      gatewayv1.Kind
	meta      *metav1.ObjectMeta
	hostnames []gatewayv1.Hostname
	backends  resolve.BackendResolver
	route     *Route
	places    []place
	// at is the place that backends are resolved for. Its Gateway decides how they are
	// connected to.
	at place
	// session is set if the endpoints of these backends keep their clients.
	session bool
	// unsupported is why the route is not accepted, empty if it is.
	unsupported string
	// unresolved is the condition of the first backendRef that does not resolve.
	unresolved *metav1.Condition
}

// newAttachment returns the state of a route that is not attached yet.
func newAttachment(view *snapshot.View, kind gatewayv1.Kind, meta *metav1.ObjectMeta, hostnames []gatewayv1.Hostname, backends resolve.BackendResolver) attachment {
	return attachment{
		view: view, kind: kind, meta: meta, hostnames: hostnames, backends: backends,
		route: &Route{Created: meta.CreationTimestamp.Time, Outcome: &translate.Outcome{}},
	}
}

// attachAll attaches the route to its parents.
func (r *attachment) attachAll(parents []gatewayv1.ParentReference) {
	for i := range parents {
		r.attach(&parents[i])
	}
}

// parent returns the Gateway that a reference leads to, itself or by a ListenerSet; nil
// for neither.
func (r *attachment) parent(ref *gatewayv1.ParentReference) (*gatewayv1.Gateway, *gatewayv1.ListenerSet) {
	namespace := string(or(ref.Namespace, gatewayv1.Namespace(r.meta.Namespace)))
	switch kind := or(ref.Kind, kindGateway); {
	case or(ref.Group, gatewayv1.GroupName) != gatewayv1.GroupName:
	case kind == kindGateway:
		return r.view.Gateway(namespace, string(ref.Name)), nil
	case kind == kindSet:
		if set := r.view.ListenerSet(namespace, string(ref.Name)); set != nil {
			of := snapshot.ParentOf(set)
			return r.view.Gateway(of.Namespace, of.Name), set
		}
	}
	return nil, nil
}

// attach attaches the route to the listeners of a parent, if that is a Gateway of
// ours or a ListenerSet of one. Others are left to their controllers.
func (r *attachment) attach(ref *gatewayv1.ParentReference) {
	gateway, set := r.parent(ref)
	if gateway == nil || !oursByClass(r.view, gateway.Spec.GatewayClassName) {
		return
	}
	r.route.Ours = true
	accepted := condition(gatewayv1.RouteConditionAccepted, gatewayv1.RouteReasonAccepted, "")
	if reason, message := r.attachTo(gateway, set, ref); reason != "" {
		accepted = failed(gatewayv1.RouteConditionAccepted, reason, message)
	}
	r.route.Parents = append(r.route.Parents, gatewayv1.RouteParentStatus{
		ParentRef: *ref, ControllerName: ControllerName, Conditions: []metav1.Condition{accepted},
	})
}

// attachTo attaches the route to the listeners of a Gateway, or of a ListenerSet of it,
// that a reference selects, and that allow it. The reason is why there is none.
func (r *attachment) attachTo(gateway *gatewayv1.Gateway, set *gatewayv1.ListenerSet, ref *gatewayv1.ParentReference) (gatewayv1.RouteConditionReason, string) {
	at := snapshot.Ref{Kind: snapshot.Gateway, Namespace: gateway.Namespace, Name: gateway.Name}
	listeners := listenersOf(r.view, gateway)
	certificate, _ := backendCertificate(r.view, gateway)
	selected, allowed, attached := false, false, false
	for i := range listeners {
		l := &listeners[i]
		if !l.of(set) || ref.SectionName != nil && *ref.SectionName != l.spec.Name || ref.Port != nil && uint16(*ref.Port) != l.port {
			continue
		}
		selected = true
		if !l.allows(r.view, gateway, r.kind, r.meta.Namespace) {
			continue
		}
		allowed = true
		hosts := r.hostsAt(l)
		if len(hosts) == 0 {
			continue
		}
		attached = true
		r.route.Attached.add(at, l.name)
		if l.mode == route.TLSTerminate && !(&Gateway{object: gateway}).canTerminate(r.view, l) {
			continue
		}
		for _, host := range hosts {
			where := place{listenerID(gateway, l), host, l.mode, certificate, l.tls, r.hostRank(l, host)}
			if l.usable() && !l.isolated(listeners, host, r.meta.Namespace) && !slices.Contains(r.places, where) {
				r.places = append(r.places, where)
			}
		}
	}
	switch {
	case !selected:
		return gatewayv1.RouteReasonNoMatchingParent, "the parent has no listener with this sectionName and port"
	case !allowed:
		return gatewayv1.RouteReasonNotAllowedByListeners, "allowedRoutes of the listeners does not include this kind and namespace"
	case !attached:
		return gatewayv1.RouteReasonNoMatchingListenerHostname, "no host name of the route is one of the listeners"
	default:
		return "", ""
	}
}

// hostsAt returns the host names that the route has at a listener: those that both
// have. A route without host names has that of the listener.
func (r *attachment) hostsAt(l *listener) []string {
	if len(r.hostnames) == 0 {
		return []string{l.hostname}
	}
	var hosts []string
	for _, written := range r.hostnames {
		host, shared := Intersect(l.hostname, resolve.SpellHost(string(written)))
		if shared && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// hostRank returns the place of the route among those that have a host at a listener: 0 if
// the route itself has the host, and less for a wildcard or none, the shortest last. Gateway
// API compares these before the paths.
func (r *attachment) hostRank(l *listener, host string) int32 {
	if l.hostname != host || host == "" {
		return 0 // the host is one of the route
	}
	longest := 0
	for _, written := range r.hostnames {
		name := resolve.SpellHost(string(written))
		switch {
		case name == host:
			return 0
		case covers(name, host):
			longest = max(longest, len(name))
		}
	}
	return int32(longest - len(host) - 1)
}

// refuse records the first part of the route that is not supported.
func (r *attachment) refuse(field, message string) {
	if r.unsupported == "" {
		r.unsupported = field + ": " + message
	}
}

// finishStatus completes the status of each parent.
func (r *attachment) finishStatus() {
	resolved := condition(gatewayv1.RouteConditionResolvedRefs, gatewayv1.RouteReasonResolvedRefs, "")
	if r.unresolved != nil {
		resolved = *r.unresolved
	}
	if r.unsupported != "" {
		r.route.Attached = nil // attachedRoutes counts accepted routes
	}
	for i := range r.route.Parents {
		parent := &r.route.Parents[i]
		if accepted := &parent.Conditions[0]; r.unsupported != "" && accepted.Status == metav1.ConditionTrue {
			*accepted = failed(gatewayv1.RouteConditionAccepted, gatewayv1.RouteReasonUnsupportedValue, r.unsupported)
		}
		parent.Conditions = observed(r.meta.Generation, append(parent.Conditions, resolved)...)
	}
}

// claimHosts claims the host names of an accepted route.
func (r *attachment) claimHosts() {
	outcome := r.route.Outcome
	outcome.HostsImplied = len(r.hostnames) == 0
	outcome.Grants = hostGrants(r.view, r.kind, r.meta.Namespace, r.meta.Name)
	for _, where := range r.places {
		if where.host != "" && !slices.Contains(outcome.Hosts, where.host) {
			outcome.Hosts = append(outcome.Hosts, where.host)
		}
	}
	slices.Sort(outcome.Hosts)
}
