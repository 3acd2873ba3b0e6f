package migration

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/argosetting"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/rights"
)

// listPage is the page size of lists.
const listPage = 500

// fieldDepth is how deep fields are listed below spec, such as
// spec.source.helm.valueFiles. Below that a field is one with all it has.
const fieldDepth = 3

// list returns the objects of a kind outside of the runtime's namespace. A user
// who may not list all namespaces gets those of Argo CD's.
func (a *assessment) list(ctx context.Context, resource schema.GroupVersionResource) ([]*unstructured.Unstructured, error) {
	found, err := a.listIn(ctx, resource, metav1.NamespaceAll)
	if apierrors.IsForbidden(err) {
		a.warn(fmt.Sprintf("you may not list %s of all namespaces: those of %s are reported", resource.Resource, a.Namespace))
		found, err = a.listIn(ctx, resource, a.Namespace)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil // the cluster does not have the kind
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource.Resource, err)
	}
	return slices.DeleteFunc(found, func(one *unstructured.Unstructured) bool { return one.GetNamespace() == a.ControlNamespace }), nil
}

// listIn lists the objects of a namespace, page by page.
func (a *assessment) listIn(ctx context.Context, resource schema.GroupVersionResource, namespace string) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	options := metav1.ListOptions{Limit: listPage}
	for {
		page, err := a.Cluster.Dynamic.Resource(resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			found = append(found, &page.Items[i])
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return found, nil
		}
	}
}

// projects reports the AppProjects of Argo CD's namespace: it reads no others.
func (a *assessment) projects(ctx context.Context) error {
	found, err := a.list(ctx, v1alpha1.ProjectResource())
	if err != nil {
		return err
	}
	for _, one := range found {
		if one.GetNamespace() != a.Namespace {
			continue
		}
		object := newObject(v1alpha1.Group, v1alpha1.KindAppProject, one.GetNamespace(), one.GetName())
		project, refused, err := v1alpha1.DecodeProject(one.Object)
		if err != nil {
			object.add("", argosetting.Refused, err.Error())
		} else {
			addDecoded(object, one, refused, project.Warnings)
			addRoles(object, project)
		}
		if err := a.compareProject(ctx, object, one); err != nil {
			return err
		}
		a.report.Objects = append(a.report.Objects, object.finish())
	}
	return nil
}

// addRoles adds lines of roles that are refused.
func addRoles(object *Object, project *v1alpha1.AppProject) {
	var roles []rights.ProjectRole
	for _, role := range project.Spec.Roles {
		roles = append(roles, rights.ProjectRole{Name: role.Name, Policies: role.Policies, Groups: role.Groups})
	}
	_, refused := rights.ParseProject(project.Name, roles, rights.Glob)
	for _, one := range refused {
		object.add(one.Field, argosetting.Refused, one.Message)
	}
}

// compareProject compares a project with the runtime's of the same name, which a
// take-over keeps.
func (a *assessment) compareProject(ctx context.Context, object *Object, theirs *unstructured.Unstructured) error {
	ours, err := a.Cluster.Dynamic.Resource(v1alpha1.ProjectResource()).Namespace(a.ControlNamespace).Get(ctx, theirs.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // a take-over copies it
	}
	if err != nil {
		return fmt.Errorf("read the AppProject %s/%s: %w", a.ControlNamespace, theirs.GetName(), err)
	}
	if !reflect.DeepEqual(ours.GetLabels(), theirs.GetLabels()) {
		if err := a.compareGlobals(ctx, object, ours, theirs); err != nil {
			return err
		}
	}
	if !reflect.DeepEqual(ours.Object["spec"], theirs.Object["spec"]) {
		object.add("", argosetting.Differs, "the runtime has an AppProject of this name with another spec, which counts: make them equal, or delete the runtime's")
	}
	return nil
}

// compareGlobals reports labels by which Argo CD's setting chooses other global projects.
func (a *assessment) compareGlobals(ctx context.Context, object *Object, ours, theirs *unstructured.Unstructured) error {
	globals, err := project.LoadGlobals(ctx, a.Cluster.Dynamic, a.Namespace)
	if err != nil {
		return err
	}
	namesOf := func(one *unstructured.Unstructured) []string {
		return globals.Of(&v1alpha1.AppProject{ObjectMeta: metav1.ObjectMeta{Name: one.GetName(), Labels: one.GetLabels()}})
	}
	if !slices.Equal(namesOf(ours), namesOf(theirs)) {
		object.add("metadata.labels", argosetting.Differs, "the runtime has an AppProject of this name with other labels, by which globalProjects of argocd-cm chooses other global projects: make them equal")
	}
	return nil
}

// addDecoded adds the fields of an object that was decoded: what was refused,
// what has no effect, and all others of its spec.
func addDecoded(object *Object, from *unstructured.Unstructured, refused, ignored []refusal.Refusal) {
	for _, one := range refused {
		object.add(one.Field, argosetting.Refused, one.Message)
	}
	for _, one := range ignored {
		object.add(one.Field, argosetting.NoEffect, one.Message)
	}
	known := slices.Clone(object.Fields)
	for _, path := range paths(from.Object["spec"], "spec", fieldDepth) {
		// A field that has a listed one in it, or is in one, is not the same.
		if !slices.ContainsFunc(known, func(f Field) bool { return within(f.Name, path) || within(path, f.Name) }) {
			object.add(path, argosetting.Same, "")
		}
	}
}

// within reports whether a path is another one, or below it.
func within(path, other string) bool {
	rest, below := strings.CutPrefix(path, other)
	return below && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// paths lists the fields of a value, in order.
func paths(value any, at string, depth int) []string {
	var found []string
	switch value := value.(type) {
	case map[string]any:
		if depth == 0 || len(value) == 0 {
			return []string{at}
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			found = append(found, paths(value[key], at+"."+key, depth-1)...)
		}
		return found
	case []any:
		for i, element := range value {
			if _, isMap := element.(map[string]any); !isMap || depth == 0 {
				return []string{at}
			}
			found = append(found, paths(element, fmt.Sprintf("%s[%d]", at, i), depth)...)
		}
		if len(found) > 0 {
			return found
		}
	}
	return []string{at}
}
