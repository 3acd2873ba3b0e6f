package controller

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// Explanation is an explanation with what a cluster adds to it.
type Explanation struct {
	*admin.Explanation
	// Certificate is the one that clients of the host are shown.
	Certificate *shownCertificate `json:"certificate,omitempty"`
	// Refusals are those of the Ingress that takes the request.
	Refusals []Finding `json:"refusals,omitempty"`
	// Others are Ingresses with this host that are not served, or not by this
	// edge.
	Others []string `json:"others,omitempty"`
}

type shownCertificate struct {
	Secret   string    `json:"secret"`
	NotAfter time.Time `json:"notAfter"`
}

// Explain says what would become of a request.
func (o *Offline) Explain(values url.Values) (*Explanation, error) {
	explained, err := admin.Explain(o.server, values)
	if err != nil {
		return nil, err
	}
	out := &Explanation{Explanation: explained}
	host := explained.Request.Host
	if explained.Request.TLS {
		out.Certificate = o.certificateOf(host)
	}
	winner := snapshot.Ref{}
	if explained.Rule != nil {
		winner = snapshot.Ref{Kind: snapshot.Ingress, Namespace: explained.Rule.Namespace, Name: explained.Rule.Name}
	}
	for _, refusal := range o.engine.Refusals() {
		if refusal.Object == winner || explained.Rule == nil && o.hasHost(refusal.Object, host) {
			out.Refusals = append(out.Refusals, Finding{
				Object: refusal.Object.String(), Field: refusal.Field, Reason: refusal.Reason, Message: refusal.Message,
			})
		}
	}
	_, others := o.Sites()
	for _, ref := range others {
		if o.hasHost(ref, host) {
			out.Others = append(out.Others, ref.String()+" has this host, but "+o.classText(ref))
		}
	}
	return out, nil
}

// certificateOf is the certificate with the exact name, or else the wildcard.
func (o *Offline) certificateOf(host string) *shownCertificate {
	_, parent, _ := strings.Cut(host, ".")
	for _, name := range []string{host, "*." + parent} {
		for _, certificate := range o.server.Table().Certificates {
			if !slices.Contains(certificate.Hosts, name) {
				continue
			}
			for _, info := range o.server.Certificates() {
				if info.ID.Namespace == certificate.ID.Namespace && info.ID.Name == certificate.ID.Name {
					return &shownCertificate{Secret: certificate.ID.String(), NotAfter: info.NotAfter}
				}
			}
		}
	}
	return nil
}

// hasHost reports whether an Ingress has rules for a host by name.
func (o *Offline) hasHost(ref snapshot.Ref, host string) bool {
	object := o.facts.Ingress(ref.Namespace, ref.Name)
	if ref.Kind != snapshot.Ingress || object == nil {
		return false
	}
	for _, rule := range object.Spec.Rules {
		if strings.EqualFold(rule.Host, host) {
			return true
		}
	}
	return false
}

// classText says why an Ingress is not ours.
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
