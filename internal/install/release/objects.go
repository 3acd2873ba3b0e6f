package release

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// crdKind is the kind of CustomResourceDefinitions.
const crdKind = "CustomResourceDefinition"

// ID identifies an object.
type ID struct {
	Group, Kind, Namespace, Name string
}

// String formats the object for people.
func (i ID) String() string {
	if i.Namespace == "" {
		return i.Kind + " " + i.Name
	}
	return i.Kind + " " + i.Namespace + "/" + i.Name
}

// resource returns the kind as kubectl takes it.
func (i ID) resource() string {
	kind := strings.ToLower(i.Kind)
	if i.Group == "" || builtIn(i.Group) {
		return kind
	}
	return kind + "." + i.Group
}

// builtIn reports whether kubectl accepts a kind of the group without the
// group.
func builtIn(group string) bool {
	return slices.Contains([]string{"apps", "batch", "policy", "rbac.authorization.k8s.io", "networking.k8s.io", "coordination.k8s.io", "apiextensions.k8s.io", "admissionregistration.k8s.io"}, group)
}

// deleteCommand returns the kubectl command that deletes the object.
func (i ID) deleteCommand() string {
	command := "kubectl delete " + i.resource() + " " + i.Name
	if i.Namespace != "" {
		command += " --namespace " + i.Namespace
	}
	return command
}

// freeCommand returns the kubectl command that removes the finalizers.
func (i ID) freeCommand() string {
	command := "kubectl patch " + i.resource() + " " + i.Name
	if i.Namespace != "" {
		command += " --namespace " + i.Namespace
	}
	return command + ` --type merge --patch '{"metadata":{"finalizers":null}}'`
}

// objectsOf decodes the documents of a manifest. Empty documents are skipped.
func objectsOf(manifest string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		content := map[string]any{}
		if err := yaml.Unmarshal(document, &content); err != nil {
			return nil, errors.New("a document is no YAML") // what is in it may be secret
		}
		if len(content) == 0 {
			continue
		}
		object := &unstructured.Unstructured{Object: content}
		if object.GetKind() == "" || object.GetName() == "" {
			return nil, errors.New("a document is no object: it has no kind or no name")
		}
		all = append(all, object)
	}
}

// identify returns the ID of an object, with the namespace of the release where
// the manifest has none. It sets the namespace in the object too, so that two
// manifests of one object compare equal.
func (c *Client) identify(object *unstructured.Unstructured) (ID, error) {
	kind := object.GroupVersionKind()
	id := ID{Group: kind.Group, Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName()}
	mapping, err := c.mapper.RESTMapping(schema.GroupKind{Group: kind.Group, Kind: kind.Kind}, kind.Version)
	if err != nil {
		return id, fmt.Errorf("the cluster does not know the kind %s of %s: install what it belongs to, or turn the part off: %w", kind.Kind, kind.GroupVersion(), err)
	}
	switch namespaced := mapping.Scope.Name() == "namespace"; {
	case namespaced && id.Namespace == "":
		id.Namespace = c.place.Namespace
		object.SetNamespace(id.Namespace)
	// A namespace has no meaning for a cluster-scoped object.
	case !namespaced:
		id.Namespace = ""
	}
	return id, nil
}

// resourceOf returns the resource of an object's kind.
func (c *Client) resourceOf(object *unstructured.Unstructured) (schema.GroupVersionResource, error) {
	kind := object.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	return mapping.Resource, nil
}
