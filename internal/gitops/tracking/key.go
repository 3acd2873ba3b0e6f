package tracking

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/refusal"
)

// Key is the identity of an object in a cluster. The version is not part of it:
// one object can be read in several.
type Key struct {
	Group     string
	Kind      string
	Namespace string
	Name      string
}

// KeyOf is the identity of an object as it is written. A namespace that is not
// written is not filled in.
func KeyOf(object *unstructured.Unstructured) Key {
	kind := object.GroupVersionKind()
	return Key{Group: kind.Group, Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName()}
}

// GroupKind is the key without the object's name.
func (k Key) GroupKind() schema.GroupKind { return schema.GroupKind{Group: k.Group, Kind: k.Kind} }

// Compare orders by kind, group, namespace, name.
func (k Key) Compare(other Key) int { return refusal.Object(k).Compare(refusal.Object(other)) }

// String is the key for people: Deployment.apps shop/web, Namespace shop.
func (k Key) String() string { return refusal.Object(k).String() }
