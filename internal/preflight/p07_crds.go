package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/kube"
)

// Label and annotations of Helm's ownership (R23).
const (
	helmLabel     = "app.kubernetes.io/managed-by"
	helmManager   = "Helm"
	helmRelease   = "meta.helm.sh/release-name"
	helmNamespace = "meta.helm.sh/release-namespace"

	defaultRelease = "slipway-runtime"
)

// ownCRDs returns the CRDs of the chart.
func ownCRDs() []string {
	var names []string
	for _, kind := range v1alpha1.Kinds() {
		names = append(names, kind.Plural+"."+kind.Group)
	}
	slices.Sort(names)
	return names
}

// checkCRDOwnership is P7: the CRDs of the chart do not exist yet or belong
// to this release, by Helm's label and annotations.
func checkCRDOwnership(ctx context.Context, in *CheckContext, out *Report) {
	// The default is the release name of the documentation.
	release := cmp.Or(in.Release, defaultRelease)
	out.inspect("label and annotations of Helm on %s", shorten(ownCRDs()))
	for _, name := range ownCRDs() {
		// Metadata is enough, and smaller than the schemas of the CRDs.
		found, err := in.Cluster.Metadata.Resource(kube.DefinitionResource()).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			out.readError("customresourcedefinitions", err)
			return
		}
		in.evaluateCRD(found, release, out)
	}
}

// evaluateCRD reports a CRD of another owner. A CRD without owner can be
// adopted.
func (in *CheckContext) evaluateCRD(found *metav1.PartialObjectMetadata, release string, out *Report) {
	// Helm identifies the owner of an object by these annotations and the
	// managed-by label.
	owner, where := found.Annotations[helmRelease], found.Annotations[helmNamespace]
	managed := found.Labels[helmLabel]
	switch {
	case managed == helmManager && owner == release && where == in.Settings.Namespace:
	// A CRD of another release is not adopted automatically: that release
	// would fight over it.
	case managed == helmManager && owner != "":
		out.warn(found.Name, fmt.Sprintf("it belongs to the Helm release %s of the namespace %s, which may change or delete it", owner, where),
			fmt.Sprintf("leave it to that release, or have it give the CRD up and run slipway crds adopt --release %s --namespace %s", release, in.Settings.Namespace))
	default:
		finding := out.warn(found.Name, "it is there and belongs to no Helm release: it is not upgraded with the runtime",
			fmt.Sprintf("run slipway crds adopt --release %s --namespace %s", release, in.Settings.Namespace))
		if in.Adoption == nil {
			return
		}
		patch, err := in.Adoption(found, release, in.Settings.Namespace)
		if err != nil {
			return // slipway crds adopt reports the reason
		}
		// The patch contains a record of the previous owner, so that slipway
		// crds release can revert it.
		finding.Plan = fmt.Sprintf("merge into the CustomResourceDefinition %s: %s", found.Name, patch)
		name := found.Name
		finding.Apply = func(ctx context.Context) error {
			_, err := in.Cluster.Metadata.Resource(kube.DefinitionResource()).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
			return err
		}
	}
}
