package preflight

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/access/mode"
)

// checkRouteResources is P20: the Ingress, HTTPRoute or VirtualServices route
// the three prefixes of each host to internal-router:80 (R91, R92).
func checkRouteResources(ctx context.Context, in *CheckContext, out *Report) {
	address := in.externalURL(out)
	if address == nil {
		return
	}
	// The chart creates these objects.
	if in.Stage == Before {
		out.skip("they are there after the install")
		return
	}
	switch in.requestedMode() {
	case mode.Ingress:
		in.ingressRoutes(ctx, out)
	case mode.HTTPRoute:
		in.httpRoutes(ctx, out)
	case mode.Mesh:
		in.meshRoutes(ctx, address, out)
	case mode.Unresolved, mode.Tunnel:
	}
}

// ingressRoutes checks class and rules of the Ingress.
func (in *CheckContext) ingressRoutes(ctx context.Context, out *Report) {
	subject := named("Ingress", in.Settings.Namespace, mode.RouterService)
	out.inspect("the rules of %s", subject)
	ingress, err := in.routerIngress(ctx)
	// The complete object is part of the fix, because users often edit these
	// objects by hand.
	fix := in.reapplyHint() + "; it has to be:\n" + in.wantedYAML(mode.Ingress)
	if err != nil {
		in.offerRelease(out.missing(subject, err, fix), nil)
		return
	}
	if class := ingress.Spec.IngressClassName; class == nil || *class != in.Settings.Ingress.ClassName {
		in.offerRelease(out.fail(subject, "its ingressClassName is not "+in.Settings.Ingress.ClassName, fix), nil)
	}
	var lost []string
	// Every host needs all three paths: webhooks may use another host than
	// the platform.
	for _, host := range in.Settings.Ingress.Hosts {
		for _, path := range mode.Paths() {
			if !ingressLeads(ingress, host, path) {
				lost = append(lost, host+path)
			}
		}
	}
	if len(lost) > 0 {
		in.offerRelease(out.fail(subject, "it does not lead "+shorten(lost)+" to "+routerTarget(), fix), nil)
	}
}

// reapplyHint names the command that writes the objects of the release again.
func (in *CheckContext) reapplyHint() string {
	return fmt.Sprintf("slipway runtime upgrade %s --namespace %s --release %s --reapply writes it again",
		in.Settings.Runtime, in.Settings.Namespace, cmp.Or(in.Release, defaultRelease))
}

// routerTarget returns the Service and port of the router.
func routerTarget() string { return fmt.Sprintf("%s:%d", mode.RouterService, mode.RouterPort) }

// ingressLeads reports whether a rule routes the path to the router. The rule
// without a host applies to hosts without a rule and to IP addresses.
func ingressLeads(ingress *networkingv1.Ingress, host, path string) bool {
	rules := ingress.Spec.Rules
	// A rule for the exact host takes precedence over the rule without a
	// host.
	own := ""
	if slices.ContainsFunc(rules, func(rule networkingv1.IngressRule) bool { return rule.Host == host }) {
		own = host
	}
	return slices.ContainsFunc(rules, func(rule networkingv1.IngressRule) bool {
		return rule.Host == own && rule.HTTP != nil && slices.ContainsFunc(rule.HTTP.Paths, func(one networkingv1.HTTPIngressPath) bool {
			exact := one.PathType != nil && *one.PathType == networkingv1.PathTypeExact
			service := one.Backend.Service
			return !exact && covers(one.Path, path) && service != nil && service.Name == mode.RouterService && service.Port.Number == mode.RouterPort
		})
	})
}

// covers reports whether a prefix matches a path and everything below it.
func covers(prefix, path string) bool {
	prefix = strings.TrimSuffix(prefix, "/")
	return prefix == "" || prefix == path || strings.HasPrefix(path, prefix+"/")
}

// httpRoutes checks hosts, rules and status of the HTTPRoute.
func (in *CheckContext) httpRoutes(ctx context.Context, out *Report) {
	resource := schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
	subject := named("HTTPRoute", in.Settings.Namespace, mode.RouterService)
	out.inspect("the rules and the status of %s", subject)
	fix := in.reapplyHint() + "; it has to be:\n" + in.wantedYAML(mode.HTTPRoute)
	route, err := in.Cluster.Dynamic.Resource(resource).Namespace(in.Settings.Namespace).Get(ctx, mode.RouterService, metav1.GetOptions{})
	if err != nil {
		in.offerRelease(out.missing(subject, err, fix), nil)
		return
	}
	// An HTTPRoute without hostnames accepts all hosts of its Gateway.
	hosts, _, _ := unstructured.NestedStringSlice(route.Object, "spec", "hostnames")
	var lost []string
	for _, host := range in.Settings.HTTPRoute.Hostnames {
		for _, path := range mode.Paths() {
			if len(hosts) > 0 && !slices.Contains(hosts, host) || !routeLeads(route, path) {
				lost = append(lost, host+path)
			}
		}
	}
	if len(lost) > 0 {
		in.offerRelease(out.fail(subject, "it does not lead "+shorten(lost)+" to "+routerTarget(), fix), nil)
	}
	in.routeAccepted(route, subject, out)
}

// routeLeads reports whether a rule of an HTTPRoute routes the path to the
// router.
func routeLeads(route *unstructured.Unstructured, path string) bool {
	rules, _, _ := unstructured.NestedSlice(route.Object, "spec", "rules")
	for _, each := range rules {
		matches, _ := child(each, "matches").([]any)
		taken := len(matches) == 0 || slices.ContainsFunc(matches, func(match any) bool {
			value, _ := child(child(match, "path"), "value").(string)
			kind, _ := child(child(match, "path"), "type").(string)
			return kind != "Exact" && kind != "RegularExpression" && covers(value, path)
		})
		backends, _ := child(each, "backendRefs").([]any)
		if taken && slices.ContainsFunc(backends, func(backend any) bool {
			return child(backend, "name") == mode.RouterService && fmt.Sprint(child(backend, "port")) == fmt.Sprint(mode.RouterPort)
		}) {
			return true
		}
	}
	return false
}

// routeAccepted reports Gateways that do not accept the route.
func (in *CheckContext) routeAccepted(route *unstructured.Unstructured, subject string, out *Report) {
	parents, _, _ := unstructured.NestedSlice(route.Object, "status", "parents")
	// The status is written by the Gateway's controller; without it no
	// Gateway has seen the route.
	if len(parents) == 0 {
		out.fail(subject, "no Gateway has accepted it", "see whether the Gateway allows routes of the namespace "+in.Settings.Namespace+" (allowedRoutes)")
	}
	for _, each := range parents {
		parent := &unstructured.Unstructured{Object: map[string]any{"status": each}}
		name, _ := child(child(each, "parentRef"), "name").(string)
		for _, kind := range []string{"Accepted", "ResolvedRefs"} {
			if state := condition(parent, kind); state != "True" {
				out.fail(subject, fmt.Sprintf("its condition %s for the Gateway %s is %q", kind, name, state), "see why: kubectl describe httproute")
			}
		}
	}
}

// meshRoutes checks the VirtualServices of the namespace. The fix needs a
// valid gateway.
func (in *CheckContext) meshRoutes(ctx context.Context, address *url.URL, out *Report) {
	version, err := in.istioVersion()
	if err != nil {
		out.readError("VirtualServices", err)
		return
	}
	// A mesh needs only the URL of the runtime, which P19 requests.
	if version == "" && in.Gateway == "" {
		out.skip("the cluster has no Istio: another mesh serves the URL, see %s", URLResponse)
		return
	}
	resource := schema.GroupVersionResource{Group: mode.IstioGroup, Version: cmp.Or(version, mode.IstioVersion), Resource: "virtualservices"}
	// The same evaluation as slipway runtime mesh verify.
	settings := mode.MeshSettings{
		Runtime: in.Settings.Runtime, Namespace: in.Settings.Namespace, Gateway: in.Gateway, Hosts: []string{address.Hostname()}, Version: in.RuntimeVersion,
	}
	out.inspect("VirtualServices of the namespace %s", settings.Namespace)
	list, err := in.Cluster.Dynamic.Resource(resource).Namespace(settings.Namespace).List(ctx, metav1.ListOptions{Limit: maxListed})
	if err != nil {
		out.missing("VirtualServices", err, "install Istio, or choose another mode")
		return
	}
	var found []mode.Object
	for _, item := range list.Items {
		found = append(found, item.Object)
	}
	// All wrong paths are collected into one finding, because one
	// VirtualService fixes them.
	wrong := ""
	for _, state := range mode.VerifyMesh(settings, found) {
		if !state.OK {
			wrong += fmt.Sprintf("; %s%s: %s", state.Host, state.Path, state.Message)
		}
	}
	if wrong == "" {
		return
	}
	failure := out.fail("VirtualServices of "+settings.Namespace, "the mesh does not lead all paths to the runtime"+wrong,
		fmt.Sprintf("slipway runtime mesh apply --runtime %s -n %s --gateway GATEWAY --host %s", settings.Runtime, settings.Namespace, address.Hostname()))
	// A VirtualService of the chart is repaired by its release: another writer
	// would be a conflict in the next upgrade.
	if in.inRelease("VirtualService") {
		failure.Fix = in.reapplyHint()
		in.offerRelease(failure, nil)
		return
	}
	if in.Gateway == "" || finding.HasErrors(settings.Check(true)) {
		return
	}
	if text, err := mode.YAML(mode.VirtualServices(settings)...); err == nil {
		failure.Fix, failure.Plan, failure.Apply = "apply:\n"+text, text, in.applying(text)
	}
}

// wantedYAML returns the object that the mode needs.
func (in *CheckContext) wantedYAML(chosen mode.Mode) string {
	text, err := mode.YAML(mode.Objects(in.Settings, chosen)...)
	if err != nil {
		return err.Error()
	}
	return text
}
