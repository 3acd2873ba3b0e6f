package agent

import (
	"context"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/preflight"
)

// preflight is what the checks of this runtime look at: its cluster with its own
// rights, how it is reached, and the Git provider with its token.
func (r *station) preflight(ctx context.Context) (preflight.World, preflight.Options, error) {
	world := preflight.World{Cluster: r.agent.options.Cluster, Platform: &preflight.Platform{URL: r.given.PlatformURL}}
	if trusted := tlsWith(r.given.CAs); trusted != nil {
		world.Roots = trusted.RootCAs
	}
	options := preflight.Options{RuntimeVersion: r.given.Version, Settings: mode.Settings{
		Runtime: r.given.Name, Namespace: r.agent.options.ControlNamespace, AccountID: r.membership.AccountID(),
	}}
	r.reached(ctx, &options.Settings)
	options.Git.Repository = r.membership.GitSettings().GetSharedRepository()
	// Without credentials the checks of them are left out: setting them is a step
	// of the installation.
	if provider, _, err := r.integrations.Provider(ctx); err == nil {
		world.GitProvider = provider
	}
	return world, options, nil
}

// reached fills in the access mode.
func (r *station) reached(ctx context.Context, settings *mode.Settings) {
	address, err := url.Parse(r.given.AccessURL)
	if err != nil {
		address = &url.URL{}
	}
	switch r.given.Mode {
	case mode.Ingress:
		settings.Ingress = mode.IngressSettings{
			Enabled: true, Hosts: []string{address.Host}, ClassName: r.given.IngressClass, Protocol: address.Scheme,
		}
	case mode.HTTPRoute:
		settings.HTTPRoute = mode.HTTPRouteSettings{
			Enabled: true, Hostnames: []string{address.Host}, Protocol: address.Scheme, ParentRefs: r.gateways(ctx, settings.Namespace),
		}
	case mode.Mesh:
		off := false
		settings.TunnelEnabled, settings.IngressURL = &off, r.given.AccessURL
	case mode.Unresolved, mode.Tunnel:
	}
}

// gateways are those of the runtime's HTTPRoute. That there is no route is told by
// the checks.
func (r *station) gateways(ctx context.Context, namespace string) []mode.ParentRef {
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
