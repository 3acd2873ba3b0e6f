package preflight

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/kube"
)

// What Helm marks its objects with (R23).
const (
	helmLabel     = "app.kubernetes.io/managed-by"
	helmManager   = "Helm"
	helmRelease   = "meta.helm.sh/release-name"
	helmNamespace = "meta.helm.sh/release-namespace"

	defaultRelease = "slipway-runtime"
)

// ownCRDs are those of the chart.
func ownCRDs() []string {
	return []string{"applications.argoproj.io", "applicationsets.argoproj.io", "appprojects.argoproj.io"}
}

// checkCRDOwnership is P7: whose the CRDs of the chart are, by Helm's label and
// annotations. It passes when they are not there yet, or belong to this release.
func checkCRDOwnership(ctx context.Context, in *Inquiry, out *Report) {
	release := cmp.Or(in.Release, defaultRelease)
	out.look("label and annotations of Helm on %s", shorten(ownCRDs()))
	for _, name := range ownCRDs() {
		found, err := in.Cluster.Metadata.Resource(kube.DefinitionResource()).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			out.unseen("customresourcedefinitions", err)
			return
		}
		in.judgeCRD(found, release, out)
	}
}

func (in *Inquiry) judgeCRD(found *metav1.PartialObjectMetadata, release string, out *Report) {
	owner, where := found.Annotations[helmRelease], found.Annotations[helmNamespace]
	managed := found.Labels[helmLabel]
	switch {
	case managed == helmManager && owner == release && where == in.Settings.Namespace:
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
			return // slipway crds adopt says why
		}
		finding.Plan = fmt.Sprintf("merge into the CustomResourceDefinition %s: %s", found.Name, patch)
		name := found.Name
		finding.Apply = func(ctx context.Context) error {
			_, err := in.Cluster.Metadata.Resource(kube.DefinitionResource()).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
			return err
		}
	}
}
