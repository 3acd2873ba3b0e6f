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

// The API server serves a kind some moments after it has taken its definition.
const (
	kindPatience = 30 * time.Second
	kindLook     = 50 * time.Millisecond
)

// DefinitionResource is that of CustomResourceDefinitions.
func DefinitionResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

// Define does what Apply does, and waits until the API server serves the kinds that
// are defined in the manifests and lists them.
func (c *Cluster) Define(ctx context.Context, target Target, manifests string) ([]*unstructured.Unstructured, error) {
	applied, err := c.Apply(ctx, target, manifests)
	if err != nil {
		return applied, err
	}
	c.mapper.Reset() // which may remember kinds that were there before
	for _, object := range applied {
		for _, kind := range kindsOf(object) {
			if _, err := c.mapping(ctx, kind); err != nil {
				return applied, fmt.Errorf("the API server has the definition %s and does not serve it: %w", object.GetName(), err)
			}
		}
	}
	return applied, nil
}

// mapping finds where objects of a kind are. One that is defined and not served yet
// is waited for.
func (c *Cluster) mapping(ctx context.Context, kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	look := func() (*meta.RESTMapping, error) { return c.mapper.RESTMapping(kind.GroupKind(), kind.Version) }
	mapping, err := look()
	if !meta.IsNoMatchError(err) {
		return mapping, err
	}
	// The kind may be newer than what discovery remembers.
	c.mapper.Reset()
	if mapping, err = look(); !meta.IsNoMatchError(err) || !c.defined(ctx, kind) {
		return mapping, err
	}
	ctx, cancel := context.WithTimeout(ctx, kindPatience)
	defer cancel()
	ticks := time.NewTicker(kindLook)
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

// defined reports whether a CustomResourceDefinition promises a kind. Who may not see
// them is told that the kind is not there, as without one.
func (c *Cluster) defined(ctx context.Context, kind schema.GroupVersionKind) bool {
	definitions, err := c.Dynamic.Resource(DefinitionResource()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	for _, definition := range definitions.Items {
		if slices.Contains(kindsOf(&definition), kind) {
			return true
		}
	}
	return false
}

// kindsOf are the kinds, in each served version, that a CustomResourceDefinition
// defines. Other objects define none.
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
