package agent_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	rollouts "slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/agent"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// TestAnalysis: an agent with the option carries out AnalysisRuns.
func TestAnalysis(t *testing.T) {
	w := newWorld(t)
	w.Define(t, string(must.Get(rollouts.CRDs())(t)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"value": 3}`) }))
	defer server.Close()
	w.start(t, "one", func(o *agent.Options) { o.Features.Rollouts, o.Destinations = true, []string{w.control} })
	w.apply(t, fmt.Sprintf(`{apiVersion: argoproj.io/v1alpha1, kind: AnalysisRun, metadata: {name: run}, spec: {metrics: [
  {name: a, successCondition: result == 3, provider: {web: {url: %q, jsonPath: "{$.value}"}}}]}}`, server.URL))
	kubetest.WaitFor(t, w.Dynamic.Resource(rollouts.AnalysisRunResource()).Namespace(w.control), kube.Named("run"), patience, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			return errors.New("there is no run")
		}
		if phase, _, _ := unstructured.NestedString(found[0].Object, "status", "phase"); phase != "Successful" {
			return fmt.Errorf("the phase is %q", phase)
		}
		return nil
	})
}

// TestRolloutAnalysis: an agent with the option updates a Rollout whose analysis succeeds, in
// a step and in the background, and takes an update back whose analysis fails.
func TestRolloutAnalysis(t *testing.T) {
	w := newWorld(t)
	w.Define(t, string(must.Get(rollouts.CRDs())(t)))
	w.MakePodsReady(t, w.control, nil)
	var value atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, value.Load()) }))
	defer server.Close()
	w.start(t, "one", func(o *agent.Options) { o.Features.Rollouts, o.Destinations = true, []string{w.control} })
	w.apply(t, fmt.Sprintf(`{apiVersion: argoproj.io/v1alpha1, kind: AnalysisTemplate, metadata: {name: rate}, spec: {metrics: [
  {name: rate, successCondition: result == 0, provider: {web: {url: %q}}}]}}
---
{apiVersion: argoproj.io/v1alpha1, kind: AnalysisTemplate, metadata: {name: all}, spec: {metrics: [
  {name: all, interval: 1s, successCondition: result >= 0, provider: {web: {url: %q}}}]}}
`, server.URL, server.URL))
	deploy := func(version, phase, message string) {
		t.Helper()
		w.apply(t, strings.ReplaceAll(`{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: web}, spec: {replicas: 1, selector: {matchLabels: {app: web}},
  template: {metadata: {labels: {app: web, version: VERSION}}, spec: {nodeSelector: {no: node}, containers: [{name: web, image: none}]}},
  strategy: {canary: {analysis: {templates: [{templateName: all}]}, steps: [{setWeight: 50}, {analysis: {templates: [{templateName: rate}]}}]}}}}`, "VERSION", version))
		kubetest.WaitFor(t, w.Dynamic.Resource(rollouts.RolloutResource()).Namespace(w.control), kube.Named("web"), patience, func(found []*unstructured.Unstructured) error {
			if len(found) == 0 {
				return errors.New("there is no Rollout")
			}
			status, _, _ := unstructured.NestedMap(found[0].Object, "status")
			is, _ := status["message"].(string)
			if status["phase"] != phase || status["observedGeneration"] != fmt.Sprint(found[0].GetGeneration()) || !strings.Contains(is, message) {
				return fmt.Errorf("the status is %v", status)
			}
			return nil
		})
	}
	deploy("v1", rollouts.PhaseHealthy, "")
	deploy("v2", rollouts.PhaseHealthy, "")
	value.Store(1)
	deploy("v3", rollouts.PhaseDegraded, "Step-based analysis phase error/failed")
	kubetest.WaitFor(t, w.Dynamic.Resource(rollouts.AnalysisRunResource()).Namespace(w.control), kube.Labelled(""), patience, func(found []*unstructured.Unstructured) error {
		for _, run := range found {
			if phase, _, _ := unstructured.NestedString(run.Object, "status", "phase"); phase != "Successful" && !(phase == "Failed" && strings.HasSuffix(run.GetName(), "-3-1")) {
				return fmt.Errorf("%s is %q", run.GetName(), phase)
			}
		}
		if len(found) != 4 {
			return fmt.Errorf("there are %d AnalysisRuns", len(found))
		}
		return nil
	})
}
