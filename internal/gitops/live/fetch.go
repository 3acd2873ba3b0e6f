package live

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"slipway.dev/slipway/internal/gitops/tracking"
)

// Fetch returns an object in a version: from the cache, or else from the API
// server. It is nil without an error if there is no such object or kind. It is
// for desired objects, which may exist without our label and are then in no
// watch. A kind that the cluster has in other versions only is an error,
// because a missing object would be created again.
func (c *Cache) Fetch(ctx context.Context, key tracking.Key, version string) (*Object, error) {
	if c.broken != nil {
		return nil, c.broken
	}
	wanted := key.GroupKind().WithVersion(version)
	if object := c.cached(key, wanted.GroupVersion().String()); object != nil {
		return object, nil
	}
	mapping, err := c.options.Kinds.Mapping(ctx, wanted)
	if unknown, ok := errors.AsType[*UnknownKind](err); ok && len(unknown.Versions) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	path, err := mapping.Path(key.Namespace, key.Name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	result := c.requests.Get().AbsPath(path).Do(ctx)
	err = result.Error()
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("read %s: give the agent the verb get for %s: %w", key, mapping.Resource.GroupResource(), err)
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	raw, err := result.Raw()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return c.fetched(key, raw)
}

// cached is an object in a version, if it is at hand. An object in another
// version counts only with the current resourceVersion: the conversion of an
// older state is stale.
func (c *Cache) cached(key tracking.Key, apiVersion string) *Object {
	c.mu.RLock()
	defer c.mu.RUnlock()
	is := c.objects[key]
	if is == nil {
		return nil
	}
	if is.APIVersion == apiVersion {
		return is.Object
	}
	if other := c.others[key]; other != nil && other.APIVersion == apiVersion && other.ResourceVersion == is.ResourceVersion {
		return other
	}
	return nil
}

// fetched keeps what was read, if it is of use again.
func (c *Cache) fetched(key tracking.Key, raw []byte) (*Object, error) {
	h, err := readHead(raw)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	// The buffer of a response is up to twice as large as its content.
	read := h.record(append(make([]byte, 0, len(raw)), raw...))
	object := c.object(key.GroupKind(), &read)
	object.Key = key
	c.mu.Lock()
	is := c.objects[key]
	if is != nil && is.APIVersion != object.APIVersion && is.ResourceVersion == object.ResourceVersion {
		c.others[key] = object
	}
	c.mu.Unlock()
	if is == nil && object.App != "" {
		c.note(&read, func() []byte { return read.raw })
	}
	return object, nil
}
