package convert

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// The limits of Gateway API for one object.
const (
	maxListeners = 64
	maxRules     = 16
	maxHostnames = 16
	maxName      = 253
)

// plainListener is the name of the listener for plain HTTP. Those for HTTPS have the
// names of their hosts.
const plainListener = "http"

// certManagerPrefix is that of the annotations by which cert-manager makes the
// certificates of listeners.
const certManagerPrefix = "cert-manager.io/"

// externalDNSPrefixes are those of the annotations by which external-dns makes the
// records of routes: in new versions, and before.
var externalDNSPrefixes = []string{"external-dns.kubernetes.io/", "external-dns.alpha.kubernetes.io/"}

// writer collects the objects of all Ingresses.
type writer struct {
	options Options
	result  Result
	// secrets has the Secret of each host with a certificate, in the namespace that
	// owns the host.
	secrets map[string]snapshot.Ref
	// gateways are the Gateways by namespace; the hosts of one are in several once it
	// has all listeners that it can have.
	gateways map[string][]*gatewayv1.Gateway
	// guests are the namespaces with routes at each listener.
	guests map[*gatewayv1.Gateway]map[gatewayv1.SectionName]map[string]bool
	// names are the names of routes that are taken.
	names map[snapshot.Ref]bool
}

func newWriter(options Options) *writer {
	return &writer{
		options: options, secrets: map[string]snapshot.Ref{}, gateways: map[string][]*gatewayv1.Gateway{},
		guests: map[*gatewayv1.Gateway]map[gatewayv1.SectionName]map[string]bool{}, names: map[snapshot.Ref]bool{},
	}
}

// firstPoints returns the entry points that become the ports 80 and 443; empty for
// none.
func (w *writer) firstPoints() (plain, encrypted string) {
	for _, name := range slices.Sorted(maps.Keys(w.options.EntryPoints)) {
		switch {
		case w.options.EntryPoints[name]:
			encrypted = cmp.Or(encrypted, name)
		default:
			plain = cmp.Or(plain, name)
		}
	}
	return plain, encrypted
}

// namespaceOf returns the namespace of the Gateway for a host.
func (d *draft) namespaceOf(host string) string {
	return cmp.Or(d.options.Namespace, d.in.OwnerOf(host), d.in.Resolved.Ingress.Namespace)
}

// addListeners adds an HTTPS listener for each host with a certificate. The Secret of
// the oldest Ingress counts.
func (d *draft) addListeners() {
	for i := range d.in.Object.Spec.TLS {
		entry := &d.in.Object.Spec.TLS[i]
		hosts := entry.Hosts
		if len(hosts) == 0 {
			for _, of := range d.paths {
				hosts = append(hosts, of.host)
			}
		}
		for _, written := range hosts {
			host := resolve.SpellHost(written)
			secret := snapshot.Ref{Kind: snapshot.Secret, Namespace: d.in.Object.Namespace, Name: entry.SecretName}
			field := "spec.tls[" + strconv.Itoa(i) + "]"
			switch before, known := d.secrets[host]; {
			case entry.SecretName == "" || host == "":
				continue
			case known && before != secret:
				d.note(field, "%s has the certificate of Secret %s/%s, which is older", host, before.Namespace, before.Name)
			case !known:
				d.secrets[host] = secret
				d.addListener(host, secret)
			}
		}
	}
}

// addListener adds the HTTPS listener of a host.
func (d *draft) addListener(host string, secret snapshot.Ref) {
	gateway := d.roomFor(d.namespaceOf(host))
	hostname := gatewayv1.Hostname(host)
	ref := gatewayv1.SecretObjectReference{Name: gatewayv1.ObjectName(secret.Name)}
	if secret.Namespace != gateway.Namespace {
		namespace := gatewayv1.Namespace(secret.Namespace)
		ref.Namespace = &namespace
		d.grant(secret.Namespace, gateway, secret.Name)
	}
	gateway.Spec.Listeners = append(gateway.Spec.Listeners, gatewayv1.Listener{
		Name: sectionOf(host), Hostname: &hostname, Port: 443, Protocol: gatewayv1.HTTPSProtocolType,
		TLS: &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{ref}},
	})
	d.copyAnnotations(gateway, certManagerPrefix, d.in.Object.Annotations)
}

// sectionOf returns the name of the listener of a host.
func sectionOf(host string) gatewayv1.SectionName {
	if parent, wildcard := route.WildcardParent(host); wildcard {
		return gatewayv1.SectionName("wildcard." + parent)
	}
	return gatewayv1.SectionName(host)
}

// roomFor returns a Gateway of a namespace with room for a listener. Each begins with
// the listener for plain HTTP, which is dropped if no route uses it.
func (w *writer) roomFor(namespace string) *gatewayv1.Gateway {
	all := w.gateways[namespace]
	if len(all) > 0 && len(all[len(all)-1].Spec.Listeners) < maxListeners {
		return all[len(all)-1]
	}
	gateway := &gatewayv1.Gateway{TypeMeta: typeOf("Gateway"), ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: w.options.Name}}
	if len(all) > 0 {
		gateway.Name += "-" + strconv.Itoa(len(all)+1)
	}
	gateway.Spec.GatewayClassName = gatewayv1.ObjectName(w.options.Class)
	gateway.Spec.Listeners = []gatewayv1.Listener{{Name: plainListener, Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
	w.gateways[namespace] = append(all, gateway)
	w.guests[gateway] = map[gatewayv1.SectionName]map[string]bool{}
	return gateway
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: gatewayv1.GroupVersion.String(), Kind: kind}
}

// grant lets a Gateway refer to a Secret of another namespace.
func (w *writer) grant(namespace string, gateway *gatewayv1.Gateway, secret string) {
	from := gatewayv1.ReferenceGrantFrom{Group: gatewayv1.GroupName, Kind: "Gateway", Namespace: gatewayv1.Namespace(gateway.Namespace)}
	to := gatewayv1.ReferenceGrantTo{Kind: "Secret", Name: (*gatewayv1.ObjectName)(&secret)}
	w.addGrant(namespace, w.options.Name+"-certificates", from, to)
}

// addGrant adds a permission to the ReferenceGrant with a name.
func (w *writer) addGrant(namespace, name string, from gatewayv1.ReferenceGrantFrom, to gatewayv1.ReferenceGrantTo) {
	at := slices.IndexFunc(w.result.Grants, func(g *gatewayv1.ReferenceGrant) bool { return g.Namespace == namespace && g.Name == name })
	if at < 0 {
		at = len(w.result.Grants)
		w.result.Grants = append(w.result.Grants, &gatewayv1.ReferenceGrant{
			// Every release of Gateway API has this version.
			TypeMeta:   metav1.TypeMeta{APIVersion: gatewayv1.GroupName + "/v1beta1", Kind: "ReferenceGrant"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		})
	}
	spec := &w.result.Grants[at].Spec
	if !slices.Contains(spec.From, from) {
		spec.From = append(spec.From, from)
	}
	if !slices.ContainsFunc(spec.To, func(t gatewayv1.ReferenceGrantTo) bool { return t.Kind == to.Kind && *t.Name == *to.Name }) {
		spec.To = append(spec.To, to)
	}
}

// copyAnnotations copies annotations that other controllers read. A Gateway has one
// value for all of its listeners.
func (d *draft) copyAnnotations(to metav1.Object, prefix string, annotations map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		has := to.GetAnnotations()
		if before, known := has[name]; known && before != annotations[name] {
			d.note("metadata.annotations["+name+"]", "the Gateway %s/%s has %q, of another Ingress: use a Gateway of your own", to.GetNamespace(), to.GetName(), before)
			continue
		}
		if has == nil {
			has = map[string]string{}
		}
		has[name] = annotations[name]
		to.SetAnnotations(has)
	}
}

// listenerFor returns the Gateway and the listener that serve a host encrypted: its
// own, or that of the wildcard above it.
func (d *draft) listenerFor(host string) (*gatewayv1.Gateway, gatewayv1.SectionName) {
	_, parent, _ := strings.Cut(host, ".")
	for _, name := range []string{host, "*." + parent} {
		for _, gateway := range d.gateways[d.namespaceOf(host)] {
			for i := range gateway.Spec.Listeners {
				if of := gateway.Spec.Listeners[i].Hostname; of != nil && string(*of) == name {
					return gateway, gateway.Spec.Listeners[i].Name
				}
			}
		}
	}
	return nil, ""
}

// finish completes the Gateways and returns the result.
func (w *writer) finish() *Result {
	for _, namespace := range slices.Sorted(maps.Keys(w.gateways)) {
		for _, gateway := range w.gateways[namespace] {
			gateway.Spec.Listeners = slices.DeleteFunc(gateway.Spec.Listeners, func(l gatewayv1.Listener) bool { return len(w.guests[gateway][l.Name]) == 0 })
			for i := range gateway.Spec.Listeners {
				allowGuests(&gateway.Spec.Listeners[i], namespace, w.guests[gateway])
			}
			if len(gateway.Spec.Listeners) > 0 {
				w.result.Gateways = append(w.result.Gateways, gateway)
			}
		}
	}
	slices.SortFunc(w.result.Routes, func(a, b *gatewayv1.HTTPRoute) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortStableFunc(w.result.Notes, func(a, b Note) int { return a.Ingress.Compare(b.Ingress) })
	return &w.result
}

// allowGuests lets the namespaces of routes attach to a listener.
func allowGuests(listener *gatewayv1.Listener, own string, guests map[gatewayv1.SectionName]map[string]bool) {
	names := slices.Sorted(maps.Keys(guests[listener.Name]))
	if slices.Equal(names, []string{own}) {
		return // the default
	}
	from := gatewayv1.NamespacesFromSelector
	listener.AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &from, Selector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: names}},
	}}}
}

// sameRules reports whether two hosts have the same rules, so that a route can have
// both.
func sameRules(a, b []gatewayv1.HTTPRouteRule) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}
