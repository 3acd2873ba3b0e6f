package reconcile

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/plan"
)

// planOptions returns the options of a sync: those of the operation go before
// those of the Application.
func planOptions(spec *v1alpha1.ApplicationSpec, sync *v1alpha1.SyncOperation) plan.Options {
	options := objectOptions(spec, sync.SyncOptions)
	options.AllowPrune = sync.Prune
	options.DryRun = sync.DryRun
	options.Force = options.Force || sync.SyncStrategy.Forced()
	options.SkipHooks = !sync.SyncStrategy.RunsHooks()
	for _, resource := range sync.Resources {
		options.Selection = append(options.Selection, plan.Selector{
			Group: resource.Group, Kind: resource.Kind, Namespace: resource.Namespace, Name: resource.Name,
		})
	}
	return options
}

// objectOptions returns the options that do not depend on the request: those of
// the Application, and over them the sync options that an operation names.
func objectOptions(spec *v1alpha1.ApplicationSpec, own []string) plan.Options {
	var policy v1alpha1.SyncPolicy
	if spec.SyncPolicy != nil {
		policy = *spec.SyncPolicy
	}
	// What cannot be read was refused when the Application was decoded.
	general, _ := v1alpha1.ParseSyncOptions(policy.SyncOptions, "")
	requested, _ := v1alpha1.ParseSyncOptions(own, "")
	chosen := requested.Over(general)
	options := plan.Options{
		ObjectOptions: plan.ObjectOptions{
			Prune: permission(chosen.Prune), Delete: permission(chosen.Delete),
			PruneLast: chosen.PruneLast.Or(false), Replace: chosen.Replace.Or(false), Force: chosen.Force.Or(false),
			SkipValidation:              !chosen.Validate.Or(true),
			SkipDryRunOnMissingResource: chosen.SkipDryRunOnMissingResource.Or(false),
			RespectIgnoreDifferences:    chosen.RespectIgnoreDifferences.Or(false),
		},
		AllowEmpty:           policy.Automated != nil && policy.Automated.AllowEmpty,
		Propagation:          propagation(chosen.PrunePropagationPolicy),
		CreateNamespace:      chosen.CreateNamespace.Or(false),
		FailOnSharedResource: chosen.FailOnSharedResource.Or(false),
		ApplyOutOfSyncOnly:   chosen.ApplyOutOfSyncOnly.Or(false),
	}
	if metadata := policy.ManagedNamespaceMetadata; metadata != nil {
		options.ManageNamespace = true
		options.NamespaceLabels, options.NamespaceAnnotations = metadata.Labels, metadata.Annotations
	}
	return options
}

// permission translates Prune and Delete.
func permission(consent v1alpha1.Consent) plan.Permission {
	allowed, confirmed := consent.Allowed()
	switch {
	case !allowed:
		return plan.No
	case confirmed:
		return plan.Confirm
	}
	return plan.Yes
}

// propagation translates PrunePropagationPolicy; foreground is the default, as
// in Argo CD.
func propagation(policy string) metav1.DeletionPropagation {
	switch policy {
	case "background":
		return metav1.DeletePropagationBackground
	case "orphan":
		return metav1.DeletePropagationOrphan
	}
	return metav1.DeletePropagationForeground
}
