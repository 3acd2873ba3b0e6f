package resolve

import (
	"cmp"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/route"
)

// authHint is the advice for a URL whose host the edge must not connect to.
const authHint = "write http://SERVICE.NAMESPACE.svc:PORT/PATH, or a host that an Ingress of this namespace serves; " +
	"providers.kubernetesIngress.allowExternalNameServices allows others"

// addExternalAuth adds the authentication by another server, behind all other
// policies of ingress-nginx. A server that cannot be resolved closes the Ingress.
func (r *resolver) addExternalAuth() {
	auth, annotation, operator := r.nginx.settings.Auth.Effective()
	if auth == nil || r.nginx.settings.Canary.Enabled || operator && r.challengesOnly() {
		return
	}
	source, field := r.source, nginx.FieldOf(annotation)
	if operator {
		source.CrossNamespace = true // the operator wrote the URL, not the namespace
	}
	backend, fault := r.authBackend(&auth.URL, source)
	if fault != nil {
		r.closeAll(r.refuseHere(field, fault.Reason, "%s", fault.Message))
		return
	}
	headers, fault := authHeaders(auth.HeadersFrom, source)
	if fault != nil {
		r.closeAll(r.refuseHere(nginx.FieldOf("auth-proxy-set-headers"), fault.Reason, "%s", fault.Message))
		return
	}
	made := auth.Policy(r.nginx.id, backend, headers)
	rule := route.Rule{Policies: []route.Policy{made}}
	for _, problem := range rule.Validate() {
		if strings.HasPrefix(problem.Field, "policies") {
			r.closeAll(r.refuseHere(field, problem.Reason, "%s", problem.Message))
			return
		}
	}
	r.nginx.policies = append(r.nginx.policies, made)
}

// challengesOnly reports whether all paths of the Ingress are those of ACME challenges,
// such as of the Ingresses that cert-manager makes.
func (r *resolver) challengesOnly() bool {
	for i := range r.object.Spec.Rules {
		if http := r.object.Spec.Rules[i].HTTP; http != nil {
			for j := range http.Paths {
				if !nginx.ChallengePath(http.Paths[j].Path) {
					return false
				}
			}
		}
	}
	return r.object.Spec.DefaultBackend == nil && len(r.object.Spec.Rules) > 0
}

// authBackend returns the backend of the URL of an authentication server. It allows no
// more than slipway.dev/forward-auth: a Service, the edge's own Ingresses of the namespace
// for their Services, and other hosts where Services of type ExternalName may lead there.
func (r *resolver) authBackend(at *nginx.AuthURL, source reference.Source) (route.BackendID, *refusal.Refusal) {
	if name, found := reference.ServiceOfHost(at.Host); found {
		id, fault := source.Backend(name, networkingv1.ServiceBackendPort{Number: int32(at.Port)})
		if id.Variant = nginx.BackendVariant; at.Scheme == "https" {
			id.Variant = nginx.TLSVariant
		}
		return id, fault
	}
	hosts := []string{at.Host}
	if at.Host == "" {
		if hosts = r.writtenHosts(); len(hosts) == 0 {
			return route.BackendID{}, refusal.New("", refusal.Unsupported, "the URL has $host, and the Ingress has no host: %s", authHint)
		}
	}
	var found route.BackendID
	for i, host := range hosts {
		id, fault := r.servedBy(host, at, source)
		switch {
		case fault != nil:
			return route.BackendID{}, fault
		case i > 0 && id != found:
			return route.BackendID{}, refusal.New("", refusal.Conflict, "different Services serve the URL for the hosts %s and %s: use an Ingress for each of them", hosts[0], host)
		}
		found = id
	}
	if found != (route.BackendID{}) {
		return found, nil
	}
	if at.Host == "" || !r.options.ExternalNames {
		return route.BackendID{}, refusal.New("", refusal.NotAllowed, "no Ingress of this namespace serves %s://%s%.120s: %s",
			at.Scheme, cmp.Or(at.Host, hosts[0]), at.Target, authHint)
	}
	found = route.BackendID{Namespace: r.source.Namespace, Name: at.Host, Port: at.Port, Variant: nginx.HostVariant}
	if at.Scheme == "https" {
		found.Variant = nginx.HostVariantByTLS
	}
	return found, nil
}

// writtenHosts returns the hosts of the rules, each once, as they are written.
func (r *resolver) writtenHosts() []string {
	var hosts []string
	seen := map[string]bool{}
	for i := range r.object.Spec.Rules {
		if host := r.object.Spec.Rules[i].Host; host != "" && !seen[host] {
			seen[host] = true
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// servedBy returns the Service that serves a URL by an Ingress of this edge; the zero
// backend if there is none. The edge sends the sub-request there itself: a request to its
// own address would be a loop. Path and host decide, as for a request of a client; other
// conditions of the Ingress do not hold.
func (r *resolver) servedBy(host string, at *nginx.AuthURL, source reference.Source) (route.BackendID, *refusal.Refusal) {
	path, _, _ := strings.Cut(at.Target, "?")
	path, _, _ = strings.Cut(path, "$")
	var best *networkingv1.HTTPIngressPath
	var owner *networkingv1.Ingress
	objects := source.View.IngressesOf(host)
	namespace := r.authNamespace(host, objects, source)
	for _, object := range objects {
		if namespace != "" && object.Namespace != namespace || !ofNGINX(source.View, object, r.options) && !ours(source.View, object, r.options) {
			continue
		}
		if found := bestPath(object, host, path); found != nil && (best == nil || len(found.Path) > len(best.Path)) {
			best, owner = found, object
		}
	}
	switch {
	case best == nil:
		return route.BackendID{}, nil
	case best.Backend.Service == nil:
		return route.BackendID{}, refusal.New("", refusal.Unsupported, "the Ingress %s/%s has no Service for the URL: %s", owner.Namespace, owner.Name, authHint)
	}
	id, fault := source.In(owner.Namespace).Backend(best.Backend.Service.Name, best.Backend.Service.Port)
	if fault != nil || !ofNGINX(source.View, owner, r.options) {
		return id, fault
	}
	settings, _, _ := nginx.Parse(owner.Annotations, r.options.NGINX.Defaults)
	// nginx would authenticate the sub-request, too, without an end. The Service behind
	// that Ingress is not the authentication server, and could admit every request.
	if auth, _, _ := settings.Auth.Effective(); auth != nil {
		return route.BackendID{}, refusal.New("", refusal.Conflict, "the Ingress %s/%s, which serves the URL, requires authentication itself: %s", owner.Namespace, owner.Name, authHint)
	}
	if settings.NeedsRewrite(best.Path) {
		return route.BackendID{}, refusal.New("", refusal.Unsupported, "the Ingress %s/%s rewrites the path of the URL: write http://%s.%s.svc:PORT/PATH",
			owner.Namespace, owner.Name, best.Backend.Service.Name, owner.Namespace)
	}
	id.Variant = settings.VariantFor(owner.Name, r.options.NGINX.Defaults)
	return id, nil
}

// authNamespace returns the namespace whose Ingresses serve a URL with the host: the one
// that names the URL. The URL of the operator leads to the owner of the host, so that no
// other namespace gets the sub-requests by an Ingress that is refused. It is empty where
// namespaces share their hosts.
func (r *resolver) authNamespace(host string, objects []*networkingv1.Ingress, source reference.Source) string {
	if !source.CrossNamespace {
		return source.Namespace
	}
	if r.options.HostSharing == HostSharingOpen {
		return ""
	}
	if owners, known := r.backends.(HostOwners); known {
		if owner := owners.HostOwner(strings.ToLower(host)); owner != "" {
			return owner
		}
	}
	if len(objects) == 0 {
		return source.Namespace
	}
	return objects[0].Namespace // the oldest
}

// bestPath returns the longest path of an Ingress for a host that has a path below it.
func bestPath(object *networkingv1.Ingress, host, path string) (best *networkingv1.HTTPIngressPath) {
	for i := range object.Spec.Rules {
		rule := &object.Spec.Rules[i]
		if rule.Host != host || rule.HTTP == nil {
			continue
		}
		for j := range rule.HTTP.Paths {
			candidate := &rule.HTTP.Paths[j]
			exact := candidate.PathType != nil && *candidate.PathType == networkingv1.PathTypeExact
			prefix := strings.TrimSuffix(candidate.Path, "/")
			fits := path == candidate.Path || !exact && (path == prefix || strings.HasPrefix(path, prefix+"/"))
			if fits && (best == nil || len(candidate.Path) > len(best.Path)) {
				best = candidate
			}
		}
	}
	return best
}

// authHeaders returns the headers of a ConfigMap; none without a name.
func authHeaders(name string, source reference.Source) ([]route.HeaderValue, *refusal.Refusal) {
	if name == "" {
		return nil, nil
	}
	return source.HeaderMap(name)
}
