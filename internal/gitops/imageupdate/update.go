package imageupdate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/gitwrite"
	"slipway.dev/slipway/internal/gitops/project"
)

// result is what a run did.
type result struct {
	// commit is the id of the commit, and note what it changed; empty if there was
	// nothing to change.
	commit, note string
	// proposed: the commit is on the branch of a pull request.
	proposed bool
	// again is when to look again, before anything is written.
	again time.Duration
	err   error
}

// refusedError is an error that a user has to correct.
type refusedError struct{ refused []refusal.Refusal }

// Error lists the refusals.
func (e *refusedError) Error() string { return refusal.Summary(e.refused) }

// reason is that of the Event about an error.
func (r result) reason() string {
	if _, refused := errors.AsType[*refusedError](r.err); refused {
		return "ImageUpdateRefused"
	}
	if _, refused := errors.AsType[*refusal.Refusal](r.err); refused {
		return "ImageUpdateRefused"
	}
	return "ImageUpdateFailed"
}

// referenceTo is an Application for Events.
func referenceTo(app *v1alpha1.Application) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindApplication, Namespace: app.Namespace, Name: app.Name, UID: app.UID,
	}
}

// run is one update of an Application.
type run struct {
	*Controller
	record *record
	app    *v1alpha1.Application
	job    job

	project *project.Project
	at      destination
	updates []update
}

// update finds new tags and writes them.
func (r *run) update(ctx context.Context, fresh bool) result {
	settings := r.job.settings
	if len(r.job.refused) > 0 {
		return result{err: &refusedError{r.job.refused}}
	}
	if len(settings.Images) == 0 {
		if len(r.job.conflicts) > 0 {
			return result{err: &refusedError{r.job.conflicts}}
		}
		return result{}
	}
	var err error
	if r.project, err = project.Read(ctx, r.options.Cluster.Dynamic, r.options.ControlNamespace, r.app); err != nil {
		return result{err: err}
	}
	if r.at, err = r.destination(settings.WriteBack); err != nil {
		return result{err: err}
	}
	maxAge := r.options.Interval / 2
	if fresh {
		maxAge = 0
	}
	for _, image := range settings.Images {
		found, ok, err := r.finder.find(ctx, r.app, r.project, image, maxAge)
		if err != nil {
			return result{err: fmt.Errorf("the image %s: %w", image.Image.Name(), err)}
		}
		if ok {
			r.updates = append(r.updates, found)
		}
	}
	if len(r.updates) == 0 {
		r.record.pending = ""
		return result{}
	}
	return r.write(ctx)
}

// write commits updates, after they were found twice.
func (r *run) write(ctx context.Context) result {
	repository, err := r.open(ctx, r.at.branch)
	if err != nil {
		return result{err: err}
	}
	var changes []Change
	if _, err := repository.View(ctx, func(files gitwrite.Files) error {
		changes, err = r.at.place.apply(files, r.updates)
		return err
	}); err != nil {
		return result{err: err}
	}
	if len(changes) == 0 {
		r.record.pending = ""
		return result{}
	}
	if wait := r.settle(r.record, changes); wait > 0 {
		return result{again: wait}
	}
	for i := range r.updates {
		r.finder.addLabels(ctx, r.app, r.project, &r.updates[i])
	}
	return r.commit(ctx, repository, changes)
}

// settle returns how long to wait before changes are written: until they are found a
// second time, or for long enough while others keep coming.
func (c *Controller) settle(of *record, changes []Change) time.Duration {
	key, now := digestOf(changes), time.Now()
	if of.pending == "" {
		of.since = now
	}
	if of.pending == key || of.pending != "" && now.Sub(of.since) > maxSettle*c.options.Settle {
		return 0
	}
	of.pending = key
	return c.options.Settle
}

// commit pushes updates to the branch, or to one of their own.
func (r *run) commit(ctx context.Context, repository *gitwrite.Repository, changes []Change) result {
	config, err := r.config.read(ctx)
	if err != nil {
		return result{err: err}
	}
	base, branch := repository, ""
	if r.at.writeBranch != "" {
		sum := digestOf(changes)
		branch, err = branchName(r.at.writeBranch, branchData{
			Images: changes, SHA1: sum[:40], SHA256: sum, TargetKey: r.at.key(), AppName: r.app.Name, AppNamespace: r.app.Namespace,
		})
		if err != nil {
			return result{err: err}
		}
		// The change waits for its review.
		if r.record.proposed == branch {
			return result{}
		}
		if repository, err = r.open(ctx, branch); err != nil {
			return result{err: err}
		}
	}
	var made []Change
	id, err := repository.Commit(ctx, gitwrite.Writer{Author: config.author}, func(files gitwrite.Files) (string, error) {
		var err error
		if made, err = r.at.place.apply(files, r.updates); err != nil {
			return "", err
		}
		return commitMessage(config.message, r.app.Name, made)
	})
	if err != nil {
		return result{err: err}
	}
	r.record.pending = ""
	if r.at.proposal != nil {
		message, err := commitMessage(config.message, r.app.Name, changes)
		if err != nil {
			return result{err: err}
		}
		return r.propose(ctx, proposal{base: base, branch: branch, commit: id, message: message, changes: changes})
	}
	if len(made) == 0 {
		return result{}
	}
	r.options.Pushed(r.at.repoURL)
	return result{commit: id, note: fmt.Sprintf("committed %.12s: %s", id, describe(made))}
}

// describe lists changes for people.
func describe(changes []Change) string {
	texts := make([]string, len(changes))
	for i, change := range changes {
		texts[i] = fmt.Sprintf("%s from %s to %s", change.Image, cmp.Or(change.OldTag, "none"), change.NewTag)
	}
	return strings.Join(texts, ", ")
}

// destination is where the updates of an Application are written.
type destination struct {
	place   place
	repoURL string
	of      project.Admitted
	secret  secretReference
	// branch is that of the source or the one named; empty is the default one.
	branch      string
	writeBranch string
	// proposal is set if the commit is proposed by a pull request.
	proposal *PullRequest
}

// key identifies the target, for the names of branches.
func (d *destination) key() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", d.of.Address().Canonical().String(), d.branch, d.place.path))
	return hex.EncodeToString(sum[:4])
}

// destination finds the source that is written to, and checks it with the project.
func (r *run) destination(back WriteBack) (destination, error) {
	source, kind, err := sourceFor(r.app, back.Target.Kind)
	if err != nil {
		return destination{}, err
	}
	at := destination{repoURL: cmp.Or(back.Repository, source.RepoURL), branch: cmp.Or(back.Branch, source.TargetRevision), writeBranch: back.WriteBranch, secret: back.Secret, proposal: back.PullRequest}
	if at.branch == "HEAD" {
		at.branch = ""
	}
	if at.branch != "" {
		if err := checkBranch(at.branch); err != nil {
			return destination{}, fmt.Errorf("%w: name the branch to commit to with git-branch", err)
		}
	}
	if source.Chart != "" && back.Repository == "" {
		return destination{}, errors.New("its source is a chart and no Git repository: name the repository to commit to with git-repository")
	}
	if at.of, err = r.project.Admit(v1alpha1.ApplicationSource{RepoURL: at.repoURL}); err != nil {
		return destination{}, err
	}
	if !at.of.Address().IsGit() {
		return destination{}, fmt.Errorf("%s is no Git repository: name one with git-repository", at.of.Address())
	}
	at.place, err = locate(r.app.Name, back.Target, source, kind)
	return at, err
}

// sourceFor chooses among the sources of an Application the one that a target is for.
func sourceFor(app *v1alpha1.Application, target TargetKind) (*v1alpha1.ApplicationSource, v1alpha1.SourceType, error) {
	sources := app.Spec.AllSources()
	kinds := app.Status.SourceTypes
	if len(kinds) == 0 && app.Status.SourceType != "" {
		kinds = []v1alpha1.SourceType{app.Status.SourceType}
	}
	kindOf := func(i int) v1alpha1.SourceType {
		switch {
		case i < len(kinds) && kinds[i] != "":
			return kinds[i]
		case sources[i].Kustomize != nil:
			return v1alpha1.SourceKustomize
		case sources[i].Helm != nil || sources[i].Chart != "":
			return v1alpha1.SourceHelm
		}
		return ""
	}
	wanted := map[TargetKind][]v1alpha1.SourceType{
		TargetKustomization: {v1alpha1.SourceKustomize}, TargetHelmValues: {v1alpha1.SourceHelm}, TargetManifests: {v1alpha1.SourceDirectory},
		TargetDefault: {v1alpha1.SourceKustomize, v1alpha1.SourceHelm, v1alpha1.SourceDirectory},
	}[target]
	if len(sources) == 1 {
		return &sources[0], kindOf(0), nil
	}
	for i := range sources {
		if sources[i].Chart == "" && sources[i].Ref == "" && slices.Contains(wanted, kindOf(i)) {
			return &sources[i], kindOf(i), nil
		}
	}
	// Values of a chart that comes from elsewhere are in a source that it references.
	for i := range sources {
		if sources[i].Ref != "" && target == TargetHelmValues {
			return &sources[i], v1alpha1.SourceHelm, nil
		}
	}
	return nil, "", fmt.Errorf("none of its %d sources fits the target: name one with write-back-target", len(sources))
}
