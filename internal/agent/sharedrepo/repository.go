package sharedrepo

import (
	"slipway.dev/slipway/internal/gitops/gitwrite"
	"slipway.dev/slipway/internal/gitops/source/remote"
)

// repositoryName is what messages call the repository.
const repositoryName = "the Shared Configuration Repository"

// Author is a person, or the runtime.
type Author = gitwrite.Author

// Writer is for whom a change is committed.
type Writer = gitwrite.Writer

// UserAccess opens the repository for one user.
type UserAccess = gitwrite.UserAccess

// Files is the content of a location at one commit, with the changes that were made
// so far.
type Files = gitwrite.Files

// PathError is a path that is refused.
type PathError = gitwrite.PathError

// Options configures a Repository.
type Options struct {
	Location Location
	// Access is the credential for the repository, with the keys and
	// authorities of its host.
	Access remote.Access
	// Committer is the runtime. It commits what is pushed with its access, and is
	// also the author of commits that no user requested.
	Committer Author
	// Folder has the fetched objects; empty is the system's temporary folder.
	Folder string
}

// Repository is a Shared Configuration Repository. It is safe for concurrent
// use.
type Repository struct {
	*gitwrite.Repository
	options Options
}

// Open returns a repository. It connects to nothing.
func Open(options Options) (*Repository, error) {
	opened, err := gitwrite.Open(gitwrite.Options{
		Name: repositoryName, TooLarge: ": keep it in a repository of its own",
		RepoURL: options.Location.RepoURL, Branch: options.Location.Branch, Path: options.Location.Path,
		Access: options.Access, Committer: options.Committer, Folder: options.Folder,
	})
	if err != nil {
		return nil, err
	}
	return &Repository{Repository: opened, options: options}, nil
}

// Location returns the address of the repository.
func (r *Repository) Location() Location { return r.options.Location }
