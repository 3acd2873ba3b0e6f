package gitwrite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/objects"
	"slipway.dev/slipway/internal/gitops/source/remote"
)

// Limits of the attempts of a change when other writers are faster.
const (
	maxAttempts    = 40
	attemptTimeout = time.Minute
	// maxRetryDelay does not grow: a writer that lost often should not wait
	// longer than a new one.
	maxRetryDelay = 300 * time.Millisecond
)

// maxMessageBytes bounds the message of a commit.
const maxMessageBytes = 8 << 10

// Author is a person, or the runtime.
type Author struct {
	Name, Email string
}

// Writer is for whom a change is committed.
type Writer struct {
	Author Author
	// Own is the author's own access, with which the commit is pushed. The
	// author is the committer, too. Nil pushes with the access of the runtime,
	// which is the committer then.
	Own *UserAccess
}

// UserAccess opens the repository for one user.
type UserAccess struct {
	// RepoURL may differ from that of the repository: a token does not push over
	// SSH.
	RepoURL string
	Access  remote.Access
}

// Options configures a Repository.
type Options struct {
	// Name is what messages call the repository, such as "the Shared Configuration
	// Repository"; empty for "the repository".
	Name string
	// TooLarge is the advice for a repository beyond the limits; it may be empty.
	TooLarge string
	RepoURL  string
	// Branch is written to; empty is the default branch. Base is where it begins if it
	// does not exist; empty is the default branch.
	Branch, Base string
	// Path is the folder that all paths are below; empty is the root.
	Path string
	// MaxPackBytes bounds what is fetched: 128 MiB if it is zero.
	MaxPackBytes int64
	// Access is the credential for the repository, with the keys and
	// authorities of its host.
	Access remote.Access
	// Committer is the runtime. It commits what is pushed with its access, and is
	// also the author of commits that no user requested.
	Committer Author
	// Folder has the fetched objects; empty is the system's temporary folder.
	Folder string
}

// Repository is one branch of a repository. It is safe for concurrent use.
type Repository struct {
	options Options
	address address.Address
	// writer is a lock that serializes the writers of this process: among
	// themselves they need not race.
	writer chan struct{}
	// last is the last fetched snapshot, for the next reader of the same
	// commit.
	last atomic.Pointer[snapshot]
}

// Open returns a repository. It connects to nothing.
func Open(options Options) (*Repository, error) {
	options.Name = cmp.Or(options.Name, "the repository")
	at, err := remote.ParseAddress(options.RepoURL)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", options.Name, err)
	}
	return &Repository{options: options, address: at, writer: make(chan struct{}, 1)}, nil
}

// client returns a client of the server, with the access of the runtime.
func (r *Repository) client() (*remote.Client, error) {
	return r.clientFor(r.address, r.options.Access)
}

// clientFor returns a client with some access.
func (r *Repository) clientFor(at address.Address, access remote.Access) (*remote.Client, error) {
	client, err := remote.NewClient(at, access, maxRefs)
	if err != nil {
		return nil, r.explain(err)
	}
	return client, nil
}

// explain adds the address to an error. The causes contain no credentials.
func (r *Repository) explain(err error) error {
	if _, ok := errors.AsType[*objects.TooLarge](err); ok {
		return fmt.Errorf("%s %s is too large (%w)%s", r.options.Name, r.address, err, r.options.TooLarge)
	}
	return RepositoryError{fmt.Errorf("%s %s: %w", r.options.Name, r.address, err)}
}

// View calls look with the files of the newest commit, and returns its id;
// empty for an empty repository.
func (r *Repository) View(ctx context.Context, look func(files Files) error) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	s, err := r.fetch(ctx)
	if err != nil {
		return "", err
	}
	files, err := r.files(s)
	if err != nil {
		return "", err
	}
	return idText(s.base), look(files)
}

// BranchName returns the name of the branch: that of the default one if none was
// named.
func (r *Repository) BranchName(ctx context.Context) (string, error) {
	if r.options.Branch != "" {
		return r.options.Branch, nil
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	client, err := r.client()
	if err != nil {
		return "", err
	}
	defer client.Close()
	_, found, err := r.resolveBranch(ctx, client)
	return strings.TrimPrefix(found.ref, branchPrefix), err
}

// idText is the text of an id; empty for the zero id.
func idText(id objects.ID) string {
	if id == plumbing.ZeroHash {
		return ""
	}
	return id.String()
}

// Change commits what change does to the files, and pushes it to the branch. It
// returns the id of the commit, or that of the newest one if nothing changed.
// If another writer was faster, change is called again with the new files. An
// error of change is returned as it is, and nothing is pushed.
//
// Files are read with the access of the runtime, also for a user with an own
// one: the server decides at the push whether that user may write.
func (r *Repository) Change(ctx context.Context, message string, writer Writer, change func(files Files) error) (string, error) {
	return r.Commit(ctx, writer, func(files Files) (string, error) { return message, change(files) })
}

// Commit is Change for a message that depends on the files: change returns it.
func (r *Repository) Commit(ctx context.Context, writer Writer, change func(files Files) (message string, err error)) (string, error) {
	select {
	// Writers of this process take turns. Those of other runtimes are handled
	// by retries.
	case r.writer <- struct{}{}:
		defer func() { <-r.writer }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	request := changeRequest{writer: writer, change: change}
	var last error
	for attempt := range maxAttempts {
		if err := pause(ctx, attempt); err != nil {
			return "", errors.Join(err, last)
		}
		// Each attempt starts with a fetch, so that change sees the other
		// writer's files.
		commit, again, err := r.attempt(ctx, request)
		if err == nil || !again {
			return commit, err
		}
		last = err
	}
	return "", fmt.Errorf("after %d attempts, try again later: %w", maxAttempts, last)
}

// changeRequest is a change to commit.
type changeRequest struct {
	writer Writer
	change func(Files) (string, error)
}

// pause waits before a retry. The random delay keeps writers that collided from
// colliding again.
func pause(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return ctx.Err()
	}
	return backoff.Sleep(ctx, 20*time.Millisecond+rand.N(maxRetryDelay))
}

// attempt makes the change on the current commit. again is true if the branch
// moved meanwhile.
func (r *Repository) attempt(ctx context.Context, w changeRequest) (commit string, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	s, err := r.fetch(ctx)
	if err != nil {
		// A branch can move between its advertisement and the fetch.
		return "", isMoved(err, s), err
	}
	files, err := r.files(s)
	if err != nil {
		return "", false, err
	}
	// An error of the change is final: a retry would fail the same way.
	message, err := w.change(files)
	if err != nil {
		return "", false, err
	}
	id, pack, err := r.build(s, files, w.writer, message)
	if err != nil {
		return "", false, err
	}
	// Nothing changed, so that no commit is made.
	if id == s.tip {
		return idText(s.tip), false, nil
	}
	err = r.push(ctx, w.writer.Own, remote.Update{Ref: s.ref, Before: s.tip, After: id, Pack: pack})
	if err == nil {
		return id.String(), false, nil
	}
	return r.afterPush(ctx, s, id, err)
}

// RepositoryError is an error of the repository or its server, and not of a change.
type RepositoryError struct{ error }

// Unwrap returns the cause.
func (e RepositoryError) Unwrap() error { return e.error }

// RefusedUserError is a push that the server refused to the access of a user.
type RefusedUserError struct{ error }

// Unwrap returns the error of the server.
func (e RefusedUserError) Unwrap() error { return e.error }

// push moves the branch with a connection of its own, which a user may open.
func (r *Repository) push(ctx context.Context, own *UserAccess, update remote.Update) error {
	at, access := r.address, r.options.Access
	if own != nil {
		var err error
		if at, err = remote.ParseAddress(own.RepoURL); err != nil {
			return r.explain(err)
		}
		access = own.Access
	}
	client, err := r.clientFor(at, access)
	if err != nil {
		return err
	}
	defer client.Close()
	err = client.Push(ctx, update)
	switch {
	case err == nil:
		return nil
	case own != nil && isRefused(err):
		return RefusedUserError{r.explain(err)}
	}
	return r.explain(err)
}

// isRefused reports whether a server refused a push because of who pushed.
// Servers that hide private repositories report them as missing.
func isRefused(err error) bool {
	if rejected, ok := errors.AsType[*remote.RejectedError](err); ok {
		return !rejected.Conflict()
	}
	failure, ok := errors.AsType[*remote.Failure](err)
	return ok && (failure.Reason == remote.Denied || failure.Reason == remote.Missing)
}

// isMoved distinguishes a commit that is gone from a repository that is.
func isMoved(err error, s snapshot) bool {
	var failure *remote.Failure
	return s.base != plumbing.ZeroHash && errors.As(err, &failure) && failure.Reason == remote.Missing
}

// afterPush reads the branch after a push that failed or whose response was
// lost: the branch decides whether it took effect.
func (r *Repository) afterPush(ctx context.Context, s snapshot, pushed objects.ID, failed error) (string, bool, error) {
	client, err := r.client()
	if err != nil {
		return "", false, failed
	}
	defer client.Close()
	_, now, err := r.resolveBranch(ctx, client)
	switch {
	case err != nil:
		return "", false, failed
	// The push took effect, and only its response was lost.
	case now.tip == pushed:
		return pushed.String(), false, nil
	// Another writer was faster.
	case now.tip != s.tip:
		return "", true, failed
	}
	var rejected *remote.RejectedError
	return "", errors.As(failed, &rejected) && rejected.Conflict(), failed
}

// build returns the commit, and a pack with the new objects.
func (r *Repository) build(s snapshot, files Files, writer Writer, message string) (objects.ID, []byte, error) {
	added := newPackBuilder()
	before := files.root.id
	tree := files.root.store(added)
	switch {
	// An empty repository stays empty.
	case tree == plumbing.ZeroHash && s.base == plumbing.ZeroHash:
		return plumbing.ZeroHash, nil, nil
	// All files were removed. A commit needs a tree, so that it is the empty
	// one.
	case tree == plumbing.ZeroHash:
		tree = added.add(objects.Tree, nil)
	}
	// New branches are created even without a change of files.
	if tree == before && s.tip != plumbing.ZeroHash {
		return s.tip, nil, nil
	}
	now := time.Now()
	author, committer := signature(writer.Author, r.options.Committer, now), signature(r.options.Committer, Author{Name: "Slipway"}, now)
	if writer.Own != nil {
		committer = author
	}
	id := added.add(objects.Commit, commitText(tree, s.base, author, committer, plainMessage(message)))
	pack, err := added.pack()
	return id, pack, err
}

// signature returns the line of a person in a commit. Names come from accounts:
// characters that would end the line or the name are removed.
func signature(author, instead Author, at time.Time) gitSignature {
	return gitSignature{
		name:  cmp.Or(plainName(author.Name), plainName(author.Email), plainName(instead.Name)),
		email: cmp.Or(plainName(author.Email), plainName(instead.Email), "noreply@slipway.invalid"),
		at:    at,
	}
}

// plainName removes such characters from a name.
func plainName(text string) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || c == '<' || c == '>' || c == unicode.ReplacementChar {
			return -1
		}
		return c
	}, text)
	if len(text) > 256 {
		text = strings.ToValidUTF8(text[:256], "")
	}
	return strings.TrimSpace(text)
}

// plainMessage bounds a message and removes control characters.
func plainMessage(text string) string {
	text = strings.Map(func(c rune) rune {
		if c != '\n' && unicode.IsControl(c) {
			return -1
		}
		return c
	}, text)
	if len(text) > maxMessageBytes {
		text = strings.ToValidUTF8(text[:maxMessageBytes], "")
	}
	return strings.TrimSpace(text) + "\n"
}
