package chart_test

import (
	"encoding/json"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/install/chart"
	"slipway.dev/slipway/internal/must"
)

// TestMonitoring: the charts have the alerts and dashboards of the roles that they
// install, and only if they are enabled.
func TestMonitoring(t *testing.T) {
	whole := setNamed(t, runtimeSets(), "monitoring")
	bare := whole
	bare.set = append(slices.Clone(whole.set), "edge.enabled=false")
	platform := setNamed(t, platformSets(), "PostgreSQL and replicas")
	for _, one := range []struct {
		made  chart.Rendered
		rule  string
		roles []string
	}{
		{render(t, runtimeChart, whole), "slipway-runtime", []string{"agent", "edge"}},
		{render(t, runtimeChart, bare), "slipway-runtime", []string{"agent"}},
		{render(t, platformChart, platform), "slipway-platform", []string{"platform"}},
	} {
		groups, _, err := unstructured.NestedSlice(find(t, one.made, "PrometheusRule", one.rule).Object, "spec", "groups")
		if err != nil || len(groups) != len(one.roles) {
			t.Fatalf("%s has %d groups: %v", one.rule, len(groups), err)
		}
		for i, role := range one.roles {
			group := groups[i].(map[string]any)
			if rules := group["rules"].([]any); group["name"] != "slipway-"+role || len(rules) < 5 {
				t.Errorf("the group of %s is %v with %d rules", role, group["name"], len(rules))
			}
			board := find(t, one.made, "ConfigMap", "slipway-dashboard-"+role)
			text, _, err := unstructured.NestedString(board.Object, "data", "slipway-"+role+".json")
			must.Do(t, err)
			var dashboard struct{ Panels []any }
			must.Do(t, json.Unmarshal([]byte(text), &dashboard))
			if len(dashboard.Panels) < 5 || board.GetLabels()["grafana_dashboard"] != "1" {
				t.Errorf("the dashboard of %s has %d panels and the labels %v", role, len(dashboard.Panels), board.GetLabels())
			}
		}
	}
	for _, object := range append(render(t, runtimeChart, runtimeSets()[0]).Objects, render(t, platformChart, platformSets()[0]).Objects...) {
		if object.GetKind() == "PrometheusRule" || object.GetLabels()["grafana_dashboard"] != "" {
			t.Errorf("there is a %s %s without being enabled", object.GetKind(), object.GetName())
		}
	}
}
