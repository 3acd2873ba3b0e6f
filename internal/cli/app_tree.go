package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// treeDepth bounds a tree: owners can be written in a circle.
const treeDepth = 8

// treeNode is an object with what it owns.
type treeNode struct {
	Group     string      `json:"group,omitempty"`
	Kind      string      `json:"kind"`
	Namespace string      `json:"namespace,omitempty"`
	Name      string      `json:"name"`
	Sync      string      `json:"sync,omitempty"`
	Health    string      `json:"health,omitempty"`
	Message   string      `json:"message,omitempty"`
	Children  []*treeNode `json:"children,omitempty"`
}

func appTreeCommand(access *appAccess) *cobra.Command {
	command := &cobra.Command{
		Use:   "tree APP",
		Short: "Show the objects of an Application with what they own, down to the Pods",
		Long: `Shows the objects of an Application, and below them the ReplicaSets, Jobs and Pods
that they own, each with its health.`,
		Example: `  slipway app tree shop`,
		Args:    oneName,
	}
	output := newOutputFlag(command, outputJSON, outputYAML)
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := output.check(); err != nil {
			return err
		}
		cluster, err := access.open()
		if err != nil {
			return err
		}
		defer cluster.Close()
		app, err := cluster.get(command.Context(), args[0])
		if err != nil {
			return err
		}
		owned, err := cluster.owned(command.Context(), app, command.ErrOrStderr())
		if err != nil {
			return err
		}
		root := treeOf(app, owned, time.Now())
		if output.form != outputTable {
			return output.encode(command.OutOrStdout(), root)
		}
		return printTree(command.OutOrStdout(), root)
	}
	return command
}

// ownedKinds are what workloads own.
func ownedKinds() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "replicasets"},
		{Group: "batch", Version: "v1", Resource: "jobs"},
		{Version: "v1", Resource: "pods"},
	}
}

// ownedObjects is what was read of some namespaces.
type ownedObjects struct {
	// by are objects by the one that owns them.
	by map[tracking.Key][]*unstructured.Unstructured
	// pods are all Pods.
	pods map[tracking.Key]*unstructured.Unstructured
}

// owned reads what objects of the Application's namespaces own. What we may not
// read is left out and told.
func (c *appCluster) owned(ctx context.Context, app *application, warnings io.Writer) (*ownedObjects, error) {
	ctx, cancel := context.WithTimeout(ctx, appRequestTimeout)
	defer cancel()
	owned := &ownedObjects{by: map[tracking.Key][]*unstructured.Unstructured{}, pods: map[tracking.Key]*unstructured.Unstructured{}}
	for _, namespace := range namespacesOf(app) {
		for _, kind := range ownedKinds() {
			err := c.eachOf(ctx, kind, namespace, owned.add)
			if apierrors.IsForbidden(err) {
				_, _ = fmt.Fprintf(warnings, "You may not list %s in the namespace %s: they are left out.\n", kind.Resource, namespace)
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("list %s in the namespace %s: %w", kind.Resource, namespace, err)
			}
		}
	}
	return owned, nil
}

// namespacesOf are those that objects of an Application are in.
func namespacesOf(app *application) []string {
	var namespaces []string
	for _, resource := range app.Status.Resources {
		if resource.Namespace != "" && !slices.Contains(namespaces, resource.Namespace) {
			namespaces = append(namespaces, resource.Namespace)
		}
	}
	slices.Sort(namespaces)
	return namespaces
}

// eachOf lists a kind, page by page.
func (c *appCluster) eachOf(ctx context.Context, kind schema.GroupVersionResource, namespace string, visit func(*unstructured.Unstructured)) error {
	options := metav1.ListOptions{Limit: listPage}
	for {
		page, err := c.Dynamic.Resource(kind).Namespace(namespace).List(ctx, options)
		if err != nil {
			return err
		}
		for i := range page.Items {
			visit(&page.Items[i])
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

func (o *ownedObjects) add(object *unstructured.Unstructured) {
	if key := tracking.KeyOf(object); key.Group == "" && key.Kind == "Pod" {
		o.pods[key] = object
	}
	for _, owner := range object.GetOwnerReferences() {
		kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
		key := tracking.Key{Group: kind.Group, Kind: kind.Kind, Namespace: object.GetNamespace(), Name: owner.Name}
		o.by[key] = append(o.by[key], object)
	}
}

// treeOf is the tree of an Application.
func treeOf(app *application, owned *ownedObjects, now time.Time) *treeNode {
	root := &treeNode{
		Group: app.GroupVersionKind().Group, Kind: app.Kind, Namespace: app.Namespace, Name: app.Name,
		Sync: shownSync(&app.Status), Health: shownHealth(&app.Status), Message: app.Status.Health.Message,
	}
	for i := range app.Status.Resources {
		resource := &app.Status.Resources[i]
		key := keyOfResource(resource)
		node := &treeNode{Group: key.Group, Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, Sync: shownResourceSync(resource)}
		if resource.Health != nil {
			node.Health, node.Message = string(resource.Health.Status), resource.Health.Message
		}
		node.Children = owned.below(key, now, treeDepth)
		root.Children = append(root.Children, node)
	}
	return root
}

// below is what an object owns. An old ReplicaSet without Pods says nothing.
func (o *ownedObjects) below(owner tracking.Key, now time.Time, depth int) []*treeNode {
	if depth == 0 {
		return nil
	}
	var nodes []*treeNode
	for _, object := range o.by[owner] {
		key := tracking.KeyOf(object)
		children := o.below(key, now, depth-1)
		if key.Kind == "ReplicaSet" && len(children) == 0 && wantsNone(object) {
			continue
		}
		node := &treeNode{Group: key.Group, Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, Children: children}
		if status := health.Of(object, now); status != nil {
			node.Health, node.Message = string(status.Code), status.Message
		}
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b *treeNode) int { return strings.Compare(a.Kind+"/"+a.Name, b.Kind+"/"+b.Name) })
	return nodes
}

// key is the identity of the object.
func (n *treeNode) key() tracking.Key {
	return tracking.Key{Group: n.Group, Kind: n.Kind, Namespace: n.Namespace, Name: n.Name}
}

func wantsNone(object *unstructured.Unstructured) bool {
	wanted, found, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	return err == nil && found && wanted == 0
}

func printTree(w io.Writer, root *treeNode) error {
	rows, flush := newTable(w)
	rows.row("OBJECT", "SYNC", "HEALTH", "MESSAGE")
	root.print(rows, "", "")
	return flush()
}

// print shows a node and what is below it; the lines in front of both differ.
func (n *treeNode) print(rows table, first, rest string) {
	rows.row(first+n.key().String(), orNone(n.Sync), orNone(n.Health), n.Message)
	for i, child := range n.Children {
		if i == len(n.Children)-1 {
			child.print(rows, rest+"└─ ", rest+"   ")
		} else {
			child.print(rows, rest+"├─ ", rest+"│  ")
		}
	}
}
