package inspect

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// treeDepth bounds a tree: owner references can be circular.
const treeDepth = 8

// Node is an object with the objects it owns.
type Node struct {
	Group     string  `json:"group,omitempty"`
	Kind      string  `json:"kind"`
	Namespace string  `json:"namespace,omitempty"`
	Name      string  `json:"name"`
	Sync      string  `json:"sync,omitempty"`
	Health    string  `json:"health,omitempty"`
	Message   string  `json:"message,omitempty"`
	Children  []*Node `json:"children,omitempty"`

	// These are for the API only.
	Version         string    `json:"-"`
	ResourceVersion string    `json:"-"`
	UID             types.UID `json:"-"`
	Created         time.Time `json:"-"`
	// Info has short facts: images, ready containers, restarts.
	Info map[string]string `json:"-"`
	// Hook is set for hooks, and RequiresPruning for objects that are no longer
	// in Git.
	Hook            bool `json:"-"`
	RequiresPruning bool `json:"-"`
}

// Key returns the identity of the object.
func (n *Node) Key() tracking.Key {
	return tracking.Key{Group: n.Group, Kind: n.Kind, Namespace: n.Namespace, Name: n.Name}
}

// Walk visits a node and everything below it, with its parent.
func (n *Node) Walk(visit func(node, parent *Node)) { n.walk(nil, visit) }

// walk visits the parent before its children, in the order of the tree.
func (n *Node) walk(parent *Node, visit func(node, parent *Node)) {
	visit(n, parent)
	for _, child := range n.Children {
		child.walk(n, visit)
	}
}

// Tree is the objects of an Application with the objects they own.
type Tree struct {
	// Root is the Application.
	Root *Node
	// bodies are the owned objects by UID.
	bodies map[types.UID]*unstructured.Unstructured
	// pods are all Pods of the namespaces.
	pods map[tracking.Key]*unstructured.Unstructured
}

// Object returns an owned object of the tree; nil for the Application's own
// objects.
func (t *Tree) Object(uid types.UID) *unstructured.Unstructured { return t.bodies[uid] }

// KeyOfResource returns the identity of an object in a status.
func KeyOfResource(resource *v1alpha1.ResourceStatus) tracking.Key {
	return tracking.Key{Group: resource.Group, Kind: resource.Kind, Namespace: resource.Namespace, Name: resource.Name}
}

// ShownSync returns the sync status; Unknown before the first comparison.
func ShownSync(status *v1alpha1.ApplicationStatus) string {
	if status.Sync.Status == "" {
		return string(v1alpha1.SyncUnknown)
	}
	return string(status.Sync.Status)
}

// ShownHealth returns the health; Unknown before the first comparison.
func ShownHealth(status *v1alpha1.ApplicationStatus) string {
	if status.Health.Status == "" {
		return string(v1alpha1.Unknown)
	}
	return string(status.Health.Status)
}

// ShownResourceSync returns the sync status of an object for display.
func ShownResourceSync(resource *v1alpha1.ResourceStatus) string {
	switch {
	case resource.Hook:
		return "hook"
	case resource.RequiresPruning && resource.RequiresDeletionConfirmation:
		return "to prune, when confirmed"
	case resource.RequiresPruning:
		return "to prune"
	case resource.Status == "":
		return "-"
	}
	return string(resource.Status)
}

// Tree reads the tree of an Application. Kinds that may not be listed are left
// out and reported to skipped.
func (i *Inspector) Tree(ctx context.Context, app *Application, skipped func(kind, namespace string)) (*Tree, error) {
	return i.tree(ctx, app, nil, skipped)
}

// tree implements Tree. With identities, only objects among them are owners.
func (i *Inspector) tree(ctx context.Context, app *Application, known identities, skipped func(kind, namespace string)) (*Tree, error) {
	owned, err := i.owned(ctx, app, skipped)
	if err != nil {
		return nil, err
	}
	if known != nil {
		if err := known.complete(ctx, app, owned); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	root := &Node{
		Group: app.GroupVersionKind().Group, Kind: app.Kind, Namespace: app.Namespace, Name: app.Name,
		Sync: ShownSync(&app.Status), Health: ShownHealth(&app.Status), Message: app.Status.Health.Message,
		Version: v1alpha1.Version, UID: app.UID, Created: app.CreationTimestamp.Time,
	}
	for n := range app.Status.Resources {
		root.Children = append(root.Children, topNode(&app.Status.Resources[n], owned, known, now))
	}
	return &Tree{Root: root, bodies: owned.bodies, pods: owned.pods}, nil
}

// topNode returns the node of an Application's own object.
func topNode(resource *v1alpha1.ResourceStatus, owned *ownedObjects, known identities, now time.Time) *Node {
	key := KeyOfResource(resource)
	node := &Node{
		Group: key.Group, Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, Sync: ShownResourceSync(resource),
		Version: resource.Version, Hook: resource.Hook, RequiresPruning: resource.RequiresPruning,
	}
	if resource.Health != nil {
		node.Health, node.Message = string(resource.Health.Status), resource.Health.Message
	}
	if known == nil {
		node.Children = owned.below(key, "", now, treeDepth)
		return node
	}
	if own, ok := known.get(key); ok {
		node.UID, node.ResourceVersion, node.Created = own.UID, own.Version, own.Created
		node.Children = owned.below(key, own.UID, now, treeDepth)
	}
	return node
}

// below returns the objects that an object owns. An old ReplicaSet without Pods
// is left out. Without a UID the name of the owner is enough. The UID keeps an
// object of an earlier owner with the same name out.
func (o *ownedObjects) below(owner tracking.Key, uid types.UID, now time.Time, depth int) []*Node {
	if depth == 0 {
		return nil
	}
	var nodes []*Node
	for _, link := range o.by[owner] {
		if uid != "" && link.owner != uid {
			continue
		}
		object := link.object
		key := tracking.KeyOf(object)
		children := o.below(key, object.GetUID(), now, depth-1)
		if key.Kind == "ReplicaSet" && len(children) == 0 && wantsNone(object) {
			continue
		}
		node := &Node{
			Group: key.Group, Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, Children: children,
			Version: object.GroupVersionKind().Version, UID: object.GetUID(), Created: object.GetCreationTimestamp().Time,
			ResourceVersion: object.GetResourceVersion(), Info: infoOf(object),
		}
		if status := o.health.Of(object, now); status != nil {
			node.Health, node.Message = string(status.Code), status.Message
		}
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b *Node) int { return strings.Compare(a.Kind+"/"+a.Name, b.Kind+"/"+b.Name) })
	return nodes
}

// wantsNone reports whether a ReplicaSet is scaled to zero.
func wantsNone(object *unstructured.Unstructured) bool {
	wanted, found, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	return err == nil && found && wanted == 0
}
