package reconcile

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// lookup is how charts of the Application read objects of the destination; nil if
// the project does not allow that. They find what the project could deploy: the
// objects of other tenants look as if they were not there. Objects of Applications
// are in the cache; others are one request each.
func (p *reconcileRun) lookup(ctx context.Context) func(render.Lookup) ([]byte, error) {
	if !p.project.AllowsLookup() {
		return nil
	}
	gate, cluster := p.gate(), p.destinationCluster
	return func(wanted render.Lookup) ([]byte, error) {
		version, err := schema.ParseGroupVersion(wanted.APIVersion)
		if err != nil {
			return nil, nil // no object has it
		}
		key := tracking.Key{Group: version.Group, Kind: wanted.Kind, Namespace: wanted.Namespace, Name: wanted.Name}
		mapping, err := cluster.Kinds.Mapping(ctx, version.WithKind(wanted.Kind))
		if _, unknown := errors.AsType[*live.UnknownKind](err); unknown {
			return nil, nil
		}
		switch {
		case err != nil:
			return nil, err
		case !mapping.Namespaced:
			key.Namespace = ""
		case key.Namespace == "":
			return nil, nil
		}
		// Before anything is read: a request that fails would make a difference.
		if gate.Allows(key, nil, p.id.Namespace) != nil {
			return nil, nil
		}
		object, err := cluster.Live.Fetch(ctx, key, version.Version)
		if err != nil || object == nil {
			return nil, err
		}
		content := object.Unstructured()
		if gate.Allows(key, content, p.id.Namespace) != nil {
			return nil, nil
		}
		// They change with every write, and no template reads them.
		unstructured.RemoveNestedField(content.Object, "metadata", "managedFields")
		return content.MarshalJSON()
	}
}
