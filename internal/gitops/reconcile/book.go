package reconcile

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// book is the table of Applications and projects, as the API server told them
// or answered to our own writes, whichever is newer.
type book struct {
	mu       sync.Mutex
	apps     map[tracking.App]*entry
	labels   map[string]tracking.App
	projects map[string]*charter
}

// entry is one Application.
type entry struct {
	// app and refused are replaced and never changed. They are guarded by the
	// book's lock.
	app     *v1alpha1.Application
	refused []v1alpha1.Refused
	// kinds are those whose objects the Application may have. They are guarded by
	// the book's lock.
	kinds []schema.GroupKind

	// session belongs to the worker that has the Application's task.
	session session
}

// charter is one project.
type charter struct {
	project *project.Project
	refused []v1alpha1.Refused
	// warnings are the fields that have no effect.
	warnings []v1alpha1.Warning
	version  string
}

func newBook() *book {
	return &book{apps: map[tracking.App]*entry{}, labels: map[string]tracking.App{}, projects: map[string]*charter{}}
}

func identityOf(app *v1alpha1.Application) tracking.App {
	return tracking.App{Namespace: app.Namespace, Name: app.Name}
}

// put takes an Application that a watch told. It returns why it has to be looked
// at, which is nothing for one that is known already.
func (b *book) put(app *v1alpha1.Application, refused []v1alpha1.Refused) reason {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := identityOf(app)
	known := b.apps[id]
	switch {
	case known == nil || known.app.UID != app.UID:
		b.apps[id] = &entry{app: app, refused: refused}
		b.labels[id.Label()] = id
		return becauseAsked
	case !newer(app.ResourceVersion, known.app.ResourceVersion):
		return 0
	}
	before := known.app
	known.app, known.refused = app, refused
	if equality.Semantic.DeepEqual(request(before), request(app)) {
		// Somebody wrote the status. Most often it was us, and the answer is on
		// its way.
		return becauseTime
	}
	return becauseAsked
}

// knows reports whether an Application is known in a version, or in a newer one.
func (b *book) knows(id tracking.App, uid types.UID, version string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.apps[id]
	return known != nil && known.app.UID == uid && !newer(version, known.app.ResourceVersion)
}

// request is what of an Application asks for something to be done.
func request(app *v1alpha1.Application) any {
	return struct {
		Spec        v1alpha1.ApplicationSpec
		Operation   *v1alpha1.Operation
		Annotations map[string]string
		Finalizers  []string
		Deleted     bool
		Terminated  bool
	}{app.Spec, app.Operation, app.Annotations, app.Finalizers, app.DeletionTimestamp != nil, isTerminating(app)}
}

func isTerminating(app *v1alpha1.Application) bool {
	return app.Status.OperationState != nil && app.Status.OperationState.Phase == v1alpha1.OperationTerminating
}

// note takes what the API server answered to our own write.
func (b *book) note(app *v1alpha1.Application, refused []v1alpha1.Refused) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.apps[identityOf(app)]
	if known != nil && known.app.UID == app.UID && newer(app.ResourceVersion, known.app.ResourceVersion) {
		known.app, known.refused = app, refused
	}
}

// newer reports whether a version is later than another. Versions that cannot be
// compared are believed.
func newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err != nil && version != than || order > 0
}

// remove forgets an Application that is gone. One that was made again meanwhile
// stays.
func (b *book) remove(id tracking.App, uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.apps[id]; known != nil && known.app.UID == uid {
		delete(b.apps, id)
		delete(b.labels, id.Label())
	}
}

// get is an Application, or nil. The entry's session is for the worker that has
// its task.
func (b *book) get(id tracking.App) (*entry, *v1alpha1.Application, []v1alpha1.Refused) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.apps[id]
	if found == nil {
		return nil, nil, nil
	}
	return found, found.app, found.refused
}

// labelled is the Application that a label means.
func (b *book) labelled(label string) (tracking.App, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id, ok := b.labels[label]
	return id, ok
}

// all are the Applications, in no order.
func (b *book) all() []*v1alpha1.Application {
	b.mu.Lock()
	defer b.mu.Unlock()
	apps := make([]*v1alpha1.Application, 0, len(b.apps))
	for _, one := range b.apps {
		apps = append(apps, one.app)
	}
	return apps
}

// putProject takes a project. It returns the Applications that are in it, if it
// is another one than before.
func (b *book) putProject(given *v1alpha1.AppProject, refused []v1alpha1.Refused) []tracking.App {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.projects[given.Name]
	if known != nil && known.version == given.ResourceVersion {
		return nil
	}
	compiled, more := project.Compile(given)
	b.projects[given.Name] = &charter{project: compiled, refused: slices.Concat(refused, more), warnings: given.Warnings, version: given.ResourceVersion}
	return b.members(given.Name)
}

// removeProject forgets a project, and returns the Applications that were in it.
func (b *book) removeProject(name string) []tracking.App {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.projects[name] == nil {
		return nil
	}
	delete(b.projects, name)
	return b.members(name)
}

func (b *book) members(name string) []tracking.App {
	var members []tracking.App
	for id, one := range b.apps {
		if one.app.Spec.ProjectName() == name {
			members = append(members, id)
		}
	}
	return members
}

// projectNames are the names of all projects there are.
func (b *book) projectNames() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := make([]string, 0, len(b.projects))
	for name := range b.projects {
		names = append(names, name)
	}
	return names
}

// charter is a project. The one called default is there even if nobody made it,
// as in Argo CD.
func (b *book) charter(name string) *charter {
	b.mu.Lock()
	defer b.mu.Unlock()
	if found := b.projects[name]; found != nil {
		return found
	}
	if name == v1alpha1.DefaultProject {
		return &charter{project: project.Default()}
	}
	return nil
}

// elsewhere are the Applications that are for another cluster than this one.
func (b *book) elsewhere() []tracking.App {
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

// needs notes the kinds that an Application may have objects of. It reports
// whether some are not needed by it any more.
func (b *book) needs(of *entry, kinds []schema.GroupKind) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	fewer := slices.ContainsFunc(of.kinds, func(kind schema.GroupKind) bool { return !slices.Contains(kinds, kind) })
	of.kinds = kinds
	return fewer
}

// needed are the kinds that some Application may have objects of. It is false
// while that is not known of all.
func (b *book) needed() ([]schema.GroupKind, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[schema.GroupKind]struct{}{}
	var kinds []schema.GroupKind
	for _, one := range b.apps {
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
