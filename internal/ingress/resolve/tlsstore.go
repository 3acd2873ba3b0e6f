package resolve

import (
	"slices"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/traefik"
	"slipway.dev/slipway/internal/route"
)

// CertificateStore has the certificates of a TLSStore. They are for names that have none by
// their own routes.
type CertificateStore struct {
	// Default is shown to clients that name no host, or one without a certificate; nil
	// for that of the edge.
	Default *route.Certificate
	// Certificates are for the names in them.
	Certificates []CertificateUse
}

// TLSStore resolves a TLSStore. Its certificates are for names of all namespaces, so there
// is one: that of the namespace that the operator chose.
func TLSStore(view *snapshot.View, at snapshot.Ref, options Options, backends RouteBackends) *ResolvedIngress {
	r, object := newRouteResolver(view, at, options, backends)
	if !r.resolved.Ours {
		return r.resolved
	}
	switch own := options.Traefik.StoreNamespace; {
	case at.Name != traefik.StoreName:
		r.refuseHere("metadata.name", refusal.Unsupported, "the TLSStore %s is used, and no other, as in Traefik: rename it", traefik.StoreName)
		return r.resolved
	case at.Namespace != own:
		r.refuseHere("metadata.namespace", refusal.NotAllowed,
			"a TLSStore is for all namespaces, so that of the namespace %s is used: name the Secrets in tls.secretName of your routes, or set providers.kubernetesCRD.tlsStoreNamespace", quoted(own))
		return r.resolved
	}
	decoded, faults := traefik.TLSStore(object)
	for i := range faults {
		r.refuse(at, &faults[i])
	}
	store := &CertificateStore{}
	if decoded.Default != nil {
		store.Default = r.readStored(*decoded.Default).certificate
	}
	for i, written := range decoded.Certificates {
		if i == maxDomains {
			r.refuseHere(written.Field, refusal.TooLarge, "there are more than %d certificates, and this one and those after it are not used", maxDomains)
			break
		}
		found := r.readStored(written)
		if found.certificate == nil {
			continue
		}
		use := CertificateUse{Certificate: found.certificate, Field: written.Field}
		for _, name := range found.leaf.DNSNames {
			if host := SpellHost(name); r.nameable(host) && !slices.Contains(use.Hosts, host) {
				use.Hosts = append(use.Hosts, host)
			}
		}
		if len(use.Hosts) == 0 {
			r.refuseHere(written.Field, refusal.Invalid, "the certificate has no name of a host: use it as defaultCertificate, or remove it")
			continue
		}
		store.Certificates = append(store.Certificates, use)
	}
	r.resolved.Store = store
	r.finish()
	return r.resolved
}

// readStored reads a Secret of the store and reports its fault.
func (r *routeResolver) readStored(written traefik.StoreSecret) pair {
	if written.Name == "" {
		return pair{} // a fault of the spec
	}
	found := r.readPair(written.Name)
	if found.fault != nil {
		r.refuse(r.resolved.Ingress, found.fault.At(written.Field))
	}
	return found
}

// nameable reports whether the table can have a certificate for a host.
func (r *routeResolver) nameable(host string) bool {
	probe := route.Certificate{ID: route.CertificateID{Name: "probe"}, Chain: "x", Key: route.NewSecret("x"), Hosts: []string{host}}
	return len(probe.Validate()) == 0
}
