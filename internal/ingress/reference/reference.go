// Package reference resolves references between objects: to Secrets, to ports of
// Services, and to objects of custom kinds. It is the only place that decides
// whether a reference may cross namespaces.
//
// A plain name is an object in the namespace of the referring object. The form
// namespace/name refers to another namespace, and is allowed only by the option
// allowCrossNamespace. A reference that cannot be resolved is a Refusal with the
// reason; the caller closes what depends on it.
package reference

import (
	"cmp"
	"crypto/x509"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Source resolves the references of an object.
type Source struct {
	View *snapshot.View
	// Namespace is that of the referring object.
	Namespace string
	// CrossNamespace allows references to other namespaces.
	CrossNamespace bool
	// CrossOption is the option that allows them, for messages; empty for that of
	// Ingresses.
	CrossOption string
	// OldGroup finds an object of Traefik in its older group, too.
	OldGroup bool
}

// In returns the source for an object of another namespace, such as a Middleware
// that an Ingress names: its own references start from its namespace.
func (s Source) In(namespace string) Source {
	s.Namespace = namespace
	return s
}

// Locate splits a reference into namespace and name, and checks that it is
// allowed.
func (s Source) Locate(name string) (namespace, own string, fault *refusal.Refusal) {
	namespace, own, qualified := strings.Cut(name, "/")
	if !qualified {
		namespace, own = s.Namespace, name
	}
	switch {
	case own == "" || namespace == "" || strings.Contains(own, "/"):
		return "", "", refusal.New("", refusal.Invalid, "%q is not a reference: write name, or namespace/name", name)
	case namespace != s.Namespace && !s.CrossNamespace:
		return "", "", refusal.New("", refusal.NotAllowed,
			"%s is in another namespace: use one of %s, or set %s", name, s.Namespace, s.OptionName())
	}
	return namespace, own, nil
}

// OptionName returns the name of the option that allows references to other namespaces.
func (s Source) OptionName() string {
	return cmp.Or(s.CrossOption, "providers.kubernetesIngress.allowCrossNamespace")
}

// Secret returns a Secret with its data.
func (s Source) Secret(name string) (*snapshot.SecretBody, *refusal.Refusal) {
	namespace, own, fault := s.Locate(name)
	if fault != nil {
		return nil, fault
	}
	body := s.View.Secret(namespace, own)
	switch {
	case body == nil:
		return nil, refusal.New("", refusal.NotFound, "there is no Secret %s/%s", namespace, own)
	case body.Failure != nil:
		return nil, body.Failure
	}
	return body, nil
}

// HeaderMap returns the headers of a ConfigMap, sorted by name.
func (s Source) HeaderMap(name string) ([]route.HeaderValue, *refusal.Refusal) {
	object, fault := s.Resource(snapshot.ConfigMap, name)
	if fault != nil {
		return nil, fault
	}
	if object.Spec[snapshot.OmittedKey] != nil {
		return nil, refusal.New("", refusal.TooLarge, "the ConfigMap %s/%s has more than %d bytes: it may have headers only", object.Namespace, object.Name, snapshot.MaxHeaderMap)
	}
	var headers []route.HeaderValue
	for _, name := range slices.Sorted(maps.Keys(object.Spec)) {
		if value, isText := object.Spec[name].(string); isText {
			headers = append(headers, route.HeaderValue{Name: name, Value: value})
		}
	}
	return headers, nil
}

// ServiceOfHost returns the Service of a host name of the cluster, as name or
// namespace/name. A single label is a Service of the own namespace.
func ServiceOfHost(host string) (name string, found bool) {
	labels := strings.Split(host, ".")
	switch {
	case host == "" || strings.Contains(host, "/"):
		return "", false
	case len(labels) == 1:
		return host, true
	case len(labels) >= 3 && labels[2] == "svc":
		return labels[1] + "/" + labels[0], true
	}
	return "", false
}

// Resource returns an object of a custom kind. A kind that is not read yet is
// NotReady, which the caller treats as closed.
func (s Source) Resource(kind snapshot.Kind, name string) (*snapshot.Resource, *refusal.Refusal) {
	namespace, own, fault := s.Locate(name)
	if fault != nil {
		return nil, fault
	}
	found, state := s.View.Resource(kind, namespace, own)
	if old, has := snapshot.OldTraefikKind(kind); has && s.OldGroup && found == nil && state != snapshot.KindPending {
		if older, oldState := s.View.Resource(old, namespace, own); older != nil || oldState == snapshot.KindPending {
			found, state = older, oldState
		}
	}
	switch {
	case state == snapshot.KindMissing:
		return nil, refusal.New("", refusal.NotFound, "the cluster has no kind %s: install its CustomResourceDefinition", kind)
	case state == snapshot.KindForbidden:
		return nil, refusal.New("", refusal.Unreadable, "the edge may not read objects of kind %s: add it to its role", kind)
	case state == snapshot.KindPending:
		return nil, refusal.New("", refusal.NotReady, "objects of kind %s are being read", kind)
	case found == nil:
		return nil, refusal.New("", refusal.NotFound, "there is no %s %s/%s", kind, namespace, own)
	}
	return found, nil
}

// Backend returns the identity of a port of a Service. A port that is referred to
// by name and by number has one identity, so that both share pools and health.
func (s Source) Backend(name string, port networkingv1.ServiceBackendPort) (route.BackendID, *refusal.Refusal) {
	return s.BackendOf(corev1.ProtocolTCP, name, port)
}

// BackendOf is Backend for a port of a protocol: TCP and UDP have ports of their own.
func (s Source) BackendOf(protocol corev1.Protocol, name string, port networkingv1.ServiceBackendPort) (route.BackendID, *refusal.Refusal) {
	namespace, own, fault := s.Locate(name)
	if fault != nil {
		return route.BackendID{}, fault
	}
	service := s.View.Service(namespace, own)
	if service == nil {
		return route.BackendID{}, refusal.New("", refusal.NotFound, "there is no Service %s/%s", namespace, own)
	}
	found := servicePort(service, protocol, port)
	if found == nil {
		return route.BackendID{}, refusal.New("", refusal.NotFound,
			"the Service %s/%s has no port %s: it has %s", namespace, own, portText(port), portList(service))
	}
	return route.BackendID{Namespace: namespace, Name: own, Port: uint16(found.Port)}, nil
}

// servicePort returns the port of a number or name. A number can occur twice, for
// TCP and UDP.
func servicePort(service *snapshot.ServiceFacts, protocol corev1.Protocol, wanted networkingv1.ServiceBackendPort) *corev1.ServicePort {
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		if cmp.Or(port.Protocol, corev1.ProtocolTCP) != protocol {
			continue
		}
		if wanted.Name != "" && port.Name == wanted.Name || wanted.Name == "" && wanted.Number > 0 && port.Port == wanted.Number {
			return port
		}
	}
	return nil
}

func portText(port networkingv1.ServiceBackendPort) string {
	if port.Name != "" {
		return strconv.Quote(port.Name)
	}
	return strconv.Itoa(int(port.Number))
}

func portList(service *snapshot.ServiceFacts) string {
	var ports []string
	for _, port := range service.Spec.Ports {
		text := strconv.Itoa(int(port.Port))
		if port.Name != "" {
			text += " (" + port.Name + ")"
		}
		ports = append(ports, text)
	}
	if len(ports) == 0 {
		return "none"
	}
	return strings.Join(ports, ", ")
}

// Authority returns the CA bundle of a Secret: ca.crt, or tls.ca as Traefik calls
// it, or else tls.crt.
func (s Source) Authority(name string) (*route.Authority, *refusal.Refusal) {
	body, fault := s.Secret(name)
	if fault != nil {
		return nil, fault
	}
	for _, field := range []string{"ca.crt", "tls.ca", "tls.crt"} {
		if bundle := body.Data[field]; len(bundle) > 0 {
			return &route.Authority{ID: route.AuthorityID{Namespace: body.Namespace, Name: body.Name}, Bundle: string(bundle)}, nil
		}
	}
	return nil, refusal.New("", refusal.Invalid, "the Secret %s/%s has no ca.crt", body.Namespace, body.Name)
}

// Certificate returns the certificate and key of a Secret, without hosts.
func (s Source) Certificate(name string) (*route.Certificate, *refusal.Refusal) {
	body, fault := s.Secret(name)
	if fault != nil {
		return nil, fault
	}
	chain, key := body.Data[corev1.TLSCertKey], body.Data[corev1.TLSPrivateKeyKey]
	if len(chain) == 0 || len(key) == 0 {
		return nil, refusal.New("", refusal.Invalid,
			"the Secret %s/%s has no %s or no %s", body.Namespace, body.Name, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	return &route.Certificate{
		ID:    route.CertificateID{Namespace: body.Namespace, Name: body.Name},
		Chain: string(chain), Key: route.NewSecret(string(key)),
	}, nil
}

// RefusalOf returns a problem of the routing table as a refusal of a field of an
// object. Its reason is Invalid or TooLarge, because the author of the object does
// not know the table.
func RefusalOf(problem route.Problem, field string) *refusal.Refusal {
	reason := refusal.Invalid
	if problem.Reason == refusal.TooMany {
		reason = refusal.TooLarge
	}
	return &refusal.Refusal{Field: field, Reason: reason, Message: problem.Message}
}

// ConfigMapAuthority returns the authorities of a ConfigMap, as Gateway API has them.
// The name in the table cannot be that of a Secret.
func (s Source) ConfigMapAuthority(name string) (*route.Authority, *refusal.Refusal) {
	object, fault := s.Resource(snapshot.ConfigMap, name)
	if fault != nil {
		return nil, fault
	}
	bundle, _ := object.Spec[snapshot.AuthorityKey].(string)
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(bundle)) {
		return nil, refusal.New("", refusal.Invalid, "the ConfigMap %s/%s has no certificates in PEM with the key %s", object.Namespace, object.Name, snapshot.AuthorityKey)
	}
	return &route.Authority{ID: route.AuthorityID{Namespace: object.Namespace, Name: "ConfigMap_" + object.Name}, Bundle: bundle}, nil
}
