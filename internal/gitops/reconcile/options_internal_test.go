package reconcile

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/plan"
)

// The options of an operation win over those of the Application.
func TestPlanOptions(t *testing.T) {
	spec := &v1alpha1.ApplicationSpec{SyncPolicy: &v1alpha1.SyncPolicy{
		Automated:                &v1alpha1.SyncPolicyAutomated{AllowEmpty: true},
		SyncOptions:              []string{"Prune=confirm", "Replace=true", "CreateNamespace=true", "PrunePropagationPolicy=background", "Validate=false"},
		ManagedNamespaceMetadata: &v1alpha1.ManagedNamespaceMetadata{Labels: map[string]string{"a": "b"}},
	}}
	got := planOptions(spec, &v1alpha1.SyncOperation{
		Prune: true, DryRun: true, SyncOptions: []string{"Replace=false", "PruneLast=true"},
		SyncStrategy: &v1alpha1.SyncStrategy{Apply: &v1alpha1.SyncStrategyForce{Force: true}},
		Resources:    []v1alpha1.SyncOperationResource{{Group: "apps", Kind: "Deployment", Name: "web"}},
	})
	want := plan.ObjectOptions{Prune: plan.Confirm, PruneLast: true, Force: true, SkipValidation: true}
	if got.ObjectOptions != want {
		t.Errorf("the options of objects are %+v, want %+v", got.ObjectOptions, want)
	}
	if !got.AllowPrune || !got.AllowEmpty || !got.DryRun || !got.SkipHooks || !got.CreateNamespace || !got.ManageNamespace ||
		got.Propagation != metav1.DeletePropagationBackground || len(got.Selection) != 1 || got.Selection[0].Kind != "Deployment" {
		t.Errorf("the options are %+v", got)
	}
	plain := planOptions(&v1alpha1.ApplicationSpec{}, &v1alpha1.SyncOperation{})
	if plain.AllowPrune || plain.AllowEmpty || plain.SkipHooks || plain.Propagation != metav1.DeletePropagationForeground || plain.ObjectOptions != (plan.ObjectOptions{}) {
		t.Errorf("without options they are %+v", plain)
	}
}
