package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Follow starts the watches of kinds, and waits until all their objects are
// cached. It costs next to nothing when they are. Kinds that the cluster does
// not have are left out: they have no objects, and plan reports them as
// unknown. So are those that cannot be watched.
//
// The error names all kinds that may not be read, with the rights that are
// missing. The others are followed nevertheless.
func (c *Cache) Follow(ctx context.Context, kinds []schema.GroupKind) error {
	if c.broken != nil {
		return c.broken
	}
	missing := c.unfollowed(kinds)
	if len(missing) == 0 {
		return nil
	}
	select {
	case <-c.running:
	case <-ctx.Done():
		return fmt.Errorf("waiting for the cluster's objects: %w", context.Cause(ctx))
	}
	var feeds []*feed
	var faults []error
	for _, kind := range missing {
		started, err := c.start(ctx, kind)
		if err != nil {
			faults = append(faults, err)
		}
		feeds = append(feeds, started...)
	}
	for _, f := range feeds {
		if err := f.await(ctx); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// unfollowed are the kinds that are not known as a whole.
func (c *Cache) unfollowed(kinds []schema.GroupKind) []schema.GroupKind {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var missing []schema.GroupKind
	for _, kind := range kinds {
		if !c.follows(kind) {
			missing = append(missing, kind)
		}
	}
	return missing
}

// follows reports whether all of a kind is known. The caller holds mu.
func (c *Cache) follows(kind schema.GroupKind) bool {
	ready := func(f *feed) bool { return f != nil && f.denied == nil && f.isSynced() }
	if ready(c.feeds[feedName{kind, ""}]) {
		return true
	}
	for _, namespace := range c.options.Namespaces {
		if !ready(c.feeds[feedName{kind, namespace}]) {
			return false
		}
	}
	return len(c.options.Namespaces) > 0
}

// start begins the feeds of a kind that are missing, and gives all of them. A
// feed that was denied is started again after a pause: rights may have been
// granted since.
func (c *Cache) start(ctx context.Context, kind schema.GroupKind) ([]*feed, error) {
	found, err := c.options.Kinds.find(ctx, kind, "")
	if IsUnknownKind(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	served := found.version("")
	if !served.followed {
		return nil, nil
	}
	mapping := Mapping{
		Resource:   schema.GroupVersionResource{Group: kind.Group, Version: served.name, Resource: served.resource},
		Namespaced: found.namespaced,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		return nil, errEnded
	}
	var feeds []*feed
	for _, namespace := range c.scopes(found.namespaced) {
		name := feedName{kind, namespace}
		f := c.feeds[name]
		if f == nil || f.denied != nil && time.Since(f.at) > c.pace.denied {
			f = c.begin(name, mapping)
		}
		feeds = append(feeds, f)
	}
	return feeds, nil
}

// begin starts a feed. The caller holds mu. It runs with the context of the
// Cache and not with that of a caller, and Run waits for it.
func (c *Cache) begin(name feedName, mapping Mapping) *feed {
	ctx, stop := context.WithCancel(c.ctx)
	f := &feed{
		cache: c, name: name, mapping: mapping, stop: stop,
		synced: make(chan struct{}), ended: make(chan struct{}),
	}
	c.feeds[name] = f
	c.feeding.Go(func() {
		defer close(f.ended)
		defer stop()
		f.run(ctx)
	})
	return f
}

// await waits until a feed is synced.
func (f *feed) await(ctx context.Context) error {
	select {
	case <-f.synced:
	case <-f.ended:
	case <-ctx.Done():
		return fmt.Errorf("waiting for the %s of the cluster: %w", f.mapping.Resource.Resource, context.Cause(ctx))
	}
	c := f.cache
	c.mu.RLock()
	defer c.mu.RUnlock()
	switch {
	case f.denied == nil && !f.isSynced() && c.ctx == nil:
		return errEnded
	case f.denied == nil:
		return nil
	case !f.mapping.Namespaced && len(c.options.Namespaces) > 0 && apierrors.IsForbidden(f.denied):
		return nil // such kinds are followed only where that is permitted
	}
	return f.denial()
}

// denial names the right that is missing. The caller holds mu.
func (f *feed) denial() error {
	where := "in all namespaces"
	switch {
	case !f.mapping.Namespaced:
		where = "of the cluster"
	case f.name.namespace != "":
		where = "in the namespace " + f.name.namespace
	}
	resource := f.mapping.Resource.GroupResource().String()
	return fmt.Errorf("cannot follow %s %s: give the agent the verbs get, list and watch for %s: %w", resource, where, resource, f.denied)
}

// Retain stops following kinds that are not among those given, and forgets
// their objects. It sends no notifications: no Application uses these kinds any
// more.
func (c *Cache) Retain(kinds []schema.GroupKind) {
	keep := map[schema.GroupKind]bool{}
	for _, kind := range kinds {
		keep[kind] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, f := range c.feeds {
		if !keep[name.kind] {
			f.stop()
			delete(c.feeds, name)
		}
	}
	for key := range c.objects {
		if !keep[key.GroupKind()] {
			c.drop(key)
		}
	}
}
