package images

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"oras.land/oras-go/v2/registry"

	"slipway.dev/slipway/internal/install/chart"
)

// Image is an image that a chart uses.
type Image struct {
	// Reference is as the manifests have it.
	Reference string `json:"reference"`
	// UsedBy are the objects that have it, such as Deployment slipway-agent.
	UsedBy []string `json:"usedBy"`
}

// List returns the images of a rendered chart, hooks included, sorted by name.
func List(rendered chart.Rendered) []Image {
	found := map[string][]string{}
	for _, object := range slices.Concat(rendered.Objects, rendered.Hooks) {
		name := object.GetKind() + " " + object.GetName()
		walk(object.Object, func(image string) {
			if !slices.Contains(found[image], name) {
				found[image] = append(found[image], name)
			}
		})
	}
	made := []Image{}
	for reference, users := range found {
		slices.Sort(users)
		made = append(made, Image{Reference: reference, UsedBy: users})
	}
	slices.SortFunc(made, func(a, b Image) int { return strings.Compare(a.Reference, b.Reference) })
	return made
}

// walk finds the images of containers in objects of any kind. It goes by field
// names and not by types, so that templates in CronJobs and custom resources
// are found too.
func walk(at any, found func(string)) {
	switch value := at.(type) {
	case map[string]any:
		for _, field := range []string{"containers", "initContainers", "ephemeralContainers"} {
			containers, _, _ := unstructured.NestedSlice(value, field)
			for _, each := range containers {
				container, _ := each.(map[string]any)
				if image, ok := container["image"].(string); ok && image != "" {
					found(image)
				}
			}
		}
		// The order of the map does not matter: the caller sorts.
		for _, below := range value {
			walk(below, found)
		}
	case []any:
		for _, below := range value {
			walk(below, found)
		}
	}
}

// Target returns the name of an image in a private registry: registry and
// prefix change, repository and tag stay.
func Target(reference, to string) (string, error) {
	parsed, err := parse(reference)
	if err != nil {
		return "", err
	}
	to = strings.TrimSuffix(to, "/")
	made := to + "/" + parsed.Repository
	if parsed.Reference == "" {
		return "", fmt.Errorf("%s has neither a tag nor a digest: set image.tag", reference)
	}
	separator := ":"
	// A digest follows an @ and stays the same in the copy.
	if _, err := parsed.Digest(); err == nil {
		separator = "@"
	}
	made += separator + parsed.Reference
	// Parsed again, because to is input of the user.
	if _, err := parse(made); err != nil {
		return "", fmt.Errorf("%q is no place for images: write a registry such as registry.example.com/mirror", to)
	}
	return made, nil
}

// parse parses a reference. Nothing is filled in: a name without a registry
// means another one on each machine.
func parse(reference string) (registry.Reference, error) {
	parsed, err := registry.ParseReference(reference)
	if err != nil {
		return registry.Reference{}, fmt.Errorf("%.200q is no image with its registry, such as registry.example.com/slipway:1.0.0", reference)
	}
	return parsed, nil
}
