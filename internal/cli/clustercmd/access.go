package clustercmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/kube"
)

const (
	// managerAccount is the service account of the runtime in the other
	// cluster, and the name of its roles. It is fixed, so that a second
	// addition finds the objects of the first.
	managerAccount = "slipway-manager"
	// renewRole allows the service account to renew its own token.
	// cluster-admin includes that right, so only scoped additions need the
	// role.
	renewRole = "slipway-manager-token"
	// accessOwner is the value of mode.ManagedLabel on our objects, and
	// accessManager the field manager of our writes.
	accessOwner   = "slipway"
	accessManager = "slipway-cli"
	// undoTimeout bounds an undo. It has a bound of its own, because the
	// context of the command may have been cancelled.
	undoTimeout = 30 * time.Second
)

// accessObject is an object that gives the runtime rights in the other cluster,
// with the resource that the dynamic client needs for it.
type accessObject struct {
	resource schema.GroupVersionResource
	*unstructured.Unstructured
}

// in returns the client for the resource of the object in a cluster, in the
// namespace of the object if it has one.
func (o accessObject) in(cluster *kube.Cluster) dynamic.ResourceInterface {
	if o.GetNamespace() == "" {
		return cluster.Dynamic.Resource(o.resource)
	}
	return cluster.Dynamic.Resource(o.resource).Namespace(o.GetNamespace())
}

// String formats the object for messages.
func (o accessObject) String() string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

// newAccessObject returns an object with our label, by which a later command
// recognises it. more is the body without metadata; the object takes it over.
// The resource is the lower-case plural of the kind, which holds for all kinds
// used here.
func newAccessObject(kind, namespace, name string, more map[string]any) accessObject {
	version, resource := "rbac.authorization.k8s.io/v1", strings.ToLower(kind)+"s"
	if kind == "ServiceAccount" {
		version = "v1"
	}
	object := &unstructured.Unstructured{Object: more}
	object.SetAPIVersion(version)
	object.SetKind(kind)
	object.SetName(name)
	object.SetNamespace(namespace)
	object.SetLabels(map[string]string{mode.ManagedLabel: accessOwner})
	return accessObject{object.GroupVersionKind().GroupVersion().WithResource(resource), object}
}

// accessBinding returns a binding of a role to the service account. The kind of
// the role follows from that of the binding: a RoleBinding refers to a Role of
// its namespace, a ClusterRoleBinding to a ClusterRole.
func accessBinding(kind, namespace, name, role, system string) accessObject {
	return newAccessObject(kind, namespace, name, map[string]any{
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": strings.TrimSuffix(kind, "Binding"), "name": role},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": managerAccount, "namespace": system}},
	})
}

// accessObjects returns the service account and its rights, in the order of
// creation: cluster-admin, or all rights in some namespaces and the right to
// renew its own token. Deleting goes backwards. Adding, removing and the
// printed kubectl commands share the list, so they cannot differ.
func accessObjects(system string, namespaces []string) []accessObject {
	objects := []accessObject{newAccessObject("ServiceAccount", system, managerAccount, map[string]any{})}
	if len(namespaces) == 0 {
		return append(objects, accessBinding("ClusterRoleBinding", "", managerAccount, "cluster-admin", system))
	}
	objects = append(objects,
		newAccessObject("Role", system, renewRole, map[string]any{"rules": []any{map[string]any{
			"apiGroups": []any{""}, "resources": []any{"serviceaccounts/token"}, "resourceNames": []any{managerAccount}, "verbs": []any{"create"},
		}}}),
		accessBinding("RoleBinding", system, renewRole, renewRole, system),
	)
	for _, namespace := range namespaces {
		objects = append(objects,
			newAccessObject("Role", namespace, managerAccount, map[string]any{"rules": []any{map[string]any{
				"apiGroups": []any{"*"}, "resources": []any{"*"}, "verbs": []any{"*"},
			}}}),
			accessBinding("RoleBinding", namespace, managerAccount, managerAccount, system),
		)
	}
	return objects
}

// accessYAML formats the objects as manifests that kubectl apply accepts.
func accessYAML(objects []accessObject) (string, error) {
	var documents []string
	for _, object := range objects {
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return "", err
		}
		documents = append(documents, string(text))
	}
	return strings.Join(documents, "---\n"), nil
}

// cleanUpCommands returns the kubectl commands that delete the objects, the
// last created first, so that the service account goes last.
func cleanUpCommands(system string, namespaces []string) string {
	var text strings.Builder
	objects := accessObjects(system, namespaces)
	for i := len(objects) - 1; i >= 0; i-- {
		object := objects[i]
		text.WriteString("kubectl delete " + strings.ToLower(object.GetKind()) + " " + object.GetName())
		if object.GetNamespace() != "" {
			text.WriteString(" --namespace " + printer.Printable(object.GetNamespace()))
		}
		text.WriteString("\n")
	}
	return text.String()
}

// undoStep undoes one change. It gets a context of its own, see undoAccess.
type undoStep func(ctx context.Context) error

// grantAccess creates the objects in order and stops at the first error. It
// returns the steps that undo the changes so far, also with an error.
func grantAccess(ctx context.Context, cluster *kube.Cluster, objects []accessObject) (undo []undoStep, err error) {
	for _, object := range objects {
		back, err := grantOne(ctx, cluster, object)
		if back != nil {
			undo = append(undo, back)
		}
		if err != nil {
			return undo, fmt.Errorf("make the %s: %w", object, err)
		}
	}
	return undo, nil
}

// grantOne creates an object, or updates one of ours. An object that another
// tool made is refused. The undo step deletes by UID, or restores the earlier
// content by resource version, so that it never removes a newer object of the
// same name. It is nil if nothing changed.
func grantOne(ctx context.Context, cluster *kube.Cluster, object accessObject) (undoStep, error) {
	place := object.in(cluster)
	// Create first and read only on a conflict: a Get before it would leave a
	// gap in which another client creates the object.
	made, err := place.Create(ctx, object.Unstructured.DeepCopy(), metav1.CreateOptions{FieldManager: accessManager})
	if err == nil {
		uid := made.GetUID()
		return func(ctx context.Context) error {
			err := place.Delete(ctx, object.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	found, err := place.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	// Without our label it belongs to another tool, even under our name.
	if found.GetLabels()[mode.ManagedLabel] != accessOwner {
		return nil, errors.New("another tool made one of that name: delete it first, or choose another --system-namespace")
	}
	// Only the fields that grant rights are replaced. Labels, annotations and,
	// for a ServiceAccount, the Secrets stay as they are.
	wanted := found.DeepCopy()
	for _, field := range []string{"rules", "roleRef", "subjects"} {
		if value, ok := object.Object[field]; ok {
			wanted.Object[field] = value
		}
	}
	changed, err := place.Update(ctx, wanted, metav1.UpdateOptions{FieldManager: accessManager})
	// The API server keeps the resource version of an update without a change:
	// then there is nothing to undo.
	if err != nil || changed.GetResourceVersion() == found.GetResourceVersion() {
		return nil, err
	}
	return func(ctx context.Context) error {
		before := found.DeepCopy()
		// The version of our own update: a write by another client since then
		// fails the undo with a conflict and is not overwritten.
		before.SetResourceVersion(changed.GetResourceVersion())
		_, err := place.Update(ctx, before, metav1.UpdateOptions{FieldManager: accessManager})
		return err
	}, nil
}

// undoAccess runs all undo steps, the last first, also when the command was
// interrupted. An error does not stop the rest; all are joined.
func undoAccess(ctx context.Context, undo []undoStep) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	var problems []error
	for i := len(undo) - 1; i >= 0; i-- {
		if err := undo[i](ctx); err != nil {
			problems = append(problems, fmt.Errorf("undo: %w", err))
		}
	}
	return errors.Join(problems...)
}

// deleteAccess deletes those of the objects that carry our label, the last
// created first, and goes on after errors. Objects that are missing are
// skipped, so an interrupted clean-up can be repeated.
func deleteAccess(command *cobra.Command, cluster *kube.Cluster, objects []accessObject) error {
	ctx, cancel := context.WithTimeout(command.Context(), kubeflags.RequestTimeout)
	defer cancel()
	var problems []error
	for i := len(objects) - 1; i >= 0; i-- {
		object := objects[i]
		found, err := object.in(cluster).Get(ctx, object.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err == nil && found.GetLabels()[mode.ManagedLabel] != accessOwner {
			printer.Note(command, "The %s was made by another tool, and stays.", object.String())
			continue
		}
		if err == nil {
			// By UID: an object that was recreated since is not ours to delete.
			uid := found.GetUID()
			err = object.in(cluster).Delete(ctx, object.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("delete the %s: %w", object, err))
			continue
		}
		printer.Note(command, "The %s is deleted.", object.String())
	}
	return errors.Join(problems...)
}
