package agent

import (
	"context"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/preflight"
)

// preflight returns the input of the checks of an installed runtime: its
// cluster with the agent's rights, its access mode, and the Git provider with
// its token.
func (r *platformRuntime) preflight(ctx context.Context) (preflight.World, preflight.Options, error) {
	world := preflight.World{Cluster: r.agent.options.Cluster, Platform: &preflight.Platform{URL: r.runtimeOptions.PlatformURL}}
	if trusted := tlsWith(r.runtimeOptions.CAs); trusted != nil {
		world.Roots = trusted.RootCAs
	}
	options := preflight.Options{RuntimeVersion: r.runtimeOptions.Version, Settings: mode.Settings{
		Runtime: r.runtimeOptions.Name, Namespace: r.agent.options.ControlNamespace, AccountID: r.membership.AccountID(),
	}}
	r.setAccessMode(ctx, &options.Settings)
	options.Git.Repository = r.membership.GitSettings().GetSharedRepository()
	// The same lookup as that of a fetch, so that the checks predict its result.
	if location, err := sharedrepo.Parse(options.Git.Repository); err == nil {
		if at, err := remote.ParseAddress(location.RepoURL); err == nil {
			options.Git.CAs = r.credentials.CertificateAuthorities(at.HostPort())
		}
	}
	// Without credentials their checks are skipped: setting them is a later
	// step of the installation.
	if provider, _, err := r.integrations.Provider(ctx); err == nil {
		world.GitProvider = provider
	}
	return world, options, nil
}

// setAccessMode sets how the platform reaches the runtime. The checks of the
// tunnel need nothing but its settings.
func (r *platformRuntime) setAccessMode(ctx context.Context, settings *mode.Settings) {
	// The address was validated with the options; an invalid one fails its own
	// check.
	address, err := url.Parse(r.runtimeOptions.AccessURL)
	if err != nil {
		address = &url.URL{}
	}
	switch r.runtimeOptions.Mode {
	case mode.Ingress:
		settings.Ingress = mode.IngressSettings{
			Enabled: true, Hosts: []string{address.Host}, ClassName: r.runtimeOptions.IngressClass, Protocol: address.Scheme,
		}
	case mode.HTTPRoute:
		settings.HTTPRoute = mode.HTTPRouteSettings{
			Enabled: true, Hostnames: []string{address.Host}, Protocol: address.Scheme, ParentRefs: r.parentRefs(ctx, settings.Namespace),
		}
	case mode.Mesh:
		off := false
		settings.TunnelEnabled, settings.IngressURL = &off, r.runtimeOptions.AccessURL
	case mode.Unresolved, mode.Tunnel:
	}
}

// parentRefs returns the Gateways of the runtime's HTTPRoute. The checks report
// a missing route.
func (r *platformRuntime) parentRefs(ctx context.Context, namespace string) []mode.ParentRef {
	resource := schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
	route, err := r.agent.options.Cluster.Dynamic.Resource(resource).Namespace(namespace).Get(ctx, mode.RouterService, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	parents, _, _ := unstructured.NestedSlice(route.Object, "spec", "parentRefs")
	var all []mode.ParentRef
	for _, each := range parents {
		parent, _ := each.(map[string]any)
		name, _, _ := unstructured.NestedString(parent, "name")
		where, _, _ := unstructured.NestedString(parent, "namespace")
		all = append(all, mode.ParentRef{Name: name, Namespace: where})
	}
	return all
}
