package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/plugin"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
)

func TestConsequences(t *testing.T) {
	const comparison, spec = v1alpha1.ConditionComparisonError, v1alpha1.ConditionInvalidSpecError
	tests := []struct {
		err  error
		want errorPolicy
	}{
		{&invalidSpec{}, errorPolicy{condition: spec, event: "InvalidSpec"}},
		{&source.Error{Kind: source.Unreachable}, errorPolicy{condition: comparison, event: "SourceFailed"}},
		{fmt.Errorf("wrapped: %w", &source.Error{Kind: source.NotFound}), errorPolicy{condition: comparison, event: "SourceFailed"}},
		{&render.Error{Kind: render.Failed}, errorPolicy{condition: comparison, event: "RenderFailed"}},
		{&render.Error{Kind: render.TooSlow}, errorPolicy{condition: comparison, event: "RenderFailed", retry: true, slow: true}},
		{&render.Error{Kind: render.WorkerDied}, errorPolicy{condition: comparison, event: "RenderFailed", retry: true}},
		{fmt.Errorf("wrapped: %w", &plugin.Error{}), errorPolicy{condition: comparison, event: "PluginFailed", retry: true}},
		{&plugin.Error{Slow: true}, errorPolicy{condition: comparison, event: "PluginFailed", retry: true, slow: true}},
		{&apply.Error{Kind: apply.Transient}, errorPolicy{condition: comparison, event: "ComparisonFailed", retry: true}},
		{errors.New("something"), errorPolicy{condition: comparison, event: "ComparisonFailed", retry: true}},
		{context.Canceled, errorPolicy{}},
	}
	for _, test := range tests {
		if got := policyFor(test.err); got != test.want {
			t.Errorf("%v: the consequence is %+v, want %+v", test.err, got, test.want)
		}
	}
	if (errorPolicy{slow: true}).wait(1) != longestPause || (errorPolicy{}).wait(1) > 2*firstPause {
		t.Error("what is slow does not wait long, or the rest not short")
	}
	if last := pause(1000); last < longestPause || last > 2*longestPause {
		t.Errorf("after many failures the pause is %v", last)
	}
}
