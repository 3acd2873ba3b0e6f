package resolve

import (
	"maps"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/route"
)

// maxRequests bounds the certificate requests of one Ingress.
const maxRequests = 100

// readRequests collects the certificates that the Ingress requests: one for each
// set of domains in the annotations, or else one for each host of the rules. A
// host that spec.tls names a Secret for is left out, even while that Secret is
// missing: one that is about to be written must not cost an order.
//
// While a certificate is not issued its hosts are served with the default one. A
// host that can never get a certificate in this way is closed.
func (r *resolver) readRequests(supplied map[string]bool) {
	written := r.settings.certResolver
	if written == "" {
		return
	}
	configured, fault := FindResolver(r.options.Resolvers, written, r.source.Namespace)
	if fault != nil {
		fault = r.refuse(r.resolved.Ingress, fault.At(r.settings.certResolverField))
		r.closeUncovered(func(string) *refusal.Refusal { return fault })
		return
	}
	name, wildcards := ResolverName(written), map[string]*refusal.Refusal{}
	defer r.closeUncovered(func(host string) *refusal.Refusal { return wildcards[host] })
	for _, hosts := range r.wanted() {
		hosts = slices.DeleteFunc(hosts, func(host string) bool {
			if coveredBy(supplied, host) {
				return true
			}
			_, wildcard := route.WildcardParent(host)
			if wildcard && !configured.Wildcards {
				wildcards[host] = r.refuseWildcard(host, name)
			}
			return wildcard && !configured.Wildcards
		})
		switch {
		case len(hosts) == 0:
		case len(r.resolved.Requests) == maxRequests:
			r.refuseHere(r.settings.certResolverField, refusal.TooLarge,
				"more than %d certificates are requested, and those after them are not issued: use several Ingresses", maxRequests)
			return
		default:
			r.request(name, hosts)
		}
	}
}

// FindResolver returns the resolver that an object of a namespace names, or why it
// cannot use one: it is unknown, or not for this namespace.
func FindResolver(resolvers map[string]CertificateResolver, written, namespace string) (CertificateResolver, *refusal.Refusal) {
	name := ResolverName(written)
	found, known := resolvers[name]
	switch {
	case !known && len(resolvers) == 0:
		return found, refusal.New("", refusal.Unsupported,
			"no resolver is set in the options of the edge, so %s gives no certificates: set one under certificatesResolvers, or name Secrets with certificates in its place", quoted(written))
	case !known:
		return found, refusal.New("", refusal.NotFound, "there is no resolver %s: the options of the edge have %s",
			quoted(written), strings.Join(slices.Sorted(maps.Keys(resolvers)), ", "))
	case len(found.Namespaces) > 0 && !slices.Contains(found.Namespaces, namespace):
		return found, refusal.New("", refusal.NotAllowed,
			"the namespace %s may not use the resolver %s: add it to certificatesResolvers.%s.acme.dnsChallenge.namespaces in the options of the edge, or use another resolver",
			namespace, name, name)
	}
	return found, nil
}

// ResolverName returns the name of a resolver as the options have it.
func ResolverName(written string) string { return strings.ToLower(written) }

// wanted returns the hosts of each certificate, the main one first.
func (r *resolver) wanted() [][]string {
	var all [][]string
	if len(r.settings.together) == 0 {
		for _, host := range r.namedHosts() {
			all = append(all, []string{host})
		}
		return all
	}
	left := maxDomains // addDomains refuses those beyond
	for _, domains := range r.settings.together {
		var hosts []string
		for _, domain := range domains[:min(left, len(domains))] {
			host, accepted := r.acceptHost(domain.field, domain.name, false)
			if accepted && !slices.Contains(hosts, host) {
				hosts = append(hosts, host)
			}
		}
		left -= min(left, len(domains))
		all = append(all, hosts)
	}
	return all
}

// refuseWildcard refuses a wildcard host: authorities validate wildcards by DNS-01
// only (RFC 8555, section 7.1.3).
func (r *resolver) refuseWildcard(host, resolver string) *refusal.Refusal {
	return r.refuseHere(r.settings.certResolverField, refusal.Unsupported,
		"a certificate for %s needs a challenge by DNS, and the resolver %s has one by HTTP: set certificatesResolvers.<name>.acme.dnsChallenge in the options of the edge and name that resolver, or name a Secret for the host in spec.tls", host, resolver)
}

// request adds a certificate request, and uses the certificate if it is stored
// already.
func (r *resolver) request(resolver string, hosts []string) {
	field := r.settings.certResolverField
	wanted := CertificateRequest{Resolver: resolver, Hosts: hosts, Secret: certrequest.SecretName(resolver, hosts), Field: field}
	found := r.readPair(wanted.Secret)
	fits := found.certificate != nil && !slices.ContainsFunc(hosts, func(host string) bool { return !Covers(found.leaf, host) })
	switch {
	case fits:
		r.resolved.Certificates = append(r.resolved.Certificates, CertificateUse{Certificate: found.certificate, Hosts: hosts, Field: field})
		if found.fault != nil {
			r.refuse(r.resolved.Ingress, found.fault.At(field))
		}
	case found.fault != nil && found.fault.Reason != refusal.NotFound:
		wanted.Pending = found.fault.At(field)
	default:
		wanted.Pending = refusal.New(field, refusal.NotReady,
			"the certificate for %s is being requested by the resolver %s; the default one is served meanwhile", refusal.Shorten(strings.Join(hosts, ", "), maxField), resolver)
	}
	r.resolved.Requests = append(r.resolved.Requests, wanted)
}

// closeUncovered closes the paths of hosts without a certificate for which
// faultOf returns a fault.
func (r *resolver) closeUncovered(faultOf func(host string) *refusal.Refusal) {
	covered := map[string]bool{}
	for i := range r.resolved.Certificates {
		for _, host := range r.resolved.Certificates[i].Hosts {
			covered[host] = true
		}
	}
	for i := range r.resolved.Paths {
		path := &r.resolved.Paths[i]
		if fault := faultOf(path.Host); fault != nil && path.Target.Closed == nil && !coveredBy(covered, path.Host) {
			path.Target.Closed = fault
		}
	}
}

// coveredBy reports whether a set has a host or its wildcard.
func coveredBy(set map[string]bool, host string) bool {
	_, parent, _ := strings.Cut(host, ".")
	return set[host] || set["*."+parent]
}
