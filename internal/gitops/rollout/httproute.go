package rollout

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// routeNames are the HTTPRoutes whose weights are written.
func routeNames(routing *v1alpha1.RolloutTrafficRouting) []string {
	if routing == nil || routing.Plugins == nil || routing.Plugins.GatewayAPI == nil {
		return nil
	}
	var names []string
	if one := routing.Plugins.GatewayAPI.HTTPRoute; one != "" {
		names = append(names, one)
	}
	for _, route := range routing.Plugins.GatewayAPI.HTTPRoutes {
		names = append(names, route.Name)
	}
	return names
}

// missingHTTPRoutes checks that the routes are in the namespace of the Rollout, exist
// and have both Services in a rule.
func (p *pass) missingHTTPRoutes(place string) string {
	canary := p.spec.Strategy.Canary
	if canary.TrafficRouting.Plugins == nil || canary.TrafficRouting.Plugins.GatewayAPI == nil {
		return ""
	}
	place += ".plugins.argoproj-labs/gatewayAPI"
	gateway := canary.TrafficRouting.Plugins.GatewayAPI
	if gateway.Namespace != "" && gateway.Namespace != p.rollout.Namespace {
		return place + ".namespace: it is not supported: routes are in the namespace of the Rollout"
	}
	names := routeNames(canary.TrafficRouting)
	if len(names) == 0 {
		return place + ": Required value: name an HTTPRoute with httpRoute or httpRoutes"
	}
	for _, name := range names {
		route := p.seen.Routes[name]
		if route == nil {
			return fmt.Sprintf("%s: Invalid value: %q: HTTPRoute %q not found", place, name, name)
		}
		if !weigh(withoutManaged(route), canary, 0, p.fullWeight()) {
			return fmt.Sprintf("%s: Invalid value: %q: no rule of HTTPRoute %q has the backends %s and %s", place, name, name, canary.StableService, canary.CanaryService)
		}
	}
	return ""
}

// writeRouteWeights writes the weights of both Services to an HTTPRoute, and the rules of
// managed routes. A merge patch replaces the list of rules, so that it has the version that
// was read.
func (p *pass) writeRouteWeights(name string, weight int32) {
	route := p.seen.Routes[name]
	if route == nil {
		return // invalid has reported it
	}
	rules := withoutManaged(route)
	weigh(rules, p.spec.Strategy.Canary, weight, p.fullWeight())
	var hashes []string
	for _, rule := range p.managedRules(name, rules) {
		hashes = append(hashes, ruleHash(rule))
		rules = append(rules, rule)
	}
	before, _, _ := unstructured.NestedSlice(route.Object, "spec", "rules") // withoutManaged has read it
	recorded, record := route.GetAnnotations()[annotationRules], strings.Join(hashes, ",")
	if reflect.DeepEqual(before, rules) && recorded == record {
		return
	}
	metadata := map[string]any{"resourceVersion": route.GetResourceVersion()}
	switch {
	case recorded == record:
	case record == "":
		metadata["annotations"] = map[string]any{annotationRules: nil}
	default:
		metadata["annotations"] = map[string]any{annotationRules: record}
	}
	p.write(Write{Resource: httpRoutes, Name: name, Patch: map[string]any{"metadata": metadata, "spec": map[string]any{"rules": rules}}})
}

// weigh sets the weights in the rules of a route, and reports whether a rule has both
// Services.
func weigh(rules []any, canary *v1alpha1.CanaryStrategy, weight, full int32) (found bool) {
	for _, one := range rules {
		rule, _ := one.(map[string]any)
		backends, _ := rule["backendRefs"].([]any)
		ofStable, ofCanary := backendOf(backends, canary.StableService), backendOf(backends, canary.CanaryService)
		if ofStable == nil || ofCanary == nil {
			continue
		}
		ofStable["weight"], ofCanary["weight"] = int64(full-weight), int64(weight)
		found = true
	}
	return found
}

// backendOf returns the backend of a Service; nil if there is none.
func backendOf(backends []any, service string) map[string]any {
	for _, one := range backends {
		backend, _ := one.(map[string]any)
		if kind, _ := backend["kind"].(string); backend["name"] == service && (kind == "" || kind == "Service") {
			return backend
		}
	}
	return nil
}
