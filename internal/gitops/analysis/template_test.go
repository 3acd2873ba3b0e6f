package analysis_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/gitops/analysis"
	"slipway.dev/slipway/internal/must"
)

// templates has templates by name; those of the cluster have the prefix cluster/.
type templates map[string]string

func (s templates) get(ref v1alpha1.AnalysisTemplateRef) (*v1alpha1.AnalysisTemplateSpec, error) {
	name := ref.TemplateName
	if ref.IsClusterScope() {
		name = "cluster/" + name
	}
	text, found := s[name]
	if !found {
		return nil, fmt.Errorf("%s not found", name)
	}
	var spec v1alpha1.AnalysisTemplateSpec
	return &spec, yaml.Unmarshal([]byte(text), &spec)
}

// TestNewRun: templates that name templates are one run, with the arguments of the
// caller; what contradicts itself is an error.
func TestNewRun(t *testing.T) {
	yes, value, other := true, "canary.shop", "x"
	source := templates{
		"first": `
args: [{name: service}, {name: limit, value: "5"}, {name: token, valueFrom: {secretKeyRef: {name: api, key: token}}}]
metrics: [{name: a, provider: {web: {url: "http://{{args.service}}"}}}]
templates: [{templateName: second}, {templateName: shared, clusterScope: true}, {templateName: first}]
dryRun: [{metricName: b}]`,
		"second": `
args: [{name: limit}]
metrics: [{name: b, provider: {datadog: {query: "avg:x"}}}]`,
		"cluster/shared": `
metrics: [{name: c, provider: {plugin: {slipway.dev/edge: {service: web, metric: requests}}}}]
templates: [{templateName: second}]`,
		"again":    `metrics: [{name: a, provider: {web: {url: "http://x"}}}]`,
		"contrary": `{args: [{name: limit, value: "6"}], metrics: [{name: z, provider: {web: {url: "http://x"}}}]}`,
		"dry":      `{dryRun: [{metricName: b}]}`,
	}
	request := analysis.RunRequest{
		Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web"},
		Templates:            []v1alpha1.AnalysisTemplateRef{{TemplateName: "first"}},
		Args:                 []v1alpha1.Argument{{Name: "service", Value: &value}, {Name: "unknown", Value: &other}},
		MeasurementRetention: []v1alpha1.MeasurementRetention{{MetricName: ".*", Limit: 3}},
	}
	run := must.Get(analysis.NewRun(request, source.get))(t)
	got := string(must.Get(yaml.Marshal(run))(t))
	if got != wantedRun {
		t.Errorf("the run is\n%s", got)
	}
	for name, part := range map[string]string{
		"again": "two metrics have the same name 'a'", "contrary": "Argument `limit` specified multiple times with different values: '5', '6'",
		"missing": "missing not found", "dry": "two Dry-Run metric rules have the same name 'b'",
	} {
		broken := request
		broken.Templates = append([]v1alpha1.AnalysisTemplateRef{{TemplateName: "first"}}, v1alpha1.AnalysisTemplateRef{TemplateName: name})
		if _, err := analysis.NewRun(broken, source.get); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", name, err)
		}
	}
	request.Args = nil
	if _, err := analysis.NewRun(request, source.get); err == nil || err.Error() != "args.service was not resolved" {
		t.Errorf("without the argument: %v", err)
	}
	request.Templates = []v1alpha1.AnalysisTemplateRef{{TemplateName: "shared", ClusterScope: &yes}}
	if run, err := analysis.NewRun(request, source.get); err == nil {
		t.Errorf("an argument without a value: %v", run)
	}
}

const wantedRun = `apiVersion: argoproj.io/v1alpha1
kind: AnalysisRun
metadata:
  labels:
    app: web
  name: web-1
  namespace: shop
spec:
  args:
  - name: service
    value: canary.shop
  - name: limit
    value: "5"
  - name: token
    valueFrom:
      secretKeyRef:
        key: token
        name: api
  dryRun:
  - metricName: b
  measurementRetention:
  - limit: 3
    metricName: .*
  metrics:
  - name: a
    provider:
      web:
        url: http://{{args.service}}
  - name: b
    provider:
      datadog:
        query: avg:x
  - name: c
    provider:
      plugin:
        slipway.dev/edge:
          metric: requests
          service: web
`
