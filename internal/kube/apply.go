package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// Target is the namespace and the field manager of applied manifests.
type Target struct {
	// Namespace is set on namespaced objects without one.
	Namespace string
	// Manager is the field manager. It takes fields over from other managers
	// (force), because a conflict cannot be resolved by a program.
	Manager string
}

// Apply applies the documents of a YAML text in their order, server-side, and
// returns the objects as the API server stored them. It stops at the first object
// that fails: those before it stay applied. A CustomResourceDefinition may come
// right before the objects of its kind.
func (c *Cluster) Apply(ctx context.Context, target Target, manifests string) ([]*unstructured.Unstructured, error) {
	objects, err := decode(manifests)
	if err != nil {
		return nil, err
	}
	applied := make([]*unstructured.Unstructured, 0, len(objects))
	for i, object := range objects {
		result, err := c.applyObject(ctx, target, object)
		if err != nil {
			return applied, fmt.Errorf("apply %s (object %d): %w", describe(object), i+1, err)
		}
		applied = append(applied, result)
	}
	return applied, nil
}

// applyObject applies one object and takes the ownership of conflicting fields.
func (c *Cluster) applyObject(ctx context.Context, target Target, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	mapping, err := c.mapping(ctx, object.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	var resource dynamic.ResourceInterface = c.Dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if object.GetNamespace() == "" {
			object.SetNamespace(target.Namespace)
		}
		resource = c.Dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	return resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: target.Manager, Force: true})
}

// decode parses all documents before any is applied, so that a syntax error at the
// end changes nothing. Empty documents are skipped.
func decode(manifests string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		var content map[string]any
		err := documents.Decode(&content)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read manifest after object %d: %w", len(objects), err)
		}
		if len(content) == 0 {
			continue
		}
		object := &unstructured.Unstructured{Object: content}
		if object.GetAPIVersion() == "" || object.GetKind() == "" || object.GetName() == "" {
			return nil, fmt.Errorf("object %d of the manifest needs apiVersion, kind and metadata.name", len(objects)+1)
		}
		objects = append(objects, object)
	}
}

// describe returns kind and name of an object for an error.
func describe(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetKind() + " " + object.GetName()
	}
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}
