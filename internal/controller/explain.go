package controller

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/ingress/manifest"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Explanation is the routing explanation of the admin API with the facts that
// only the cluster or the manifests have.
type Explanation struct {
	*admin.Explanation
	// Certificate is the certificate that clients of the host get.
	Certificate *shownCertificate `json:"certificate,omitempty"`
	// Refusals are those of the Ingress or route that handles the request, or of all
	// with its host if none does, and those of Ingresses that have the host of
	// another namespace.
	Refusals []manifest.Finding `json:"refusals,omitempty"`
	// Others are Ingresses with the same host that this edge does not serve,
	// and why.
	Others []string `json:"others,omitempty"`
}

// shownCertificate identifies a certificate by its Secret. It never includes
// the key.
type shownCertificate struct {
	Secret   string    `json:"secret"`
	NotAfter time.Time `json:"notAfter"`
}

// Explain explains how a request would be handled. values are the query
// parameters of the admin API. Load must have succeeded.
func (o *Offline) Explain(values url.Values) (*Explanation, error) {
	explained, err := admin.Explain(o.server, values)
	if err != nil {
		return nil, err
	}
	out := &Explanation{Explanation: explained}
	host := explained.Request.Host
	if explained.Request.TLS {
		out.Certificate = o.certificateOf(explained.Request.Listener, host)
	}
	winner := snapshot.Ref{}
	if explained.Rule != nil {
		winner = refOfRule(*explained.Rule)
	}
	// Without a matching rule, refusals of the host are the likely cause. A rule
	// that is not granted is in no list of rules.
	for _, refused := range o.engine.Refusals() {
		ref, denied := snapshot.RefOf(refused.Object), refused.Reason == refusal.HostNotGranted
		likely := explained.Rule == nil && (o.hasHost(ref, host) || denied && o.hasHost(ref, "")) || denied && o.hasHost(ref, host)
		if ref == winner || likely {
			out.Refusals = append(out.Refusals, manifest.Finding{
				Object: refused.Object.String(), Field: refused.Field, Reason: refused.Reason, Message: refused.Message,
			})
		}
	}
	if explained.Request.TLS && explained.Rule == nil {
		out.Refusals = append(out.Refusals, o.unservedListeners(host)...)
	}
	// Ingresses of another class are a common reason for a missing route.
	_, others := o.Sites()
	for _, ref := range others {
		if o.hasHost(ref, host) {
			out.Others = append(out.Others, ref.String()+" has this host, but "+o.classText(ref))
		}
	}
	return out, nil
}

// refOfRule returns the object of a rule. The identity of a rule has no group.
func refOfRule(id route.ID) snapshot.Ref {
	return snapshot.Ref{Kind: snapshot.KindOfRule(id.Kind), Namespace: id.Namespace, Name: id.Name}
}

// certificateOf returns the certificate of a listener, or of all entry points for an
// empty one: that with the exact name, or else the wildcard, in the order of the TLS
// handshake. It returns nil if clients get the default certificate.
func (o *Offline) certificateOf(listener, host string) *shownCertificate {
	table := o.server.Table()
	hostsOf := map[route.CertificateID][]string{}
	for _, l := range table.Listeners {
		for _, use := range l.Certificates {
			if l.ID.String() == listener {
				hostsOf[use.Certificate] = append(hostsOf[use.Certificate], use.Host)
			}
		}
	}
	_, parent, _ := strings.Cut(host, ".")
	for _, name := range []string{host, "*." + parent, ""} {
		for _, certificate := range table.Certificates {
			hosts := certificate.Hosts
			if listener != "" {
				hosts = hostsOf[certificate.ID]
			}
			if !slices.Contains(hosts, name) {
				continue
			}
			if parsed, err := tls.X509KeyPair([]byte(certificate.Chain), []byte(certificate.Key.Reveal())); err == nil {
				return &shownCertificate{Secret: certificate.ID.String(), NotAfter: parsed.Leaf.NotAfter}
			}
		}
	}
	return nil
}

// hasHost reports whether an Ingress has a rule with exactly this host,
// ignoring case. Wildcard rules do not count. An Ingress without rules has its
// default backend for the empty host.
func (o *Offline) hasHost(ref snapshot.Ref, host string) bool {
	if snapshot.IsTraefikRoute(ref.Kind) {
		return o.engine.HasHost(ref, host)
	}
	object := o.facts.Ingress(ref.Namespace, ref.Name)
	if ref.Kind != snapshot.Ingress || object == nil {
		return false
	}
	if len(object.Spec.Rules) == 0 {
		return host == ""
	}
	return slices.ContainsFunc(object.Spec.Rules, func(rule networkingv1.IngressRule) bool { return strings.EqualFold(rule.Host, host) })
}

// classText explains why an Ingress is not served by this edge. The class field
// wins over the annotation, as in Kubernetes. ref must exist.
func (o *Offline) classText(ref snapshot.Ref) string {
	object := o.facts.Ingress(ref.Namespace, ref.Name)
	if class := object.Spec.IngressClassName; class != nil {
		return fmt.Sprintf("its class %q is not served by this edge", *class)
	}
	if class := object.Annotations["kubernetes.io/ingress.class"]; class != "" {
		return fmt.Sprintf("its annotation kubernetes.io/ingress.class names %q, which this edge does not serve", class)
	}
	return "it has no class, and this edge serves only its own"
}
