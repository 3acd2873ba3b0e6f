package rollout

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// annotationRules has the hashes of the rules that steps have added to an HTTPRoute. A
// rule that a person or a sync has written is never taken for one of them.
const annotationRules = "slipway.dev/rollout-rules"

// managedRoutes are the routes by header and the mirrors that hold at the current step, in
// the order of trafficRouting.managedRoutes: of each name the last one, unless it has no
// matches, which removes the route. They follow from the steps alone, so that a pass that
// is cut off is repeated. While the canary may not get requests there are none.
func (p *pass) managedRoutes() []v1alpha1.CanaryStep {
	canary := p.spec.Strategy.Canary
	if p.revision() <= 1 || p.isFullyPromoted() || p.isAborted() || p.old.PromoteFull || availableOf(p.newSet) == 0 {
		return nil
	}
	_, index := p.currentStep()
	done := canary.Steps[:min(int(index)+1, len(canary.Steps))]
	var held []v1alpha1.CanaryStep
	for _, route := range canary.TrafficRouting.ManagedRoutes {
		for _, step := range slices.Backward(done) {
			if name, matches := managedRoute(&step); name == route.Name {
				if matches > 0 {
					held = append(held, step)
				}
				break
			}
		}
	}
	return held
}

// managedRoute is the name of the route that a step sets, and the number of its matches;
// empty for other steps.
func managedRoute(step *v1alpha1.CanaryStep) (name string, matches int) {
	switch {
	case step.SetHeaderRoute != nil:
		return step.SetHeaderRoute.Name, len(step.SetHeaderRoute.Match)
	case step.SetMirrorRoute != nil:
		return step.SetMirrorRoute.Name, len(step.SetMirrorRoute.Match)
	}
	return "", 0
}

// invalidRoute checks a step that sets a route. The result follows its path.
func (p *pass) invalidRoute(step *v1alpha1.CanaryStep) string {
	name, _ := managedRoute(step)
	kind, routing := ".setHeaderRoute", p.spec.Strategy.Canary.TrafficRouting
	if step.SetMirrorRoute != nil {
		kind = ".setMirrorRoute"
	}
	managed := routing != nil && slices.ContainsFunc(routing.ManagedRoutes, func(one v1alpha1.ManagedRoute) bool { return one.Name == name })
	switch {
	case routing == nil || len(routeNames(routing)) == 0 || len(ingressNames(routing)) > 0:
		return kind + ": it is not supported by this router: use plugins with argoproj-labs/gatewayAPI alone; nginx has canary-by-header in additionalIngressAnnotations"
	case !managed:
		return kind + ": Invalid value: \"" + name + "\": Steps define a route that does not exist in spec.strategy.canary.trafficRouting.managedRoutes"
	case step.SetHeaderRoute != nil:
		return invalidHeaders(routing.Plugins.GatewayAPI, step.SetHeaderRoute)
	}
	for _, match := range step.SetMirrorRoute.Match {
		if match.Method != nil && match.Method.Exact == "" {
			return kind + ".match.method: it is not supported: write a method with exact"
		}
		for _, one := range match.Headers {
			if count(&one) != 1 {
				return kind + ".match.headers: " + oneComparison
			}
		}
		if match.Path != nil && count(match.Path) != 1 {
			return kind + ".match.path: " + oneComparison
		}
	}
	return ""
}

// oneComparison is what a StringMatch needs.
const oneComparison = "Invalid value: it needs one of exact, regex and prefix"

// invalidHeaders checks a route by header.
func invalidHeaders(gateway *v1alpha1.GatewayAPITrafficRouting, route *v1alpha1.SetHeaderRoute) string {
	for _, match := range route.Match {
		if match.HeaderValue == nil || count(match.HeaderValue) != 1 {
			return ".setHeaderRoute.match: " + oneComparison
		}
	}
	if !slices.ContainsFunc(gateway.HTTPRoutes, func(one v1alpha1.GatewayHTTPRoute) bool { return one.UseHeaderRoutes }) {
		return ".setHeaderRoute: no HTTPRoute takes it: set useHeaderRoutes in httpRoutes of argoproj-labs/gatewayAPI"
	}
	return ""
}

// count is the number of comparisons that are set.
func count(match *v1alpha1.StringMatch) int {
	set := 0
	for _, one := range []string{match.Exact, match.Prefix, match.Regex} {
		if one != "" {
			set++
		}
	}
	return set
}

// withoutManaged returns the rules of a route that steps have not added.
func withoutManaged(route *unstructured.Unstructured) []any {
	rules, _, _ := unstructured.NestedSlice(runtime.DeepCopyJSON(route.Object), "spec", "rules") // no list is no rule
	managed := strings.Split(route.GetAnnotations()[annotationRules], ",")
	return slices.DeleteFunc(rules, func(rule any) bool { return slices.Contains(managed, ruleHash(rule)) })
}

// ruleHash identifies a rule, apart from its weights.
func ruleHash(one any) string {
	rule, ok := one.(map[string]any)
	if !ok {
		return ""
	}
	rule = runtime.DeepCopyJSON(rule)
	backends, _ := rule["backendRefs"].([]any)
	for _, one := range backends {
		if backend, ok := one.(map[string]any); ok {
			delete(backend, "weight")
		}
	}
	return jsonHash(rule, nil)
}

// managedRules are the rules of the managed routes for an HTTPRoute, made of its rules that
// have both Services. A rule with more conditions precedes one with less, wherever it is.
func (p *pass) managedRules(name string, rules []any) []any {
	canary, withHeaders := p.spec.Strategy.Canary, false
	for _, one := range canary.TrafficRouting.Plugins.GatewayAPI.HTTPRoutes {
		withHeaders = withHeaders || one.Name == name && one.UseHeaderRoutes
	}
	var made []any
	for _, step := range p.managedRoutes() {
		for _, one := range rules {
			rule, _ := one.(map[string]any)
			backends, _ := rule["backendRefs"].([]any)
			target := backendOf(backends, canary.CanaryService)
			if target == nil || backendOf(backends, canary.StableService) == nil {
				continue
			}
			rule = runtime.DeepCopyJSON(rule)
			delete(rule, "name") // names are unique
			switch {
			case step.SetMirrorRoute != nil:
				if mirrors(rule, runtime.DeepCopyJSON(target), step.SetMirrorRoute) {
					made = append(made, rule)
				}
			case withHeaders:
				target = runtime.DeepCopyJSON(target)
				target["weight"] = int64(1)
				rule["backendRefs"] = []any{target}
				eachMatch(rule, func(match map[string]any) bool {
					for _, header := range step.SetHeaderRoute.Match {
						addHeader(match, header.HeaderName, header.HeaderValue)
					}
					return true
				})
				made = append(made, rule)
			}
		}
	}
	return made
}

// eachMatch changes the matches of a rule, and keeps those for which change returns true.
// A rule without matches has one that is empty.
func eachMatch(rule map[string]any, change func(map[string]any) bool) {
	matches, _ := rule["matches"].([]any)
	if len(matches) == 0 {
		matches = []any{map[string]any{}}
	}
	rule["matches"] = slices.DeleteFunc(matches, func(one any) bool {
		match, ok := one.(map[string]any)
		return !ok || !change(match)
	})
}

// addHeader adds a condition on a header.
func addHeader(match map[string]any, name string, value *v1alpha1.StringMatch) {
	header := map[string]any{"name": name, "type": "RegularExpression"}
	switch {
	case value.Exact != "":
		header["type"], header["value"] = "Exact", value.Exact
	case value.Prefix != "":
		header["value"] = "^" + regexp.QuoteMeta(value.Prefix) + ".*$"
	default:
		header["value"] = value.Regex
	}
	headers, _ := match["headers"].([]any)
	match["headers"] = append(headers, header)
}

// mirrors makes a rule copy its requests to a backend. It reports whether some request of
// the rule is copied: a step never leads requests to the Services that the route does not
// lead there.
func mirrors(rule, target map[string]any, step *v1alpha1.SetMirrorRoute) bool {
	delete(target, "weight")
	delete(target, "filters")
	mirror := map[string]any{"backendRef": target}
	if step.Percentage != nil {
		mirror["percent"] = int64(*step.Percentage)
	}
	filters, _ := rule["filters"].([]any)
	rule["filters"] = append(filters, map[string]any{"type": "RequestMirror", "requestMirror": mirror})
	var matches []any
	for _, wanted := range step.Match {
		copied := runtime.DeepCopyJSON(rule)
		eachMatch(copied, func(match map[string]any) bool { return narrow(match, &wanted) })
		matches = append(matches, copied["matches"].([]any)...)
	}
	rule["matches"] = matches
	return len(matches) > 0
}

// narrow adds the conditions of a mirror to a match. It reports false if no request meets
// both, or if that does not follow from the paths.
func narrow(match map[string]any, wanted *v1alpha1.RouteMatch) bool {
	if wanted.Method != nil {
		if before, set := match["method"]; set && before != wanted.Method.Exact {
			return false
		}
		match["method"] = wanted.Method.Exact
	}
	for _, name := range slices.Sorted(maps.Keys(wanted.Headers)) {
		value := wanted.Headers[name]
		addHeader(match, name, &value)
	}
	if wanted.Path == nil {
		return true
	}
	before, _ := match["path"].(map[string]any)
	value, _ := before["value"].(string)
	isPrefix := before == nil || before["type"] == "PathPrefix"
	switch path := wanted.Path; {
	case path.Exact != "" && (isPrefix && covers(value, path.Exact) || before["type"] == "Exact" && value == path.Exact):
		match["path"] = map[string]any{"type": "Exact", "value": path.Exact}
	case path.Prefix != "" && isPrefix && covers(value, path.Prefix):
		match["path"] = map[string]any{"type": "PathPrefix", "value": path.Prefix}
	case path.Regex != "" && isPrefix && covers(value, "/"):
		match["path"] = map[string]any{"type": "RegularExpression", "value": path.Regex}
	default:
		return false
	}
	return true
}

// covers: a prefix of whole parts of paths includes a path.
func covers(prefix, path string) bool {
	prefix = strings.TrimSuffix(prefix, "/")
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}
