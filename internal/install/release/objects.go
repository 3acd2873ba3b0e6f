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

// ID says which object one is.
type ID struct {
	Group, Kind, Namespace, Name string
}

// String is the object as people write it.
func (i ID) String() string {
	if i.Namespace == "" {
		return i.Kind + " " + i.Name
	}
	return i.Kind + " " + i.Namespace + "/" + i.Name
}

// resource is the kind as kubectl takes it.
func (i ID) resource() string {
	kind := strings.ToLower(i.Kind)
	if i.Group == "" || builtIn(i.Group) {
		return kind
	}
	return kind + "." + i.Group
}

// builtIn reports whether kubectl takes a kind of the group by its bare name.
func builtIn(group string) bool {
	return slices.Contains([]string{"apps", "batch", "policy", "rbac.authorization.k8s.io", "networking.k8s.io", "coordination.k8s.io", "apiextensions.k8s.io", "admissionregistration.k8s.io"}, group)
}

// deleteCommand removes an object.
func (i ID) deleteCommand() string {
	command := "kubectl delete " + i.resource() + " " + i.Name
	if i.Namespace != "" {
		command += " --namespace " + i.Namespace
	}
	return command
}

// freeCommand takes the finalizers of an object away.
func (i ID) freeCommand() string {
	command := "kubectl patch " + i.resource() + " " + i.Name
	if i.Namespace != "" {
		command += " --namespace " + i.Namespace
	}
	return command + ` --type merge --patch '{"metadata":{"finalizers":null}}'`
}

// objectsOf reads the documents of a text.
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

// identify says which object it is, and fills in the namespace of the release where
// the manifest leaves it out.
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
	case !namespaced:
		id.Namespace = ""
	}
	return id, nil
}

// resourceOf is where objects of a kind are asked for.
func (c *Client) resourceOf(object *unstructured.Unstructured) (schema.GroupVersionResource, error) {
	kind := object.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	return mapping.Resource, nil
}
