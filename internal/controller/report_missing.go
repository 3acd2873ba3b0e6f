package controller

import (
	"context"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

const (
	// maxDepth bounds the walk through the spec of an object.
	maxDepth = 16
	// placeholderHost is the host of the certificate in the place of others. Refusals
	// that name it are about the placeholder.
	placeholderHost = "placeholder.invalid"
)

// findMissing reports the Services, Secrets and other objects that are named and missing,
// and puts placeholders in the place of the first two: the report is about objects of the
// other controller, and a path is not refused because its Service is not there yet. A
// kind that may not be listed gets placeholders before, so that nothing is reported as
// missing.
func (r *reporting) findMissing(ctx context.Context) error {
	data, err := placeholderData()
	if err != nil {
		return err
	}
	r.addEndpoints()
	if r.isUnread(snapshot.Service) {
		r.addServices()
	}
	first, err := r.routesOf(ctx, r.Options)
	if err != nil {
		return err
	}
	if r.isUnread(snapshot.Secret) {
		r.addSecrets(data)
		first.server.Close()
		if first, err = r.routesOf(ctx, r.Options); err != nil {
			return err
		}
	}
	first.server.Close()
	for _, refused := range first.refusals {
		if absent(refused.Reason) {
			r.addFinding(snapshot.RefOf(refused.Object), finding.Warning, refused)
		}
	}
	r.addServices()
	r.addSecrets(data)
	return nil
}

func (r *reporting) isUnread(kind snapshot.Kind) bool {
	return slices.ContainsFunc(r.result.Unread, func(unread UnreadKind) bool { return unread.Kind == string(kind) })
}

// placeholderData returns the data of a Secret that is missing, or whose data is not
// read: a certificate with its key and users, by all names that are read.
func placeholderData() (map[string][]byte, error) {
	data, err := selfSigned(placeholderHost)
	if err != nil {
		return nil, err
	}
	data["users"] = []byte("placeholder:{SHA}AAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")
	data["ca.crt"] = data[corev1.TLSCertKey]
	return data, nil
}

// addSecrets puts a Secret in the place of each that is read and missing.
func (r *reporting) addSecrets(data map[string][]byte) {
	for ref := range r.offline.engine.Reads() {
		if ref.Kind == snapshot.Secret && !r.facts.Exists(ref) {
			r.facts.Put(&snapshot.SecretBody{Namespace: ref.Namespace, Name: ref.Name, Type: string(corev1.SecretTypeTLS), Data: data})
		}
	}
}

// wantedPorts are the ports of Services that objects name.
type wantedPorts map[snapshot.Ref][]networkingv1.ServiceBackendPort

func (w wantedPorts) add(namespace, name string, port networkingv1.ServiceBackendPort) {
	if name == "" || len(name) > 253 {
		return
	}
	at := snapshot.Ref{Kind: snapshot.Service, Namespace: namespace, Name: name}
	if !slices.Contains(w[at], port) {
		w[at] = append(w[at], port)
	}
}

// addServices adds the Services and ports that are named and missing.
func (r *reporting) addServices() {
	wanted := wantedPorts{}
	for namespace, name := range r.facts.Names(snapshot.Ingress) {
		wanted.ofIngress(r.facts.Ingress(namespace, name))
	}
	view := r.facts.View()
	for _, kind := range snapshot.TraefikKinds() {
		for namespace, name := range r.facts.Names(kind) {
			if resource, _ := view.Resource(kind, namespace, name); resource != nil {
				wanted.ofSpec(namespace, resource.Spec, maxDepth)
			}
		}
	}
	for ref, ports := range wanted {
		r.addService(ref, ports)
	}
	r.addEndpoints()
}

// ofIngress adds the Services of an Ingress.
func (w wantedPorts) ofIngress(ingress *networkingv1.Ingress) {
	add := func(backend *networkingv1.IngressBackend) {
		if backend != nil && backend.Service != nil {
			w.add(ingress.Namespace, backend.Service.Name, backend.Service.Port)
		}
	}
	add(ingress.Spec.DefaultBackend)
	for i := range ingress.Spec.Rules {
		if http := ingress.Spec.Rules[i].HTTP; http != nil {
			for j := range http.Paths {
				add(&http.Paths[j].Backend)
			}
		}
	}
	if name := ingress.Annotations[nginxAnnotations+"default-backend"]; name != "" {
		w.add(ingress.Namespace, name, networkingv1.ServiceBackendPort{Number: 80})
	}
	if address := ingress.Annotations[nginxAnnotations+"auth-url"]; address != "" {
		w.ofAddress(ingress.Namespace, address)
	}
}

// ofSpec adds the Services of an object of Traefik: all values with a name and a port,
// and the addresses of forwardAuth.
func (w wantedPorts) ofSpec(namespace string, value any, depth int) {
	if depth == 0 {
		return
	}
	switch value := value.(type) {
	case []any:
		for _, each := range value {
			w.ofSpec(namespace, each, depth-1)
		}
	case map[string]any:
		name, _ := value["name"].(string)
		in, _ := value["namespace"].(string)
		if in == "" {
			in = namespace
		}
		switch port := value["port"].(type) {
		case string:
			w.add(in, name, portOf(port))
		case float64:
			w.add(in, name, networkingv1.ServiceBackendPort{Number: int32(port)})
		case int64:
			w.add(in, name, networkingv1.ServiceBackendPort{Number: int32(port)})
		}
		if address, _ := value["address"].(string); address != "" {
			w.ofAddress(namespace, address)
		}
		for _, each := range value {
			w.ofSpec(namespace, each, depth-1)
		}
	}
}

// portOf reads a port that is written as a text.
func portOf(text string) networkingv1.ServiceBackendPort {
	if number := intstr.Parse(text); number.Type == intstr.Int {
		return networkingv1.ServiceBackendPort{Number: number.IntVal}
	}
	return networkingv1.ServiceBackendPort{Name: text}
}

// ofAddress adds the Service of an address such as http://auth.identity/verify.
func (w wantedPorts) ofAddress(namespace, address string) {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Hostname() == "" {
		return
	}
	name, in, qualified := strings.Cut(parsed.Hostname(), ".")
	if in, _, _ = strings.Cut(in, "."); !qualified || in == "" {
		in = namespace
	}
	port := networkingv1.ServiceBackendPort{Number: 80}
	if parsed.Scheme == "https" {
		port.Number = 443
	}
	if parsed.Port() != "" {
		port = portOf(parsed.Port())
	}
	w.add(in, name, port)
}

// addService adds a Service, or the ports that it does not have.
func (r *reporting) addService(ref snapshot.Ref, ports []networkingv1.ServiceBackendPort) {
	service := &snapshot.ServiceFacts{Namespace: ref.Namespace, Name: ref.Name}
	if known := r.facts.View().Service(ref.Namespace, ref.Name); known != nil {
		copied := *known
		copied.Spec.Ports = slices.Clip(copied.Spec.Ports) // they are shared
		service = &copied
	}
	for i, port := range ports {
		if slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool {
			return port.Name != "" && p.Name == port.Name || port.Name == "" && p.Port == port.Number
		}) {
			continue
		}
		number := port.Number
		if number == 0 {
			number = 10000 + int32(i) // a port that is named has any number
		}
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: port.Name, Port: number, TargetPort: intstr.FromInt32(number)})
	}
	r.facts.Put(service)
}

// addEndpoints gives each Service an endpoint. Whether a Service is up is not part of the
// report.
func (r *reporting) addEndpoints() {
	var services []*snapshot.ServiceFacts
	view := r.facts.View()
	for namespace, name := range r.facts.Names(snapshot.Service) {
		services = append(services, view.Service(namespace, name))
	}
	for _, service := range services {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: service.Namespace, Name: service.Name + "-slipway-report", Labels: map[string]string{discoveryv1.LabelServiceName: service.Name},
			},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{probeAddress}}},
		}
		for i := range service.Spec.Ports {
			port := &service.Spec.Ports[i]
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &port.Name, Port: &port.Port})
		}
		r.facts.Put(slice)
	}
}
