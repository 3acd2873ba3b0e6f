package inspect

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// treeDepth bounds a tree: owners can be written in a circle.
const treeDepth = 8

// Node is an object with what it owns.
type Node struct {
	Group     string  `json:"group,omitempty"`
	Kind      string  `json:"kind"`
	Namespace string  `json:"namespace,omitempty"`
	Name      string  `json:"name"`
	Sync      string  `json:"sync,omitempty"`
	Health    string  `json:"health,omitempty"`
	Message   string  `json:"message,omitempty"`
	Children  []*Node `json:"children,omitempty"`

	// What the API tells besides.
	Version         string    `json:"-"`
	ResourceVersion string    `json:"-"`
	UID             types.UID `json:"-"`
	Created         time.Time `json:"-"`
	// Info is short facts: images, ready containers, restarts.
	Info            map[string]string `json:"-"`
	Hook            bool              `json:"-"`
	RequiresPruning bool              `json:"-"`
}

// Key is the identity of the object.
func (n *Node) Key() tracking.Key {
	return tracking.Key{Group: n.Group, Kind: n.Kind, Namespace: n.Namespace, Name: n.Name}
}

// Walk visits a node and everything below it, with its parent.
func (n *Node) Walk(visit func(node, parent *Node)) { n.walk(nil, visit) }

func (n *Node) walk(parent *Node, visit func(node, parent *Node)) {
	visit(n, parent)
	for _, child := range n.Children {
		child.walk(n, visit)
	}
}

// Tree is the objects of an Application with what they own.
type Tree struct {
	// Root is the Application.
	Root *Node
	// bodies are the owned objects, by UID.
	bodies map[types.UID]*unstructured.Unstructured
	// pods are all Pods of the namespaces.
	pods map[tracking.Key]*unstructured.Unstructured
}

// Object is an owned object of the tree, as it was read. It is nil for what the
// Application has itself.
func (t *Tree) Object(uid types.UID) *unstructured.Unstructured { return t.bodies[uid] }

// KeyOfResource is the identity of an object in a status.
func KeyOfResource(resource *v1alpha1.ResourceStatus) tracking.Key {
	return tracking.Key{Group: resource.Group, Kind: resource.Kind, Namespace: resource.Namespace, Name: resource.Name}
}

// ShownSync is the state of sync; one that nobody has looked at is Unknown.
func ShownSync(status *v1alpha1.ApplicationStatus) string {
	if status.Sync.Status == "" {
		return string(v1alpha1.SyncUnknown)
	}
	return string(status.Sync.Status)
}

// ShownHealth is the health; one that nobody has looked at is Unknown.
func ShownHealth(status *v1alpha1.ApplicationStatus) string {
	if status.Health.Status == "" {
		return string(v1alpha1.Unknown)
	}
	return string(status.Health.Status)
}

// ShownResourceSync is the state of sync of an object, for people.
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

// Tree reads the tree of an Application. skipped is told what we may not list,
// which is left out.
func (i *Inspector) Tree(ctx context.Context, app *Application, skipped func(kind, namespace string)) (*Tree, error) {
	return i.tree(ctx, app, nil, skipped)
}

// tree is Tree; with identities, only objects that are in them are owners.
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

// topNode is an object that the Application has itself.
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

// below is what an object owns. An old ReplicaSet without Pods says nothing.
// Without a UID the name of the owner is enough.
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
		if status := health.Of(object, now); status != nil {
			node.Health, node.Message = string(status.Code), status.Message
		}
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b *Node) int { return strings.Compare(a.Kind+"/"+a.Name, b.Kind+"/"+b.Name) })
	return nodes
}

func wantsNone(object *unstructured.Unstructured) bool {
	wanted, found, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	return err == nil && found && wanted == 0
}
