package appset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/jq"
)

// Preview is what a Controller would do with one Application of a set.
type Preview struct {
	Name string
	// Missing means that it would be created, and Extra that the set does not
	// generate it.
	Missing, Extra bool
	// Patch is the change of an existing one; nil for none.
	Patch map[string]any
}

// NewPreview generates the Applications of a set and compares them with live
// ones by name. It writes nothing. Of the options the Cluster, the Facts, the
// Generator and the control namespace are used.
func NewPreview(ctx context.Context, options ControllerOptions, object *unstructured.Unstructured, live map[string]*unstructured.Unstructured) ([]Preview, error) {
	set, refused, err := v1alpha1.DecodeSet(object.Object)
	if err != nil {
		return nil, err
	}
	if len(refused) > 0 {
		return nil, errors.New(refusal.Summary(refused))
	}
	c := &Controller{options: options, paths: jq.New()}
	generated, err := c.generate(ctx, object, set)
	if err != nil {
		return nil, err
	}
	ignore, err := c.ignoreOf(set)
	if err != nil {
		return nil, err
	}
	var all []Preview
	for _, name := range slices.Sorted(maps.Keys(generated)) {
		existing := live[name]
		if existing == nil {
			all = append(all, Preview{Name: name, Missing: true})
			continue
		}
		body, err := json.Marshal(contentOf(existing.Object))
		if err != nil {
			return nil, fmt.Errorf("application %s: %w", name, err)
		}
		patch, err := generated[name].mergePatch(body, set.Spec.PreservedFields, ignore)
		if err != nil {
			return nil, fmt.Errorf("application %s: %w", name, err)
		}
		all = append(all, Preview{Name: name, Patch: patch})
	}
	for _, name := range slices.Sorted(maps.Keys(live)) {
		if generated[name] == nil {
			all = append(all, Preview{Name: name, Extra: true})
		}
	}
	return all, nil
}
