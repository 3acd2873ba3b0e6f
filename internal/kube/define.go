package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The API server serves a kind some moments after it has stored its definition.
// Discovery has no watch, so the kind is polled.
const (
	kindTimeout = 30 * time.Second
	kindPoll    = 50 * time.Millisecond
)

// DefinitionResource returns the resource of CustomResourceDefinitions.
func DefinitionResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

// Define applies manifests as Apply does, and waits until the API server serves the
// kinds that they define.
func (c *Cluster) Define(ctx context.Context, target Target, manifests string) ([]*unstructured.Unstructured, error) {
	applied, err := c.Apply(ctx, target, manifests)
	if err != nil {
		return applied, err
	}
	c.mapper.Reset() // its cache may have kinds of an earlier definition
	for _, object := range applied {
		for _, kind := range kindsOf(object) {
			if _, err := c.mapping(ctx, kind); err != nil {
				return applied, fmt.Errorf("the API server does not serve the definition %s: %w", object.GetName(), err)
			}
		}
	}
	return applied, nil
}

// mapping returns the resource and scope of a kind. It waits for a kind that is
// defined and not served yet.
func (c *Cluster) mapping(ctx context.Context, kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	look := func() (*meta.RESTMapping, error) { return c.mapper.RESTMapping(kind.GroupKind(), kind.Version) }
	mapping, err := look()
	if !meta.IsNoMatchError(err) {
		return mapping, err
	}
	// The kind may be newer than the discovery cache.
	c.mapper.Reset()
	if mapping, err = look(); !meta.IsNoMatchError(err) || !c.defined(ctx, kind) {
		return mapping, err
	}
	ctx, cancel := context.WithTimeout(ctx, kindTimeout)
	defer cancel()
	ticks := time.NewTicker(kindPoll)
	defer ticks.Stop()
	for meta.IsNoMatchError(err) {
		select {
		case <-ctx.Done():
			return nil, err
		case <-ticks.C:
		}
		c.mapper.Reset()
		mapping, err = look()
	}
	return mapping, err
}

// defined reports whether a CustomResourceDefinition defines a kind. Without the
// right to list them it is false, and mapping fails at once.
func (c *Cluster) defined(ctx context.Context, kind schema.GroupVersionKind) bool {
	definitions, err := c.Dynamic.Resource(DefinitionResource()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	return slices.ContainsFunc(definitions.Items, func(definition unstructured.Unstructured) bool {
		return slices.Contains(kindsOf(&definition), kind)
	})
}

// kindsOf returns the kinds, in each served version, that a
// CustomResourceDefinition defines; none for other objects.
func kindsOf(object *unstructured.Unstructured) []schema.GroupVersionKind {
	if object.GetKind() != "CustomResourceDefinition" || object.GroupVersionKind().Group != DefinitionResource().Group {
		return nil
	}
	group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
	name, _, _ := unstructured.NestedString(object.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(object.Object, "spec", "versions")
	var kinds []schema.GroupVersionKind
	for _, version := range versions {
		fields, _ := version.(map[string]any)
		if id, _ := fields["name"].(string); fields["served"] == true {
			kinds = append(kinds, schema.GroupVersionKind{Group: group, Version: id, Kind: name})
		}
	}
	return kinds
}
