// Package reference finds what objects name: Secrets, ports of Services, and
// objects of other kinds. It is the one place that decides whether a name may
// lead into another namespace.
//
// A name is that of an object in the namespace of whoever names it. As
// namespace/name it leads elsewhere, and only where the option
// allowCrossNamespace says so. What cannot be had is a Fault that says why; the
// caller closes what depends on it.
package reference

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Source finds what an object in a namespace names.
type Source struct {
	View *snapshot.View
	// Namespace is that of the object that names things.
	Namespace string
	// CrossNamespace allows names in other namespaces.
	CrossNamespace bool
}

// In is the same source for an object of another namespace.
func (s Source) In(namespace string) Source {
	s.Namespace = namespace
	return s
}

// Locate splits a name into namespace and name.
func (s Source) Locate(name string) (namespace, own string, fault *snapshot.Fault) {
	namespace, own, qualified := strings.Cut(name, "/")
	if !qualified {
		namespace, own = s.Namespace, name
	}
	switch {
	case own == "" || namespace == "" || strings.Contains(own, "/"):
		return "", "", &snapshot.Fault{Reason: snapshot.Invalid, Message: fmt.Sprintf("%q is no name: write name, or namespace/name", name)}
	case namespace != s.Namespace && !s.CrossNamespace:
		return "", "", &snapshot.Fault{Reason: snapshot.NotAllowed, Message: fmt.Sprintf(
			"%s is in another namespace: use one of %s, or set providers.kubernetesIngress.allowCrossNamespace", name, s.Namespace)}
	}
	return namespace, own, nil
}

// Secret gives a Secret with its data.
func (s Source) Secret(name string) (*snapshot.SecretBody, *snapshot.Fault) {
	namespace, own, fault := s.Locate(name)
	if fault != nil {
		return nil, fault
	}
	body := s.View.Secret(namespace, own)
	switch {
	case body == nil:
		return nil, &snapshot.Fault{Reason: snapshot.NotFound, Message: fmt.Sprintf("there is no Secret %s/%s", namespace, own)}
	case body.Failure != nil:
		return nil, body.Failure
	}
	return body, nil
}

// Resource gives an object of a custom kind.
func (s Source) Resource(kind snapshot.Kind, name string) (*snapshot.Resource, *snapshot.Fault) {
	namespace, own, fault := s.Locate(name)
	if fault != nil {
		return nil, fault
	}
	found, state := s.View.Resource(kind, namespace, own)
	switch {
	case state == snapshot.KindMissing:
		return nil, &snapshot.Fault{Reason: snapshot.NotFound, Message: fmt.Sprintf("the cluster has no kind %s: install its CustomResourceDefinition", kind)}
	case state == snapshot.KindForbidden:
		return nil, &snapshot.Fault{Reason: snapshot.Unreadable, Message: fmt.Sprintf("the edge may not read objects of kind %s: add it to its role", kind)}
	case state == snapshot.KindPending:
		return nil, &snapshot.Fault{Reason: snapshot.NotReady, Message: fmt.Sprintf("objects of kind %s are being read", kind)}
	case found == nil:
		return nil, &snapshot.Fault{Reason: snapshot.NotFound, Message: fmt.Sprintf("there is no %s %s/%s", kind, namespace, own)}
	}
	return found, nil
}

// Backend gives the identity of a Service's port. A port that is given by name
// and the same one by number have one identity.
func (s Source) Backend(name string, port networkingv1.ServiceBackendPort) (route.BackendID, *snapshot.Fault) {
	namespace, own, fault := s.Locate(name)
	if fault != nil {
		return route.BackendID{}, fault
	}
	service := s.View.Service(namespace, own)
	if service == nil {
		return route.BackendID{}, &snapshot.Fault{Reason: snapshot.NotFound, Message: fmt.Sprintf("there is no Service %s/%s", namespace, own)}
	}
	found := servicePort(service, port)
	if found == nil {
		return route.BackendID{}, &snapshot.Fault{Reason: snapshot.NotFound, Message: fmt.Sprintf(
			"the Service %s/%s has no port %s: it has %s", namespace, own, portText(port), portList(service))}
	}
	return route.BackendID{Namespace: namespace, Name: own, Port: uint16(found.Port)}, nil
}

// servicePort is the port of that number or name. Numbers can come twice, for
// TCP and UDP; only TCP carries requests.
func servicePort(service *corev1.Service, wanted networkingv1.ServiceBackendPort) *corev1.ServicePort {
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		if port.Protocol != "" && port.Protocol != corev1.ProtocolTCP {
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

func portList(service *corev1.Service) string {
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

// Authority gives the bundle of authorities in a Secret: ca.crt, or tls.ca as
// Traefik calls it, or else tls.crt.
func (s Source) Authority(name string) (*route.Authority, *snapshot.Fault) {
	body, fault := s.Secret(name)
	if fault != nil {
		return nil, fault
	}
	for _, field := range []string{"ca.crt", "tls.ca", "tls.crt"} {
		if bundle := body.Data[field]; len(bundle) > 0 {
			return &route.Authority{ID: route.AuthorityID{Namespace: body.Namespace, Name: body.Name}, Bundle: string(bundle)}, nil
		}
	}
	return nil, &snapshot.Fault{Reason: snapshot.Invalid, Message: fmt.Sprintf("the Secret %s/%s has no ca.crt", body.Namespace, body.Name)}
}

// Certificate gives the certificate and key in a Secret, for no host yet.
func (s Source) Certificate(name string) (*route.Certificate, *snapshot.Fault) {
	body, fault := s.Secret(name)
	if fault != nil {
		return nil, fault
	}
	chain, key := body.Data[corev1.TLSCertKey], body.Data[corev1.TLSPrivateKeyKey]
	if len(chain) == 0 || len(key) == 0 {
		return nil, &snapshot.Fault{Reason: snapshot.Invalid, Message: fmt.Sprintf(
			"the Secret %s/%s has no %s or no %s", body.Namespace, body.Name, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)}
	}
	return &route.Certificate{
		ID:    route.CertificateID{Namespace: body.Namespace, Name: body.Name},
		Chain: string(chain), Key: route.NewSecret(string(key)),
	}, nil
}
