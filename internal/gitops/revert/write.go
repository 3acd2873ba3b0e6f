package revert

import (
	"context"
	"fmt"
	"strings"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gitwrite"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/pullrequest"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/gitprovider"
)

// maxRepositoryBytes bounds the newest commit of a repository that is written to.
const maxRepositoryBytes = 1 << 30

// Request is what to write for whom.
type Request struct {
	Sources *source.Sources
	// Project is that of the Application: it allows the repositories and chooses the
	// credentials.
	Project *project.Project
	App     *v1alpha1.Application
	// Past is the sync to go back to, as inspect.RollbackTo returns it.
	Past *v1alpha1.SyncOperation
	// PullRequest proposes the change in place of a commit to the branch.
	PullRequest bool
	// User is the author, for people.
	User string
}

// Written is what was written to one repository.
type Written struct {
	RepoURL, Branch string
	// Commit is its id, and PullRequest the address of the pull request.
	Commit, PullRequest string
}

// change is what comes back on one branch of one repository.
type change struct {
	repoURL, branch string
	admitted        project.Admitted
	access          remote.Access
	// revision is the past one, for people.
	revision string
	objects  []restored
}

// Write writes the files of a past sync to Git. Without a difference it is a
// [StateError].
func Write(ctx context.Context, request Request) ([]Written, error) {
	changes, err := request.changes(ctx)
	if err != nil {
		return nil, err
	}
	// Repositories have no common transaction: what was written before an error is
	// returned with it.
	var all []Written
	for _, one := range changes {
		written, changed, err := request.write(ctx, one)
		if err != nil {
			return all, err
		}
		if changed {
			all = append(all, written)
		}
	}
	if len(all) == 0 {
		return nil, refuse("Git has the files of that sync already: nothing to revert")
	}
	return all, nil
}

// changes resolves the past sources, and joins those of one branch.
func (r *Request) changes(ctx context.Context) ([]*change, error) {
	sources, err := pastSources(r.App, r.Past)
	if err != nil {
		return nil, err
	}
	var all []*change
	known := map[string]*change{}
	for _, one := range sources {
		past := one.source
		past.TargetRevision = one.revision
		// The status is not trusted: the project decides about the repository.
		admitted, err := r.Project.Admit(past)
		if err != nil {
			return nil, err
		}
		resolved, err := r.Sources.Resolve(ctx, admitted, -1)
		if err != nil {
			return nil, err
		}
		objects, err := pastObjects(resolved.Store, one.paths)
		if err != nil {
			return nil, err
		}
		// A tag or a commit has no branch of its name, which the writer refuses.
		branch := strings.TrimPrefix(one.source.TargetRevision, "refs/heads/")
		if branch == "HEAD" {
			branch = ""
		}
		key := admitted.Address().Canonical().String() + " " + branch
		at := known[key]
		if at == nil {
			access, err := r.Sources.Access(ctx, admitted)
			if err != nil {
				return nil, err
			}
			at = &change{repoURL: one.source.RepoURL, branch: branch, admitted: admitted, access: access, revision: one.revision}
			known[key], all = at, append(all, at)
		}
		at.objects = append(at.objects, objects...)
	}
	return all, nil
}

// write commits one change, or proposes it.
func (r *Request) write(ctx context.Context, of *change) (Written, bool, error) {
	base, err := r.open(of, of.branch)
	if err != nil {
		return Written{}, false, err
	}
	branch, err := base.BranchName(ctx)
	if err != nil {
		return Written{}, false, err
	}
	// Without a difference no branch and no pull request is made.
	differs := false
	tip, err := base.View(ctx, func(files gitwrite.Files) error {
		err := of.apply(files)
		differs = err == nil && files.Changes()
		return err
	})
	if err != nil || !differs {
		return Written{}, false, err
	}
	target, written := base, Written{RepoURL: of.repoURL, Branch: branch}
	if r.PullRequest {
		// The same request on the same commit finds its branch again.
		written.Branch = fmt.Sprintf("slipway/revert-%s-%.8s-%.8s", r.App.Name, of.revision, tip)
		if target, err = r.open(&change{repoURL: of.repoURL, branch: branch, access: of.access}, written.Branch); err != nil {
			return Written{}, false, err
		}
	}
	title, body := r.message(of)
	written.Commit, err = target.Change(ctx, title+"\n\n"+body, gitwrite.Writer{Author: gitwrite.Author{Name: r.User}}, of.apply)
	if err != nil || written.Commit == tip {
		return Written{}, false, err
	}
	if !r.PullRequest {
		// The next comparison reads the branch again.
		r.Sources.Forget(of.repoURL)
		return written, true, nil
	}
	// The push comes first: the same request again finds the branch.
	pulls, err := pullrequest.New(ctx, pullrequest.Options{RepoURL: of.repoURL, Access: of.access})
	if err != nil {
		return written, false, fmt.Errorf("the branch %s is pushed, but it has no pull request: %w", written.Branch, err)
	}
	opened, err := pulls.Open(ctx, gitprovider.NewPullRequest{Head: written.Branch, Base: branch, Title: title, Body: body})
	if err != nil {
		return written, false, fmt.Errorf("the branch %s is pushed, but it has no pull request: %w", written.Branch, err)
	}
	written.PullRequest = opened.URL
	return written, true, nil
}

// apply brings the objects back.
func (c *change) apply(files gitwrite.Files) error {
	for _, one := range c.objects {
		// A path that the past revision did not have goes away.
		if one.id.IsZero() {
			if err := files.Remove(one.path); err != nil {
				return err
			}
			continue
		}
		if err := files.Restore(one.path, one.mode, one.id); err != nil {
			return err
		}
	}
	return nil
}

// open opens a branch that begins at that of the change.
func (r *Request) open(of *change, branch string) (*gitwrite.Repository, error) {
	return gitwrite.Open(gitwrite.Options{
		RepoURL: of.repoURL, Branch: branch, Base: of.branch, Access: of.access, MaxPackBytes: maxRepositoryBytes,
		Committer: gitwrite.Author{Name: "Slipway"},
	})
}

// message returns the title and the text of the commit.
func (r *Request) message(of *change) (title, body string) {
	names := make([]string, len(of.objects))
	for i, one := range of.objects {
		if names[i] = one.path; one.path == "" {
			names[i] = "."
		}
	}
	title = fmt.Sprintf("Revert %s to %.12s", r.App.Name, of.revision)
	body = fmt.Sprintf("The Application %s/%s was rolled back. This brings back what %s had at %s.", r.App.Namespace, r.App.Name, strings.Join(names, ", "), of.revision)
	if r.User != "" {
		body += "\n\nRequested by " + r.User + "."
	}
	return title, body
}
