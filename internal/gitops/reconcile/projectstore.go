package reconcile

import (
	"maps"
	"slices"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// storedProject is a project of the watch.
type storedProject struct {
	project.Decoded
	// compiled is nil until it is needed, and after a global project of it changed.
	compiled *compiledProject
}

// compiledProject is a project with what is refused of it.
type compiledProject struct {
	project *project.Project
	refused []refusal.Refusal
	// warnings are the fields that have no effect.
	warnings []refusal.Refusal
}

// putProject takes a project, and returns the Applications that depend on it if it changed.
func (b *store) putProject(given *v1alpha1.AppProject, refused []refusal.Refusal) []tracking.App {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.projects[given.Name]
	if known != nil && known.ResourceVersion == given.ResourceVersion {
		return nil
	}
	b.projects[given.Name] = &storedProject{Decoded: project.Decoded{AppProject: given, Refused: refused}}
	return b.projectChanged(given.Name)
}

// removeProject forgets a project, and returns the Applications that depended on it.
func (b *store) removeProject(name string) []tracking.App {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.projects[name] == nil {
		return nil
	}
	delete(b.projects, name)
	return b.projectChanged(name)
}

// projectChanged drops what was compiled of the projects that have a project as a global one. It
// returns their Applications and those of the project. The lock is held.
func (b *store) projectChanged(name string) []tracking.App {
	changed := map[string]bool{name: true}
	globals := b.globals()
	for _, one := range b.projects {
		if slices.Contains(globals.Of(one.AppProject), name) {
			one.compiled, changed[one.Name] = nil, true
		}
	}
	// The project default may not be stored.
	if slices.Contains(globals.Of(b.decoded(v1alpha1.DefaultProject).AppProject), name) {
		changed[v1alpha1.DefaultProject] = true
	}
	var members []tracking.App
	for id, one := range b.apps {
		if changed[one.app.Spec.ProjectName()] {
			members = append(members, id)
		}
	}
	return members
}

// globalsChanged drops what was compiled with another setting of global projects.
func (b *store) globalsChanged() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.projects {
		one.compiled = nil
	}
}

// projectNames returns the names of all projects.
func (b *store) projectNames() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.projects))
}

// decoded returns a project, or nil. The one called default exists even if it was not created, as
// in Argo CD. The lock is held.
func (b *store) decoded(name string) *project.Decoded {
	if found := b.projects[name]; found != nil {
		return &found.Decoded
	}
	if name == v1alpha1.DefaultProject {
		return &project.Decoded{AppProject: project.DefaultObject(b.control)}
	}
	return nil
}

// project returns a project with its global projects, or nil.
func (b *store) project(name string) *compiledProject {
	b.mu.Lock()
	defer b.mu.Unlock()
	stored := b.projects[name]
	if stored != nil && stored.compiled != nil {
		return stored.compiled
	}
	given := b.decoded(name)
	if given == nil {
		return nil
	}
	compiled, refused := b.globals().Compile(*given, b.find)
	made := &compiledProject{project: compiled, refused: refused, warnings: given.Warnings}
	if stored != nil {
		stored.compiled = made
	}
	return made
}

// find returns a global project. Unlike default, it has to be there, as in project.Load. The lock
// is held.
func (b *store) find(name string) *project.Decoded {
	if found := b.projects[name]; found != nil {
		return &found.Decoded
	}
	return nil
}
