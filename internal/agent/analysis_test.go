package agent_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	rollouts "slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/agent"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// TestAnalysis: an agent with the option carries out AnalysisRuns.
func TestAnalysis(t *testing.T) {
	w := newWorld(t)
	w.DefineFiles(t, "../gitops/analysis/testdata/definitions.yaml")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"value": 3}`) }))
	defer server.Close()
	w.start(t, "one", func(o *agent.Options) { o.Rollouts, o.Destinations = true, []string{w.control} })
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
