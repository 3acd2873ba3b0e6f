package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
)

func TestConsequences(t *testing.T) {
	const comparison, spec = v1alpha1.ConditionComparisonError, v1alpha1.ConditionInvalidSpecError
	tests := []struct {
		err  error
		want consequence
	}{
		{&invalid{}, consequence{condition: spec, event: "InvalidSpec"}},
		{&source.Error{Kind: source.Unreachable}, consequence{condition: comparison, event: "SourceFailed"}},
		{fmt.Errorf("wrapped: %w", &source.Error{Kind: source.NotFound}), consequence{condition: comparison, event: "SourceFailed"}},
		{&render.Error{Kind: render.Failed}, consequence{condition: comparison, event: "RenderFailed"}},
		{&render.Error{Kind: render.TooSlow}, consequence{condition: comparison, event: "RenderFailed", again: true, slow: true}},
		{&render.Error{Kind: render.WorkerDied}, consequence{condition: comparison, event: "RenderFailed", again: true}},
		{&apply.Error{Kind: apply.Transient}, consequence{condition: comparison, event: "ComparisonFailed", again: true}},
		{errors.New("something"), consequence{condition: comparison, event: "ComparisonFailed", again: true}},
		{context.Canceled, consequence{}},
	}
	for _, test := range tests {
		if got := consequenceOf(test.err); got != test.want {
			t.Errorf("%v: the consequence is %+v, want %+v", test.err, got, test.want)
		}
	}
	if (consequence{slow: true}).wait(1) != longestPause || (consequence{}).wait(1) > 2*firstPause {
		t.Error("what is slow does not wait long, or the rest not short")
	}
	if last := pause(1000); last < longestPause || last > 2*longestPause {
		t.Errorf("after many failures the pause is %v", last)
	}
}
