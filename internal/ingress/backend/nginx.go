package backend

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/annotation"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/policy"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// nginxSchemes are the schemes of the protocols that ingress-nginx has.
var nginxSchemes = map[route.Protocol]annotation.Scheme{
	"": annotation.SchemeHTTP, route.ProtocolTLS: annotation.SchemeHTTPS, route.ProtocolH2C: annotation.SchemeH2C, route.ProtocolH2: annotation.SchemeH2,
}

// readNGINX completes the settings of the Service with those of an Ingress of
// ingress-nginx. Annotations of the Service come first.
func (b *builder) readNGINX() {
	switch b.variant {
	case nginx.BackendVariant:
	case nginx.HostVariant:
		b.settings.Scheme = annotation.SchemeHTTP
		return
	case nginx.HostVariantByTLS:
		b.settings.Scheme = annotation.SchemeHTTPS
		return
	case nginx.TLSVariant:
		b.nginx = &nginx.Backend{Protocol: route.ProtocolTLS}
		b.settings.Scheme = annotation.SchemeHTTPS
		return
	default:
		return
	}
	all := b.options.NGINX
	if name := b.certificate; name != "" {
		b.certificate = ""
		if object := b.view.Ingress(b.service.Namespace, name); object != nil {
			all, _, _ = nginx.Parse(object.Annotations, all)
		}
	}
	b.nginx = &nginx.OrDefaults(all).Backend
	s := b.settings
	s.Scheme = cmp.Or(s.Scheme, nginxSchemes[b.nginx.Protocol])
	if s.Sticky == nil {
		s.Sticky = b.nginx.StickyCookie()
	}
	if s.Balancing.Method == "" {
		balancing := b.nginx.Balancing()
		s.Balancing.Method, s.Balancing.Hash = balancing.Method, balancing.Hash
	}
	if s.NativeLB == nil && b.nginx.Native {
		s.NativeLB = &b.nginx.Native
	}
}

// nginxTransport returns how the endpoints of an Ingress of ingress-nginx are verified:
// not at all, unless an annotation enables it.
func (b *builder) nginxTransport() (reference.Transport, *refusal.Refusal) {
	if b.nginx == nil || b.settings.Scheme != annotation.SchemeHTTPS && b.settings.Scheme != annotation.SchemeH2 {
		return reference.Transport{}, nil
	}
	spec := map[string]any{"skipVerify": !b.nginx.Verify}
	if b.nginx.ServerName != "" {
		spec["serverName"] = b.nginx.ServerName
	}
	source := reference.Source{View: b.view, Namespace: b.service.Namespace, CrossNamespace: b.options.CrossNamespace}
	if name := b.nginx.TLSSecret; name != "" {
		body, fault := source.Secret(name)
		if fault != nil {
			return reference.Transport{}, fault
		}
		if len(body.Data["tls.crt"]) > 0 {
			spec["certificateSecret"] = name
		}
		if b.nginx.Verify {
			spec["caSecret"] = name
		}
	}
	object := &snapshot.Resource{
		Kind: snapshot.BackendTransport, Namespace: b.service.Namespace, Name: "nginx", Spec: map[string]any{"tls": spec},
	}
	declared, faults := policy.Transport(object, source)
	if len(faults) > 0 {
		return reference.Transport{}, &faults[0]
	}
	return declared, nil
}

// hostService returns the Service that stands for a host outside of the cluster: one of
// type ExternalName, so that all its conditions hold.
func hostService(id route.BackendID) *snapshot.ServiceFacts {
	if id.Variant != nginx.HostVariant && id.Variant != nginx.HostVariantByTLS {
		return nil
	}
	service := &snapshot.ServiceFacts{Namespace: id.Namespace, Name: id.Name}
	service.Spec.Type, service.Spec.ExternalName = corev1.ServiceTypeExternalName, id.Name
	service.Spec.Ports = []corev1.ServicePort{{Port: int32(id.Port), Protocol: corev1.ProtocolTCP}}
	return service
}
