package action_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/gitops/action"
	"slipway.dev/slipway/internal/gitops/customization"
	"slipway.dev/slipway/internal/gitops/jq"
	"slipway.dev/slipway/internal/gitops/script"
	"slipway.dev/slipway/internal/must"
)

// inProcess runs scripts of settings in this process.
type inProcess struct{}

func (inProcess) RunScript(_ context.Context, source string, given script.Input) (any, error) {
	compiled, err := script.Compile("test", source)
	if err != nil {
		return nil, err
	}
	return compiled.Run(given)
}

// set is a set with actions of settings for Deployments.
func set(actions string) *action.Set {
	return &action.Set{Runner: inProcess{}, Settings: customization.Read(map[string]string{"resource.customizations.actions.apps_Deployment": actions}, jq.New())}
}

func deployment(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	read := &unstructured.Unstructured{}
	must.Do(t, yaml.Unmarshal([]byte(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {replicas: 1, template: {spec: {securityContext: {}}}}}`), &read.Object))
	return read
}

// TestSettings: actions of settings replace those of Argo CD, or are beside them
// and win. An action that the settings do not define is Argo CD's.
func TestSettings(t *testing.T) {
	const own = `
discovery.lua: 'return {restart = {disabled = true, displayName = "Again"}, double = {}}'
definitions: [{name: double, action.lua: 'obj.spec.replicas = obj.spec.replicas * 2 return obj'}]
`
	for settings, want := range map[string]string{
		"":                                  "[{pause  false []} {restart  false []} {resume  true []} {scale  false [replicas]}]",
		own:                                 "[{double  false []} {restart Again true []}]",
		own + "mergeBuiltinActions: true\n": "[{double  false []} {pause  false []} {restart Again true []} {resume  true []} {scale  false [replicas]}]",
	} {
		found := must.Get(set(settings).Discover(t.Context(), deployment(t), noon))(t)
		if got := fmt.Sprint(found); got != want {
			t.Errorf("%q: the actions are %s, want %s", settings, got, want)
		}
	}
	changed := must.Get(set(own).Plan(t.Context(), deployment(t), "double", nil, noon))(t)
	if len(changed) != 1 || changed[0].Create || fmt.Sprint(changed[0].Object.Object["spec"]) != "map[replicas:2 template:map[spec:map[securityContext:map[]]]]" {
		t.Errorf("the changes are %v", changed)
	}
	must.Get(set(own).Plan(t.Context(), deployment(t), "restart", nil, noon))(t)
}

// TestInvalidChanges: an action changes its own object and creates others, and
// nothing else.
func TestInvalidChanges(t *testing.T) {
	for source, want := range map[string]string{
		`return "x"`: "neither an object nor a list",
		`return {{operation = "delete", resource = obj}}`:   "only create and patch",
		`return {{operation = "patch"}}`:                    "no resource",
		`obj.metadata.name = "other" return obj`:            "instead of its own object",
		`obj.metadata.namespace = "kube-system" return obj`: "instead of its own object",
		`obj.kind = "DaemonSet" return obj`:                 "instead of its own object",
		`error("no")`:                                       "no",
	} {
		actions := set("definitions: [{name: do, action.lua: '" + source + "'}]")
		if got, err := actions.Plan(t.Context(), deployment(t), "do", nil, noon); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nis %v, %v, want %s", source, got, err, want)
		}
	}
	for _, name := range []string{"none", "", "../restart", "restart/..", "."} {
		if got, err := set("").Plan(t.Context(), deployment(t), name, nil, noon); err == nil {
			t.Errorf("the action %q is %v", name, got)
		}
	}
}
