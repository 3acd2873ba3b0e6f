package rollout

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

const routed = `canary: {stableService: stable, canaryService: canary, trafficRouting: {managedRoutes: [{name: preview}, {name: copy}],
    plugins: {argoproj-labs/gatewayAPI: {httpRoutes: [{name: web, useHeaderRoutes: true}, {name: plain}]}}}, steps: [STEPS]}`

const (
	byHeader = `{setHeaderRoute: {name: preview, match: [{headerName: X-Preview, headerValue: {exact: "yes"}}, {headerName: X-Team, headerValue: {prefix: a.b}}]}}`
	byMirror = `{setMirrorRoute: {name: copy, percentage: 30, match: [{method: {exact: GET}, path: {prefix: /shop/api}, headers: {X-Copy: {regex: "1+"}}}]}}`
)

// routeOf is an HTTPRoute with a rule for both Services, and one for another Service.
func routeOf(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: ` + name + `, namespace: shop, resourceVersion: "7"}
spec:
  rules:
  - {name: main, matches: [{path: {type: PathPrefix, value: /shop}}], backendRefs: [{name: stable, port: 80, weight: 100}, {name: canary, port: 80, weight: 0}]}
  - {matches: [{path: {type: PathPrefix, value: /other}}], backendRefs: [{name: other, port: 80, weight: 1}]}
`))
	route := &unstructured.Unstructured{}
	if err == nil {
		err = route.UnmarshalJSON(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return route
}

// atStep decides at a step, and returns the rules and the annotation that a route has then.
func atStep(t *testing.T, steps string, step int32, routes map[string]*unstructured.Unstructured, change func(*Observed)) Decision {
	t.Helper()
	seen := withSets(t, strings.Replace(analysed, "STRATEGY", strings.Replace(routed, "STEPS", steps, 1), 1), step)
	seen.Routes = routes
	seen.Services = map[string]*corev1.Service{"stable": {}, "canary": {}}
	if change != nil {
		change(&seen)
	}
	decision := Decide(seen)
	if decision.Status == nil || decision.Status.Phase == v1alpha1.PhaseDegraded && !seen.Rollout.Status.Abort {
		t.Fatalf("the status is %+v", decision.Status)
	}
	// What the API server makes of the patches.
	for _, write := range decision.Writes {
		if write.Resource != httpRoutes {
			continue
		}
		route := routes[write.Name]
		rules := write.Patch["spec"].(map[string]any)["rules"].([]any)
		if err := unstructured.SetNestedSlice(route.Object, rules, "spec", "rules"); err != nil {
			t.Fatal(err)
		}
		annotations, _ := write.Patch["metadata"].(map[string]any)["annotations"].(map[string]any)
		if value, set := annotations[annotationRules]; set {
			text, _ := value.(string)
			route.SetAnnotations(map[string]string{annotationRules: text})
		}
	}
	return decision
}

// added are the rules of a route after its own two.
func added(t *testing.T, route *unstructured.Unstructured) []string {
	t.Helper()
	rules, _, _ := unstructured.NestedSlice(route.Object, "spec", "rules")
	var texts []string
	for _, rule := range rules[2:] {
		text, err := json.Marshal(rule)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

// TestManagedRoutes: steps add rules for requests by their headers, and for copies, to the
// HTTPRoutes; they stay during later steps, follow the weights, and go when a step removes
// them and when the canary gets no requests. Rules of others stay as they are.
func TestManagedRoutes(t *testing.T) {
	steps := "{setWeight: 20}, " + byHeader + ", " + byMirror + ", {pause: {}}, {setWeight: 60}, {setHeaderRoute: {name: preview}}, {pause: {}}"
	routes := map[string]*unstructured.Unstructured{"web": routeOf(t, "web"), "plain": routeOf(t, "plain")}
	check := func(step int32, change func(*Observed), web, plain int) {
		t.Helper()
		atStep(t, steps, step, routes, change)
		if got := added(t, routes["web"]); len(got) != web {
			t.Errorf("step %d: web has %v", step, got)
		}
		if got := added(t, routes["plain"]); len(got) != plain {
			t.Errorf("step %d: plain has %v", step, got)
		}
		if decision := atStep(t, steps, step, routes, change); len(writtenRoutes(decision)) > 0 {
			t.Errorf("step %d: the second pass writes %v", step, writtenRoutes(decision))
		}
	}
	check(0, nil, 0, 0)
	check(1, nil, 1, 0)
	const header = `{"backendRefs":[{"name":"canary","port":80,"weight":1}],"matches":[{"headers":[{"name":"X-Preview","type":"Exact","value":"yes"},` +
		`{"name":"X-Team","type":"RegularExpression","value":"^a\\.b.*$"}],"path":{"type":"PathPrefix","value":"/shop"}}]}`
	if got := added(t, routes["web"]); len(got) == 0 || got[0] != header {
		t.Errorf("the rule by header is %v", got)
	}
	check(2, nil, 2, 1)
	const mirror = `{"backendRefs":[{"name":"stable","port":80,"weight":80},{"name":"canary","port":80,"weight":20}],` +
		`"filters":[{"requestMirror":{"backendRef":{"name":"canary","port":80},"percent":30},"type":"RequestMirror"}],` +
		`"matches":[{"headers":[{"name":"X-Copy","type":"RegularExpression","value":"1+"}],"method":"GET","path":{"type":"PathPrefix","value":"/shop/api"}}]}`
	if got := added(t, routes["plain"]); len(got) == 0 || got[0] != mirror {
		t.Errorf("the rule that copies is %v", got)
	}
	check(3, nil, 2, 1)
	check(4, nil, 2, 1)
	if got := added(t, routes["plain"]); !strings.Contains(got[0], `"weight":60`) {
		t.Errorf("the rule that copies does not follow the weights: %v", got)
	}
	check(5, nil, 1, 1)
	check(6, nil, 1, 1)
	check(6, func(seen *Observed) { seen.Rollout.Status.Abort = true }, 0, 0)
	check(3, nil, 2, 1)
	check(3, func(seen *Observed) { seen.Rollout.Status.PromoteFull = true }, 0, 0)
	check(3, nil, 2, 1)
	// A sync writes the rules of Git again.
	routes["web"].Object["spec"] = routeOf(t, "web").Object["spec"]
	check(3, nil, 2, 1)
	// The first revision does its first step, too.
	check(3, func(seen *Observed) {
		for _, set := range seen.ReplicaSets {
			set.Annotations[annotationRevision] = map[bool]string{true: "0", false: "1"}[hashOf(set) == "stable"]
		}
		seen.Rollout.Annotations[annotationRevision] = "1"
	}, 0, 0)
}

// writtenRoutes are the HTTPRoutes that a decision writes.
func writtenRoutes(decision Decision) []string {
	var names []string
	for _, write := range decision.Writes {
		if write.Resource == httpRoutes {
			names = append(names, write.Name)
		}
	}
	return names
}

// TestNarrow: a mirror copies only requests of the rule that it is made of.
func TestNarrow(t *testing.T) {
	for _, test := range []struct{ kind, value, wanted, want string }{
		{"PathPrefix", "/shop", "{path: {prefix: /shop/api}}", `{"path":{"type":"PathPrefix","value":"/shop/api"}}`},
		{"PathPrefix", "/shop", "{path: {prefix: /shop}}", `{"path":{"type":"PathPrefix","value":"/shop"}}`},
		{"PathPrefix", "/shop", "{path: {prefix: /shopping}}", ""},
		{"PathPrefix", "/shop", "{path: {exact: /shop/a}}", `{"path":{"type":"Exact","value":"/shop/a"}}`},
		{"PathPrefix", "/", "{path: {regex: /a.*}}", `{"path":{"type":"RegularExpression","value":"/a.*"}}`},
		{"PathPrefix", "/shop", "{path: {regex: /a.*}}", ""},
		{"Exact", "/shop", "{path: {exact: /shop}}", `{"path":{"type":"Exact","value":"/shop"}}`},
		{"Exact", "/shop", "{path: {exact: /shop/a}}", ""},
		{"Exact", "/shop", "{path: {prefix: /shop}}", ""},
		{"Exact", "/shop", "{}", `{"path":{"type":"Exact","value":"/shop"}}`},
		{"Exact", "/shop", "{method: {exact: GET}}", `{"method":"GET","path":{"type":"Exact","value":"/shop"}}`},
	} {
		var wanted v1alpha1.RouteMatch
		if err := yaml.Unmarshal([]byte(test.wanted), &wanted); err != nil {
			t.Fatal(err)
		}
		match := map[string]any{"path": map[string]any{"type": test.kind, "value": test.value}}
		got := ""
		if narrow(match, &wanted) {
			text, _ := json.Marshal(match)
			got = string(text)
		}
		if got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
	if narrow(map[string]any{"method": "GET"}, &v1alpha1.RouteMatch{Method: &v1alpha1.StringMatch{Exact: "POST"}}) {
		t.Error("requests with GET are copied by a mirror of POST")
	}
}

// TestInvalidRoutes: routes need a router that has them, a name of managedRoutes and one
// comparison each.
func TestInvalidRoutes(t *testing.T) {
	for change, want := range map[string]string{
		"name: preview, match>name: other, match":                    "does not exist in spec.strategy.canary.trafficRouting.managedRoutes",
		`{exact: "yes"}>{}`:                                          "it needs one of exact, regex and prefix",
		`{exact: "yes"}>{exact: "yes", prefix: x}`:                   "it needs one of exact, regex and prefix",
		"useHeaderRoutes: true>useHeaderRoutes: false":               "set useHeaderRoutes",
		"{prefix: /shop/api}>{}":                                     "setMirrorRoute.match.path",
		"{exact: GET}>{prefix: G}":                                   "setMirrorRoute.match.method",
		"{managedRoutes>{nginx: {stableIngress: web}, managedRoutes": "it is not supported by this router",
		"{regex: \"1+\"}>{regex: \"1+\", exact: \"1\"}":              "setMirrorRoute.match.headers",
		"plugins: {argoproj-labs/gatewayAPI: {httpRoutes: [{name: web, useHeaderRoutes: true}, {name: plain}]}}>nginx: {stableIngress: web}": "use plugins with argoproj-labs/gatewayAPI",
	} {
		old, replacement, _ := strings.Cut(change, ">")
		text := strings.Replace(analysed, "STRATEGY", strings.Replace(routed, "STEPS", byHeader+", "+byMirror, 1), 1)
		if !strings.Contains(text, old) {
			t.Fatalf("%s is not in %s", old, text)
		}
		decision := Decide(observed(t, strings.Replace(text, old, replacement, 1)))
		if decision.Status == nil || !strings.Contains(decision.Status.Message, want) || len(decision.Writes) > 0 {
			t.Errorf("%s: %+v", change, decision.Status)
		}
	}
}

// TestForeignRoutes: the plugin may name the namespace of the Rollout, and no other one.
func TestForeignRoutes(t *testing.T) {
	for namespace, isRefused := range map[string]bool{"other": true, "shop": false} {
		text := strings.Replace(analysed, "STRATEGY", strings.Replace(routed, "STEPS", "{setWeight: 50}", 1), 1)
		seen := withSets(t, strings.Replace(text, "gatewayAPI: {", "gatewayAPI: {namespace: "+namespace+", ", 1), 0)
		seen.Routes = map[string]*unstructured.Unstructured{"web": routeOf(t, "web"), "plain": routeOf(t, "plain")}
		seen.Services = map[string]*corev1.Service{"stable": {}, "canary": {}}
		decision := Decide(seen)
		refused := strings.Contains(decision.Status.Message, "argoproj-labs/gatewayAPI.namespace: it is not supported")
		if refused != isRefused || refused == (len(decision.Writes) > 0) {
			t.Errorf("%s: %+v, %d writes", namespace, decision.Status, len(decision.Writes))
		}
	}
}
