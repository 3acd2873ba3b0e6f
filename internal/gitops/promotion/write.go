package promotion

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"slipway.dev/slipway/api/codefresh/v1beta1"
	"slipway.dev/slipway/api/refusal"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gitwrite"
	"slipway.dev/slipway/internal/gitops/source/remote"
)

// maxRepositoryBytes bounds the newest commit of a repository that is written to.
const maxRepositoryBytes = 1 << 30

// target is an Application that is promoted to, with what it gets.
type target struct {
	place
	template template
}

// target reads an Application by its name in the status.
func (r *run) target(ctx context.Context, product *v1beta1.Product, key string) (target, error) {
	app, err := r.catalog.application(key)
	if err != nil {
		return target{}, err
	}
	at, err := r.locate(ctx, app)
	if err != nil {
		return target{}, err
	}
	// Templates select target Applications, so that each can have its own files.
	contents, err := r.catalog.contents(product, app)
	if err != nil {
		return target{}, err
	}
	compiled, err := compileTemplate(contents)
	return target{at, compiled}, err
}

// targets are the Applications of a step.
func (r *run) targets(ctx context.Context, step *slipway.PromotionStep) ([]target, error) {
	product, err := lookUp(r.catalog.products, v1beta1.KindProduct, r.promotion.Spec.Product)
	if err != nil {
		return nil, err
	}
	var all []target
	for _, key := range step.Applications {
		one, err := r.target(ctx, product, key)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// sourceReader reads files of the source at the revision of the Promotion. The
// Application has to exist, because its project and credential open the repository; its
// path and repository are those of now.
func (r *run) sourceReader(ctx context.Context) (reader, error) {
	from := r.promotion.Status.Source
	app, err := r.catalog.application(from.Namespace + "/" + from.Application)
	if err != nil {
		return nil, err
	}
	at, err := r.locate(ctx, app)
	if err != nil {
		return nil, err
	}
	return r.readerAt(ctx, &at, from.Revision)
}

// group is the Applications of a step whose files are on one branch: they get one
// commit. Regions of an environment often share a branch, and must not be left between
// two versions by a process that ends. Groups of different branches have a commit each,
// and each is recorded when it is made.
type group struct {
	repoURL, branch string
	targets         []target
}

// groups divides Applications by repository and branch, in a fixed order.
func groups(targets []target) ([]group, error) {
	var all []group
	for _, one := range targets {
		admitted, err := one.project.Admit(one.source)
		if err != nil {
			return nil, err
		}
		if !admitted.Address().IsGit() {
			return nil, refusal.New("spec.source", refusal.Unsupported, "%s is no Git repository", admitted.Address())
		}
		// Two spellings of one repository are one branch to write to.
		canonical := admitted.Address().Canonical().String()
		at := slices.IndexFunc(all, func(g group) bool { return g.repoURL == canonical && g.branch == one.branch })
		if at < 0 {
			all = append(all, group{repoURL: canonical, branch: one.branch})
			at = len(all) - 1
		}
		all[at].targets = append(all[at].targets, one)
	}
	return all, nil
}

// access returns the credential of a repository, that of the first Application.
func (r *run) access(ctx context.Context, of *group) (remote.Access, error) {
	admitted, err := of.targets[0].project.Admit(of.targets[0].source)
	if err != nil {
		return remote.Access{}, err
	}
	return r.options.Sources.Access(ctx, admitted)
}

// open returns the writer of the branch of a group, or of one that begins there.
func (r *run) open(ctx context.Context, of *group, head string) (*gitwrite.Repository, error) {
	access, err := r.access(ctx, of)
	if err != nil {
		return nil, err
	}
	// The branch is its own base, so that one that does not exist is not created: the
	// revision of an Application can be a tag.
	branch := cmp.Or(head, of.branch)
	return r.pool.Get(gitwrite.PoolKey{Repository: of.repoURL, Branch: branch, Base: of.branch, Project: of.targets[0].app.Spec.ProjectName()}, gitwrite.Options{
		RepoURL: of.targets[0].source.RepoURL, Branch: branch, Base: of.branch, Access: access, MaxPackBytes: maxRepositoryBytes, Folder: r.options.Folder,
		Committer: gitwrite.Author{Name: "Slipway", Email: "noreply@slipway.dev"},
	})
}

// groupOf returns the Applications of a write.
func (r *run) groupOf(ctx context.Context, step *slipway.PromotionStep, to *slipway.PromotionWrite) (*group, error) {
	targets, err := r.targets(ctx, step)
	if err != nil {
		return nil, err
	}
	divided, err := groups(targets)
	if err != nil {
		return nil, err
	}
	into := to.Branch
	if step.Action == v1beta1.ActionPullRequest {
		into = to.Target
	}
	at := slices.IndexFunc(divided, func(g group) bool { return g.repoURL == to.Repository && g.branch == into })
	if at < 0 {
		return nil, refusal.New("spec.source", refusal.Conflict, "no Application of the environment %s is at %s any more", step.Environment, to.Repository)
	}
	return &divided[at], nil
}

// prepare records where a step is going to be written, and what is there before.
func (r *run) prepare(ctx context.Context, step *slipway.PromotionStep) error {
	targets, err := r.targets(ctx, step)
	if err != nil {
		return err
	}
	divided, err := groups(targets)
	if err != nil {
		return err
	}
	step.Writes = nil
	for i := range divided {
		repository, err := r.open(ctx, &divided[i], "")
		if err != nil {
			return err
		}
		// A commit of ours can only be behind this one.
		base, err := repository.View(ctx, func(gitwrite.Files) error { return nil })
		if err != nil {
			return err
		}
		to := slipway.PromotionWrite{Repository: divided[i].repoURL, Branch: divided[i].branch, Base: base}
		if step.Action == v1beta1.ActionPullRequest {
			to.Branch, to.Target = r.headBranch(step), divided[i].branch
		}
		step.Writes = append(step.Writes, to)
	}
	return nil
}

// trailer is the line of a commit by which it is found again. A Promotion of the same
// name that existed before has the same line, and is not found: its commits are older
// than the one that the search ends at.
func (r *run) trailer(step *slipway.PromotionStep) string {
	return "Promotion: " + r.promotion.Namespace + "/" + r.promotion.Name + "/" + step.Environment
}

// write makes the commit of a branch, unless it was made before.
func (r *run) write(ctx context.Context, step *slipway.PromotionStep, to *slipway.PromotionWrite) error {
	of, err := r.groupOf(ctx, step, to)
	if err != nil {
		return err
	}
	isProposal := step.Action == v1beta1.ActionPullRequest
	head := ""
	if isProposal {
		head = to.Branch
	}
	repository, err := r.open(ctx, of, head)
	if err != nil {
		return err
	}
	// Another process may have made it, and ended before it was recorded.
	found, err := repository.FindCommit(ctx, r.trailer(step), to.Base)
	if err != nil {
		return err
	}
	if found != "" {
		to.Commit, to.Done = found, true
		return nil
	}
	from, err := r.sourceReader(ctx)
	if err != nil {
		return err
	}
	if isProposal {
		if isUnchanged, err := r.isUnchanged(ctx, of, from); err != nil || isUnchanged {
			to.Done = err == nil
			return err
		}
	}
	var files []string
	// The function runs again on the new files if another writer was faster, so that it
	// begins with an empty list. A value that is there already changes nothing.
	id, err := repository.Commit(ctx, gitwrite.Writer{Author: gitwrite.Author{Name: r.promotion.Spec.By}}, func(content gitwrite.Files) (string, error) {
		files = nil
		for _, one := range of.targets {
			changed, err := one.copyInto(content, from)
			if err != nil {
				return "", err
			}
			files = append(files, changed...)
		}
		return r.message(step, files), nil
	})
	if err != nil {
		return err
	}
	to.Done = true
	// Without a change there is no commit, and the id is that of another one.
	if len(files) > 0 {
		to.Commit = id
		r.options.Pushed(of.targets[0].source.RepoURL)
	}
	return nil
}

// copyInto sets the values of the source in the files of a commit.
func (t *target) copyInto(content gitwrite.Files, from reader) ([]string, error) {
	to := func(file string) ([]byte, bool, error) { return content.Read(path.Join(t.folder, file)) }
	changed, err := t.template.copy(from, to, func(file string, text []byte) error { return content.Write(path.Join(t.folder, file), text) })
	for i := range changed {
		changed[i] = path.Join(t.folder, changed[i])
	}
	return changed, err
}

// message is the message of a commit.
func (r *run) message(step *slipway.PromotionStep, files []string) string {
	status := &r.promotion.Status
	// The subject is what a person searches for in the log; the trailers are for programs,
	// and git interpret-trailers parses them.
	text := fmt.Sprintf("promote %s %s to %s\n\n", r.promotion.Spec.Product, status.Version, step.Environment)
	for _, file := range files {
		text += file + "\n"
	}
	return text + fmt.Sprintf("\nPromoted-From: %s@%s\nPromoted-By: %s\n%s", status.Source.Application, status.Source.Revision,
		cmp.Or(oneLine(r.promotion.Spec.By), "slipway"), r.trailer(step))
}

// oneLine removes line breaks of a name, which could look like another line of the
// message.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
