package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

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

// checkCRDOwnership is P7: the CRDs and the other objects of the chart do not
// exist yet or belong to this release, by Helm's label and annotations.
func checkCRDOwnership(ctx context.Context, in *CheckContext, out *Report) {
	// The default is the release name of the documentation.
	release := cmp.Or(in.Release, defaultRelease)
	out.inspect("label and annotations of Helm on %s", shorten(ownCRDs()))
	for _, name := range ownCRDs() {
		// Metadata is enough, and smaller than the schemas of the CRDs.
		found, err := in.Cluster.Metadata.Resource(kube.DefinitionResource()).Get(ctx, name, metav1.GetOptions{})
		kept := in.KeepCRDs && strings.HasSuffix(name, ".argoproj.io")
		switch {
		case apierrors.IsNotFound(err) && kept:
			out.fail(name, "it is not there, and argo-cd.crds.install is false", "create it before the runtime, or leave argo-cd.crds.install out")
		case apierrors.IsNotFound(err), err == nil && kept:
		case err != nil:
			out.readError("customresourcedefinitions", err)
			return
		default:
			in.evaluateCRD(found, release, out)
		}
	}
	if in.Stage == Before {
		in.evaluateOwners(ctx, release, out)
	}
}

// evaluateOwners reports objects of the chart that exist already and do not
// belong to this release: Helm refuses to install over them. A second runtime
// in the cluster meets them.
func (in *CheckContext) evaluateOwners(ctx context.Context, release string, out *Report) {
	for _, object := range in.Objects {
		// Helm deletes a hook that exists and creates it again.
		if object.Hook {
			continue
		}
		found, err := in.Cluster.Metadata.Resource(object.resource()).Namespace(object.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case apierrors.IsForbidden(err): // P4 reports it
		case err != nil:
			out.readError(object.resource().Resource, err)
			return
		case !ownedBy(found, release, in.Settings.Namespace):
			foreignObject(object, found, out)
		}
	}
}

// ownedBy reports whether an object has the marks of a release.
func ownedBy(found *metav1.PartialObjectMetadata, release, namespace string) bool {
	return found.Labels[helmLabel] == helmManager && found.Annotations[helmRelease] == release && found.Annotations[helmNamespace] == namespace
}

// foreignObject reports an object of the chart that another release or another
// tool has created.
func foreignObject(object Object, found *metav1.PartialObjectMetadata, out *Report) {
	subject := named(object.Kind, object.Namespace, object.Name)
	owner, where := found.Annotations[helmRelease], found.Annotations[helmNamespace]
	message, fix := "it is there and belongs to no Helm release, and Helm does not install over it", "delete it if it is not used, or install to another namespace with --namespace"
	if owner != "" {
		message = fmt.Sprintf("it belongs to the Helm release %s of the namespace %s, and Helm does not install over it", owner, where)
		fix = fmt.Sprintf("install to another namespace with --namespace, or uninstall that release: helm uninstall %s --namespace %s", owner, where)
	}
	// The class is the one object that two runtimes of one cluster share by
	// default.
	if object.Kind == "IngressClass" {
		fix = "give the edge of this runtime a class of its own with --set edge.ingressClass.name=NAME, or leave the edge out with --set edge.enabled=false"
	}
	out.fail(subject, message, fix)
}

// evaluateCRD reports a CRD of another owner. A CRD without owner can be
// adopted.
func (in *CheckContext) evaluateCRD(found *metav1.PartialObjectMetadata, release string, out *Report) {
	// Helm identifies the owner of an object by these annotations and the
	// managed-by label.
	owner, where := found.Annotations[helmRelease], found.Annotations[helmNamespace]
	switch {
	case ownedBy(found, release, in.Settings.Namespace):
	// A CRD of another release is not adopted automatically: that release
	// would fight over it.
	case found.Labels[helmLabel] == helmManager && owner != "":
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
