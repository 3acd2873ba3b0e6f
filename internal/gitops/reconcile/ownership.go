package reconcile

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// Ownership is the share of this process where several divide the Applications. Keys are
// those of tracking.App. A change of it is reported to Controller.OwnershipChanged.
type Ownership interface {
	// Owns reports whether this process may work on an Application at the moment.
	Owns(key string) bool
	// Begin permits work on an Application with the returned context, until end is
	// called. It returns false if this process does not own it.
	Begin(ctx context.Context, key string) (working context.Context, end func(), owned bool)
}

// owns reports whether this process reconciles an Application: all of them, unless they
// are divided.
func (c *Controller) owns(id tracking.App) bool {
	return c.Ownership == nil || c.Ownership.Owns(id.String())
}

// begin claims an Application for a run.
func (c *Controller) begin(ctx context.Context, id tracking.App) (context.Context, func(), bool) {
	if c.Ownership == nil {
		return ctx, func() {}, true
	}
	return c.Ownership.Begin(ctx, id.String())
}

// OwnershipChanged forgets what is known of Applications that are lost, and enqueues those
// that are gained. No run of a lost one is left when it is called, and others may reconcile
// them when it has returned: what a session has is not true any more then.
func (c *Controller) OwnershipChanged() {
	for id, active := range c.store.activity() {
		owned := c.owns(id)
		switch {
		case owned && !active:
			c.queue.add(item{app: id}, reasonChange)
		case !owned && active:
			c.store.deactivate(id)
			c.repositories.forget(id)
			c.pluginCalls.forget(id)
			c.queue.forget(item{app: id})
			c.queue.within(item{unwatch: true}, reasonTimer, time.Now().Add(unwatchDelay))
		}
	}
}

// skim takes an Application from the watch that another process owns: with many
// Applications most events are about those of others, and to decode and keep them would
// cost each process as much as all of them.
func (c *Controller) skim(object *unstructured.Unstructured) {
	app := &v1alpha1.Application{}
	app.Namespace, app.Name, app.UID, app.ResourceVersion = object.GetNamespace(), object.GetName(), object.GetUID(), object.GetResourceVersion()
	app.Spec.Project, _, _ = unstructured.NestedString(object.Object, "spec", "project")
	c.store.skim(app)
}

// load reads an Application that was skimmed while another process owned it.
func (c *Controller) load(ctx context.Context, id tracking.App) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	object, err := c.Cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the Application: %w", err)
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	app, refused, err := v1alpha1.Decode(object.Object)
	if err != nil {
		return fmt.Errorf("read the Application: %w", err)
	}
	c.store.put(app, refused)
	return nil
}

// activity returns all Applications, and whether a run of each has begun since it is
// owned.
func (b *store) activity() map[tracking.App]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[tracking.App]bool, len(b.apps))
	for id, one := range b.apps {
		all[id] = one.active
	}
	return all
}

// isActive reports whether a run of an Application has begun since it is owned.
func (b *store) isActive(id tracking.App) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.apps[id] != nil && b.apps[id].active
}

// activate marks an Application whose run begins. It reports whether it has to be loaded
// first.
func (b *store) activate(id tracking.App) (skimmed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.apps[id]
	if known == nil {
		return false
	}
	known.active = true
	return known.skimmed
}

// deactivate drops everything of an Application but its name: another process owns it.
func (b *store) deactivate(id tracking.App) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.apps[id]; known != nil {
		b.apps[id] = &storedApplication{app: skimmed(known.app), skimmed: true}
	}
}

// skim takes an Application of another process. One that is active stays: its ownership
// is just changing.
func (b *store) skim(app *v1alpha1.Application) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := identityOf(app)
	known := b.apps[id]
	if known == nil || known.app.UID != app.UID || !known.active && newer(app.ResourceVersion, known.app.ResourceVersion) {
		b.apps[id] = &storedApplication{app: app, skimmed: true}
		b.labels[id.Label()] = id
	}
}

// skimmed is the part of an Application that is kept while another process owns it.
func skimmed(app *v1alpha1.Application) *v1alpha1.Application {
	kept := &v1alpha1.Application{}
	kept.Namespace, kept.Name, kept.UID, kept.ResourceVersion = app.Namespace, app.Name, app.UID, app.ResourceVersion
	kept.Spec.Project = app.Spec.Project
	return kept
}
