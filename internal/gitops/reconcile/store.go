package reconcile

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/cache"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// store is the table of Applications and projects: from the watch or from the
// responses to our own writes, whichever is newer. It is safe for concurrent
// use.
type store struct {
	mu       sync.Mutex
	apps     map[tracking.App]*storedApplication
	labels   map[string]tracking.App
	projects map[string]*storedProject
	// globals returns the current setting of global projects, and control is the namespace of
	// projects.
	globals func() *project.Globals
	control string
	// texts are shared by Applications: their statuses repeat kinds, addresses and
	// revisions.
	texts cache.Texts
}

// storedApplication is one Application with its session.
type storedApplication struct {
	// app and refused are replaced and never changed, so that readers need no
	// copy. They are guarded by the store's lock.
	app     *v1alpha1.Application
	refused []refusal.Refusal
	// kinds are those that the Application may have objects of; nil before its
	// first run. They are guarded by the store's lock.
	kinds []schema.GroupKind
	// active: a run has begun since this process owns the Application. skimmed: another
	// process owned it when it was read, and app has its name and version only. Both are
	// guarded by the store's lock.
	active, skimmed bool

	// session belongs to the worker that holds the Application's item.
	session session
}

// newStore makes an empty store. globals may be nil.
func newStore(control string, globals func() *project.Globals) *store {
	if globals == nil {
		globals = func() *project.Globals { return nil }
	}
	return &store{control: control, globals: globals, apps: map[tracking.App]*storedApplication{}, labels: map[string]tracking.App{}, projects: map[string]*storedProject{}}
}

// decode reads an Application from its JSON, whose content it changes.
func (b *store) decode(content map[string]any) (*v1alpha1.Application, []refusal.Refusal, error) {
	for _, field := range []string{"spec", "status"} {
		if value, has := content[field]; has {
			content[field] = b.texts.Value(value)
		}
	}
	return v1alpha1.Decode(content)
}

// identityOf is the key of an Application.
func identityOf(app *v1alpha1.Application) tracking.App {
	return tracking.App{Namespace: app.Namespace, Name: app.Name}
}

// put takes an Application from the watch. It returns why a run is needed,
// which is 0 for a version that is stored already.
func (b *store) put(app *v1alpha1.Application, refused []refusal.Refusal) reason {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := identityOf(app)
	known := b.apps[id]
	switch {
	case known == nil || known.app.UID != app.UID:
		b.apps[id] = &storedApplication{app: app, refused: refused}
		b.labels[id.Label()] = id
		return reasonChange
	case known.skimmed:
		known.app, known.refused, known.skimmed = app, refused, false
		return reasonChange
	case !newer(app.ResourceVersion, known.app.ResourceVersion):
		return 0
	}
	before := known.app
	known.app, known.refused = app, refused
	if equality.Semantic.DeepEqual(request(before), request(app)) {
		// Only the status changed. Most often we wrote it, and the response is on
		// its way.
		return reasonTimer
	}
	return reasonChange
}

// projectOf is the project of an Application, or none if it is not stored.
func (b *store) projectOf(id tracking.App) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.apps[id]; known != nil {
		return []string{known.app.Spec.ProjectName()}
	}
	return nil
}

// has reports whether a version of an Application is stored, or a newer one.
func (b *store) has(id tracking.App, uid types.UID, version string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.apps[id]
	return known != nil && known.app.UID == uid && !known.skimmed && !newer(version, known.app.ResourceVersion)
}

// request is the part of an Application that triggers a run when it changes:
// everything but the status, and a termination.
func request(app *v1alpha1.Application) any {
	return struct {
		Spec        v1alpha1.ApplicationSpec
		Operation   *v1alpha1.Operation
		Annotations map[string]string
		Finalizers  []string
		Deleted     bool
		Terminated  bool
	}{app.Spec, app.Operation, requestAnnotations(app.Annotations), app.Finalizers, app.DeletionTimestamp != nil, isTerminating(app)}
}

// notifiedAnnotation is the record of notifications that were sent, which a run does not
// depend on.
const notifiedAnnotation = "notified.notifications.argoproj.io"

// requestAnnotations returns the annotations that a run depends on.
func requestAnnotations(all map[string]string) map[string]string {
	if _, has := all[notifiedAnnotation]; !has {
		return all
	}
	needed := maps.Clone(all)
	delete(needed, notifiedAnnotation)
	return needed
}

// isTerminating reports whether a user ended the operation.
func isTerminating(app *v1alpha1.Application) bool {
	return app.Status.OperationState != nil && app.Status.OperationState.Phase == v1alpha1.OperationTerminating
}

// update takes the response to our own write.
func (b *store) update(app *v1alpha1.Application, refused []refusal.Refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.apps[identityOf(app)]
	if known != nil && known.app.UID == app.UID && newer(app.ResourceVersion, known.app.ResourceVersion) {
		known.app, known.refused = app, refused
	}
}

// newer reports whether a version is later than another. Versions that cannot
// be compared, of an aggregated API server, count as newer when they differ.
func newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err != nil && version != than || order > 0
}

// remove forgets an Application that was deleted. One of the same name that was
// created meanwhile stays.
func (b *store) remove(id tracking.App, uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.apps[id]; known != nil && known.app.UID == uid {
		delete(b.apps, id)
		delete(b.labels, id.Label())
	}
}

// get returns an Application, or nil. The session is for the worker that holds
// its item.
func (b *store) get(id tracking.App) (*storedApplication, *v1alpha1.Application, []refusal.Refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.apps[id]
	if found == nil {
		return nil, nil, nil
	}
	return found, found.app, found.refused
}

// byLabel returns the Application of a label.
func (b *store) byLabel(label string) (tracking.App, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id, ok := b.labels[label]
	return id, ok
}

// all returns the Applications that this process has read, in no order.
func (b *store) all() []*v1alpha1.Application {
	b.mu.Lock()
	defer b.mu.Unlock()
	apps := make([]*v1alpha1.Application, 0, len(b.apps))
	for _, one := range b.apps {
		if !one.skimmed {
			apps = append(apps, one.app)
		}
	}
	return apps
}

// remote returns the Applications for other clusters than the local one.
func (b *store) remote() []tracking.App {
	b.mu.Lock()
	defer b.mu.Unlock()
	var apps []tracking.App
	for id, one := range b.apps {
		if project.Complete(one.app.Spec.Destination).Server != project.LocalServer {
			apps = append(apps, id)
		}
	}
	return apps
}

// setKinds records the kinds that an Application may have objects of. It
// reports whether it no longer needs some.
func (b *store) setKinds(of *storedApplication, kinds []schema.GroupKind) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	fewer := slices.ContainsFunc(of.kinds, func(kind schema.GroupKind) bool { return !slices.Contains(kinds, kind) })
	of.kinds = kinds
	return fewer
}

// neededKinds returns the kinds that any Application may have objects of, of those
// that this process owns. It returns false before the first run of all: a watch must
// not be stopped that one of them will need.
func (b *store) neededKinds(owns func(tracking.App) bool) ([]schema.GroupKind, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[schema.GroupKind]struct{}{}
	var kinds []schema.GroupKind
	for id, one := range b.apps {
		if !owns(id) {
			continue
		}
		if one.kinds == nil {
			return nil, false
		}
		for _, kind := range one.kinds {
			if _, seen := all[kind]; !seen {
				all[kind] = struct{}{}
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds, true
}
