package migration

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/appset"
	"slipway.dev/slipway/internal/gitops/argosetting"
)

// maxPaths bounds the fields of one generated Application that are named.
const maxPaths = 10

// sets reports the ApplicationSets.
func (a *assessment) sets(ctx context.Context) error {
	found, err := a.list(ctx, v1alpha1.SetResource())
	if err != nil {
		return err
	}
	for _, one := range found {
		object := newObject(v1alpha1.Group, v1alpha1.KindApplicationSet, one.GetNamespace(), one.GetName())
		set, refused, err := v1alpha1.DecodeSet(one.Object)
		if err != nil {
			object.add("", argosetting.Refused, err.Error())
		} else {
			addDecoded(object, one, refused, set.Warnings)
		}
		if err == nil && len(refused) == 0 {
			object.Proof = a.proveSet(ctx, one)
		}
		a.report.Objects = append(a.report.Objects, object.finish())
		// What an interrupt cut short is no proof.
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// proveSet generates the Applications of a set, as the runtime would in Argo CD's
// namespace, and compares them with those that Argo CD has generated.
func (a *assessment) proveSet(ctx context.Context, set *unstructured.Unstructured) *Proof {
	proof := &Proof{Resources: []Resource{}}
	live := map[string]*unstructured.Unstructured{}
	for _, app := range a.apps {
		if generates(set, app) {
			live[app.GetName()] = app
		}
	}
	options := appset.ControllerOptions{
		Cluster: a.Cluster, Generator: a.Renderer, ControlNamespace: a.Namespace,
		Facts: &appset.ClusterFacts{Cluster: a.Cluster, Namespace: a.Namespace, Sources: a.sources},
	}
	previews, err := appset.NewPreview(ctx, options, set, live)
	if err != nil {
		proof.Failed = failure(err)
	}
	for _, one := range previews {
		key := refusal.Object{Group: v1alpha1.Group, Kind: v1alpha1.KindApplication, Namespace: set.GetNamespace(), Name: one.Name}
		resource := Resource{Name: key.String(), Effect: argosetting.Same}
		switch {
		case one.Missing:
			resource.Effect, resource.Text = argosetting.Differs, "the runtime generates it, and Argo CD has not"
		case one.Extra:
			resource.Effect, resource.Text = argosetting.Differs, "Argo CD has generated it, and the runtime does not"
		case one.Patch != nil:
			resource.Effect, resource.Text = argosetting.Differs, "the runtime would change "+changedFields(one.Patch)
		}
		proof.Resources = append(proof.Resources, resource)
	}
	return proof
}

// generates reports whether an Application is one of a set.
func generates(set, app *unstructured.Unstructured) bool {
	for _, owner := range app.GetOwnerReferences() {
		if owner.Kind == v1alpha1.KindApplicationSet && owner.UID == set.GetUID() {
			return true
		}
	}
	return false
}

// changedFields lists the fields of a patch, without values: addresses of
// repositories can have passwords.
func changedFields(patch map[string]any) string {
	var names []string
	for part, value := range patch {
		names = append(names, paths(value, part, fieldDepth)...)
	}
	slices.Sort(names)
	if len(names) > maxPaths {
		names = append(names[:maxPaths], "and others")
	}
	return strings.Join(names, ", ")
}
