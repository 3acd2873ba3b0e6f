package notify

import (
	"context"
	"slices"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/notify/message"
	"slipway.dev/slipway/internal/gitops/project"
)

// commits looks up the commits of the last comparison and the last sync. One that cannot
// be read is left out, and the expression that needs it has no value.
func (c *Controller) commits(ctx context.Context, a *application) map[string]message.Commit {
	found := map[string]message.Commit{}
	app, _, err := v1alpha1.Decode(a.object.Object)
	if err != nil || c.options.Sources == nil {
		return found
	}
	limits := c.compiledProject(app.Spec.ProjectName())
	for i, source := range app.Spec.AllSources() {
		if source.Chart != "" {
			continue
		}
		for _, revision := range revisionsOf(app, i) {
			// The status is not trusted, and the project decides about the repository.
			admitted, err := limits.Admit(v1alpha1.ApplicationSource{RepoURL: source.RepoURL, TargetRevision: revision})
			if err != nil {
				continue
			}
			if commit, err := c.options.Sources.Commit(ctx, admitted); err == nil {
				found[revision] = message.Commit{Message: commit.Message, Author: commit.Author, Date: commit.When}
			}
		}
	}
	return found
}

// revisionsOf returns the revisions of a source in the status, each once.
func revisionsOf(app *v1alpha1.Application, of int) []string {
	var revisions []string
	add := func(one string, several []string) {
		if of < len(several) {
			one = several[of]
		} else if of > 0 {
			one = ""
		}
		if one != "" && !slices.Contains(revisions, one) {
			revisions = append(revisions, one)
		}
	}
	add(app.Status.Sync.Revision, app.Status.Sync.Revisions)
	if state := app.Status.OperationState; state != nil && state.SyncResult != nil {
		add(state.SyncResult.Revision, state.SyncResult.Revisions)
	}
	return revisions
}

// compiledProject returns a project with its global projects. One that cannot be read allows
// nothing.
func (c *Controller) compiledProject(name string) *project.Project {
	given := c.decodedProject(name)
	if given == nil && name == v1alpha1.DefaultProject {
		given = &project.Decoded{AppProject: project.DefaultObject(c.options.ControlNamespace)}
	}
	if given == nil {
		given = &project.Decoded{AppProject: &v1alpha1.AppProject{}}
	}
	var globals *project.Globals
	if c.options.GlobalProjects != nil {
		globals = c.options.GlobalProjects()
	}
	compiled, _ := globals.Compile(*given, c.decodedProject)
	return compiled
}

// decodedProject returns an AppProject; nil if there is none, or it cannot be decoded.
func (c *Controller) decodedProject(name string) *project.Decoded {
	c.mu.Lock()
	found := c.projects[name]
	c.mu.Unlock()
	if found == nil {
		return nil
	}
	// Decoding changes the object, which others read.
	given, refused, err := v1alpha1.DecodeProject(found.DeepCopy().Object)
	if err != nil {
		return nil
	}
	return &project.Decoded{AppProject: given, Refused: refused}
}
