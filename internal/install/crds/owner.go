package crds

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/kube"
)

// The label and the annotations that Helm sets on its objects (R23).
const (
	labelManager        = "app.kubernetes.io/managed-by"
	managerHelm         = "Helm"
	annotationRelease   = "meta.helm.sh/release-name"
	annotationNamespace = "meta.helm.sh/release-namespace"
)

// applications is the resource of Argo CD's Applications.
var applications = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}

// Place identifies a Helm release.
type Place struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// String formats the release as namespace/name.
func (p Place) String() string { return p.Namespace + "/" + p.Name }

// Owner is who manages a definition, according to its labels and annotations.
type Owner struct {
	// Kind is the tool, or none.
	Kind OwnerKind `json:"kind"`
	// Release is set for Helm, and Name for the others.
	Release *Place `json:"release,omitempty"`
	Name    string `json:"name,omitempty"`
	// Live is set if the Helm release exists. A release that cannot be looked
	// up counts as live: taking a definition from it could break it.
	Live bool `json:"live,omitempty"`
	// Unsure is why it could not be looked up.
	Unsure string `json:"unsure,omitempty"`
}

// OwnerKind is the tool that manages a definition.
type OwnerKind string

// The kinds of owners.
const (
	Unowned OwnerKind = "none"
	Helm    OwnerKind = "Helm"
	ArgoApp OwnerKind = "Argo CD"
	Flux    OwnerKind = "Flux"
	OLM     OwnerKind = "Operator Lifecycle Manager"
)

// String describes the owner.
func (o Owner) String() string {
	switch {
	case o.Kind == Helm && o.Unsure != "":
		return fmt.Sprintf("Helm release %s (whether it is there is not known: %s)", o.Release, o.Unsure)
	case o.Kind == Helm && !o.Live:
		return fmt.Sprintf("Helm release %s, which is gone", o.Release)
	case o.Kind == Helm:
		return fmt.Sprintf("Helm release %s", o.Release)
	case o.Kind == Unowned:
		return "none"
	}
	return fmt.Sprintf("%s (%s)", o.Kind, o.Name)
}

// is reports whether a release is the owner.
func (o Owner) is(release Place) bool { return o.Kind == Helm && *o.Release == release }

// free reports whether no live owner manages the definition, so that it can be
// adopted without Force.
func (o Owner) free() bool { return o.Kind == Unowned || o.Kind == Helm && !o.Live }

// ownerOf reads the marks. Tools that continuously restore objects from their
// source come first: they would undo an adoption.
func ownerOf(found *metav1.PartialObjectMetadata) Owner {
	annotations, marks := found.Annotations, found.Labels
	if id := annotations["argocd.argoproj.io/tracking-id"]; id != "" {
		app, _, _ := strings.Cut(id, ":")
		return Owner{Kind: ArgoApp, Name: app}
	}
	if name := marks["kustomize.toolkit.fluxcd.io/name"]; name != "" {
		return Owner{Kind: Flux, Name: marks["kustomize.toolkit.fluxcd.io/namespace"] + "/" + name}
	}
	if name := marks["helm.toolkit.fluxcd.io/name"]; name != "" {
		return Owner{Kind: Flux, Name: marks["helm.toolkit.fluxcd.io/namespace"] + "/" + name}
	}
	if marks["olm.managed"] == "true" {
		return Owner{Kind: OLM, Name: "olm.managed"}
	}
	if release := releaseOf(found); release != nil {
		return Owner{Kind: Helm, Release: release}
	}
	// Argo CD sets this label on everything when it tracks by label. Charts set
	// it too, together with the label that names Helm as the manager.
	if name := marks["app.kubernetes.io/instance"]; name != "" && marks[labelManager] == "" && marks["app.kubernetes.io/part-of"] != "argocd" {
		return Owner{Kind: ArgoApp, Name: name}
	}
	return Owner{Kind: Unowned}
}

// releaseOf returns the Helm release that the marks name; nil without one.
func releaseOf(found *metav1.PartialObjectMetadata) *Place {
	if found.Labels[labelManager] != managerHelm || found.Annotations[annotationRelease] == "" {
		return nil
	}
	return &Place{Name: found.Annotations[annotationRelease], Namespace: found.Annotations[annotationNamespace]}
}

// withoutApplication returns the owner of a definition of the release that an
// Application has delivered: the release itself, if the Application is gone.
// A runtime that is an Application of itself leaves such definitions when it is
// uninstalled. Those of other releases stay with the Application, which may be
// in another cluster.
func (o Owner) withoutApplication(ctx context.Context, cluster *kube.Cluster, found *metav1.PartialObjectMetadata, release Place) Owner {
	marked := releaseOf(found)
	if o.Kind != ArgoApp || marked == nil || *marked != release {
		return o
	}
	// Outside of the control namespace the name has the namespace before it.
	namespace, name, both := strings.Cut(o.Name, "_")
	if !both {
		namespace, name = metav1.NamespaceAll, o.Name
	}
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), Limit: 1}
	apps, err := cluster.Metadata.Resource(applications).Namespace(namespace).List(ctx, options)
	if apierrors.IsNotFound(err) || err == nil && len(apps.Items) == 0 {
		return Owner{Kind: Helm, Release: marked}
	}
	return o
}

// look sets Live if the Helm release exists: Helm stores each revision in a
// Secret, or a ConfigMap, of its namespace. Only metadata is read, because the
// content has the values of the release.
func (o *Owner) look(ctx context.Context, cluster *kube.Cluster) {
	if o.Kind != Helm {
		return
	}
	options := metav1.ListOptions{Limit: 1, LabelSelector: labels.Set{"owner": "helm", "name": o.Release.Name}.String()}
	for _, resource := range []string{"secrets", "configmaps"} {
		found, err := cluster.Metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(o.Release.Namespace).List(ctx, options)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			o.Live, o.Unsure = true, err.Error()
			return
		case len(found.Items) > 0:
			o.Live = true
			return
		}
	}
}
