package resolve

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

// maxClaims bounds the hosts of all certificates of an Ingress together. Every
// host can have two, such as one with an RSA key and one with an ECDSA key.
const maxClaims = 2 * MaxHosts

// maxDomains bounds the domains that annotations name.
const maxDomains = 100

// pair is the certificate of a Secret, or the fault that it has none.
type pair struct {
	certificate *route.Certificate
	leaf        *x509.Certificate
	fault       *refusal.Refusal
}

// readCertificates resolves spec.tls. A bad entry does not affect the others.
func (r *resolver) readCertificates() {
	named := r.namedHosts()
	pairs := map[string]pair{}
	var used []pair // each Secret once
	claims := 0
	supplied := map[string]bool{} // hosts that spec.tls names a Secret for
	for i := range r.object.Spec.TLS {
		entry := &r.object.Spec.TLS[i]
		field := fmt.Sprintf("spec.tls[%d]", i)
		if i == MaxHosts {
			r.refuseHere(field, refusal.TooLarge, "there are more than %d entries, and this one and those after it are not used: use several Ingresses", MaxHosts)
			break
		}
		hosts := r.tlsHosts(field, entry.Hosts, named)
		if entry.SecretName == "" {
			continue // TLS with the default certificate
		}
		for _, host := range hosts {
			supplied[host] = true
		}
		found, known := pairs[entry.SecretName]
		if !known {
			found = r.readPair(entry.SecretName)
			pairs[entry.SecretName] = found
			used = append(used, found)
		}
		if found.fault != nil {
			r.refuse(r.resolved.Ingress, found.fault.At(field+".secretName"))
		}
		switch {
		case found.certificate == nil:
		case len(entry.Hosts) == 0 && len(hosts) == 0:
			r.refuseHere(field+".hosts", refusal.Invalid, "the rules have no host that the certificate could be for: list the hosts here")
		case len(hosts) > maxClaims-claims:
			r.refuseHere(field, refusal.TooLarge, "the certificates are for more than %d hosts together, and this one is not used: use several Ingresses", maxClaims)
		case len(hosts) > 0:
			claims += len(hosts)
			r.resolved.Certificates = append(r.resolved.Certificates, CertificateUse{Certificate: found.certificate, Hosts: hosts, Field: field + ".secretName"})
		}
	}
	r.addDomains(used)
	r.readRequests(supplied)
}

// namedHosts returns the hosts of the rules, without the empty one.
func (r *resolver) namedHosts() []string {
	var named []string
	for _, at := range r.ruleHosts {
		if at.host != "" {
			named = append(named, at.host)
		}
	}
	return named
}

// tlsHosts returns the hosts of an entry of spec.tls; those of the rules if it
// lists none.
func (r *resolver) tlsHosts(field string, written, named []string) []string {
	if len(written) == 0 {
		return named
	}
	var hosts []string
	seen := map[string]bool{}
	for i, text := range written {
		host, accepted := r.acceptHost(fmt.Sprintf("%s.hosts[%d]", field, i), text, false)
		if accepted && !seen[host] {
			seen[host] = true
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// readPair reads the certificate and key of a Secret in the Ingress's own
// namespace. An expired one is a fault, but is used: the edge chooses between the
// certificates of a host, and may have none better.
func (r *resolver) readPair(name string) pair {
	if strings.Contains(name, "/") {
		return pair{fault: refusal.New("", refusal.NotAllowed, "a certificate is used only in its own namespace: copy the Secret and give its name alone")}
	}
	certificate, fault := r.source.Certificate(name)
	if fault != nil {
		return pair{fault: fault}
	}
	parsed, err := tls.X509KeyPair([]byte(certificate.Chain), []byte(certificate.Key.Reveal()))
	if err != nil {
		return pair{fault: refusal.New("", refusal.Invalid,
			"the Secret %s/%s has no certificate with its key: %s", r.source.Namespace, name, err)}
	}
	if problems := certificate.Validate(); len(problems) > 0 {
		return pair{fault: refusal.New("", refusal.Invalid,
			"the Secret %s/%s cannot be used: %s", r.source.Namespace, name, problems[0].Message)}
	}
	found := pair{certificate: certificate, leaf: parsed.Leaf}
	now := time.Now()
	switch {
	case now.After(parsed.Leaf.NotAfter):
		found.fault = refusal.New("", refusal.Invalid,
			"the certificate in the Secret %s/%s expired on %s: renew it", r.source.Namespace, name, parsed.Leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(parsed.Leaf.NotBefore):
		found.fault = refusal.New("", refusal.Invalid,
			"the certificate in the Secret %s/%s is not valid before %s", r.source.Namespace, name, parsed.Leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return found
}

// addDomains assigns the domains of the annotations to the certificates of
// spec.tls that cover them.
func (r *resolver) addDomains(used []pair) {
	var domains []domainName
	for i, domain := range r.settings.domains {
		if i == maxDomains {
			r.refuseHere(domain.field, refusal.TooLarge, "there are more than %d domains, and this one and those after it are not used: list the hosts in spec.tls", maxDomains)
			break
		}
		if host, accepted := r.acceptHost(domain.field, domain.name, false); accepted {
			domains = append(domains, domainName{name: host, field: domain.field})
		}
	}
	for _, candidate := range used {
		if candidate.certificate == nil {
			continue
		}
		use := CertificateUse{Certificate: candidate.certificate}
		for _, domain := range domains {
			if Covers(candidate.leaf, domain.name) {
				use.Hosts = append(use.Hosts, domain.name)
				use.Field = domain.field
			}
		}
		if len(use.Hosts) > 0 {
			r.resolved.Certificates = append(r.resolved.Certificates, use)
		}
	}
}

// Covers reports whether a certificate is valid for a host. A wildcard host needs
// that wildcard among the names.
func Covers(leaf *x509.Certificate, host string) bool {
	if _, wildcard := route.WildcardParent(host); wildcard {
		return slices.ContainsFunc(leaf.DNSNames, func(name string) bool { return strings.EqualFold(name, host) })
	}
	return leaf.VerifyHostname(host) == nil
}
