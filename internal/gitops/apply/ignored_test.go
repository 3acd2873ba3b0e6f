package apply_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/must"
)

// Argo CD documents RespectIgnoreDifferences=true: what is ignored when
// comparing is left as it is when syncing.
func TestRespectIgnoreDifferences(t *testing.T) {
	for _, tt := range []struct {
		name, manifest string
		rule           v1alpha1.ResourceIgnoreDifferences
		// patch is the change that another manager makes, after the first sync.
		patch string
		field []string
		want  string
	}{
		{"replicas that an autoscaler set", webDeployment, v1alpha1.ResourceIgnoreDifferences{JSONPointers: []string{"/spec/replicas"}},
			`{"spec":{"replicas":5}}`, []string{"spec", "replicas"}, "5"},
		{"a field that is ours alone", webDeployment, v1alpha1.ResourceIgnoreDifferences{JSONPointers: []string{"/spec/replicas"}},
			`{"metadata":{"labels":{"x":"y"}}}`, []string{"spec", "replicas"}, "0"},
		{"a field that somebody removed", settings, v1alpha1.ResourceIgnoreDifferences{JSONPointers: []string{"/data/size"}},
			`{"data":{"size":null}}`, []string{"data", "size"}, "nothing"},
		{"what a manager owns", settings, v1alpha1.ResourceIgnoreDifferences{ManagedFieldsManagers: []string{"somebody"}},
			`{"data":{"size":"small"}}`, []string{"data", "size"}, "small"},
		{"a list that is taken as a whole", `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  rules: [{host: a.example.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
`, v1alpha1.ResourceIgnoreDifferences{JSONPointers: []string{"/spec/rules/0/host"}}, `{"spec":{"tls":[{"hosts":["b.example.test"]}]}}`,
			[]string{"spec", "tls"}, "- hosts:\n  - b.example.test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := enter(t)
			tt.rule.Group, tt.rule.Kind = "*", "*"
			ignore := must.Get(plan.NewIgnore([]v1alpha1.ResourceIgnoreDifferences{tt.rule}, nil))(t)
			object := w.apply(tt.manifest)
			w.patch(object, "somebody", tt.patch)
			step := w.step(strings.ReplaceAll(tt.manifest, "name: web}", "name: web, annotations: {changed: 'yes'}}"))
			step.Options.RespectIgnoreDifferences = true
			answer := must.Get(w.Apply(w.context(), step, apply.Options{Ignore: ignore}))(t)
			if got := at(t, answer, tt.field...); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// Within an element of a list that is merged, only what is ignored is left
// alone.
func TestRespectWithinElements(t *testing.T) {
	w := enter(t)
	ignore := must.Get(plan.NewIgnore([]v1alpha1.ResourceIgnoreDifferences{{Group: "apps", Kind: "Deployment", JSONPointers: []string{"/spec/template/spec/containers/0/image"}}}, nil))(t)
	object := w.apply(webDeployment)
	patch := `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"registry.example.test/web:9"}]}}}}`
	must.Get(w.resource(object).Patch(w.context(), "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "updater"}))(t)
	step := w.step(strings.ReplaceAll(webDeployment, "blue", "green"))
	step.Options.RespectIgnoreDifferences = true
	answer := must.Get(w.Apply(w.context(), step, apply.Options{Ignore: ignore}))(t)
	containers := at(t, answer, "spec", "template", "spec", "containers")
	for _, part := range []string{"web:9", "value: green", "containerPort: 8080"} {
		if !strings.Contains(containers, part) {
			t.Errorf("the containers are\n%s\nwant %s", containers, part)
		}
	}
}
