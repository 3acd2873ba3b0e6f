package sharedrepo

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

// Options configures a Repository.
type Options struct {
	Location Location
	// Access is the credential for the repository, with the keys and
	// authorities of its host.
	Access remote.Access
	// Committer is the runtime. It is also the author of commits that no user
	// requested.
	Committer Author
	// Folder has the fetched objects; empty is the system's temporary folder.
	Folder string
}

// Repository is a Shared Configuration Repository. It is safe for concurrent
// use.
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
	at, err := remote.ParseAddress(options.Location.RepoURL)
	if err != nil {
		return nil, fmt.Errorf("the Shared Configuration Repository: %w", err)
	}
	return &Repository{options: options, address: at, writer: make(chan struct{}, 1)}, nil
}

// Location returns the address of the repository.
func (r *Repository) Location() Location { return r.options.Location }

// client returns a client of the server.
func (r *Repository) client() (*remote.Client, error) {
	client, err := remote.NewClient(r.address, r.options.Access, maxRefs)
	if err != nil {
		return nil, r.explain(err)
	}
	return client, nil
}

// explain adds the address to an error. The causes contain no credentials.
func (r *Repository) explain(err error) error {
	if _, ok := errors.AsType[*objects.TooLarge](err); ok {
		return fmt.Errorf("the Shared Configuration Repository %s is too large (%w): keep it in a repository of its own", r.address, err)
	}
	return repositoryError{fmt.Errorf("the Shared Configuration Repository %s: %w", r.address, err)}
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
func (r *Repository) Change(ctx context.Context, message string, author Author, change func(files Files) error) (string, error) {
	select {
	// Writers of this process take turns. Those of other runtimes are handled
	// by retries.
	case r.writer <- struct{}{}:
		defer func() { <-r.writer }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	request := changeRequest{message: message, author: author, change: change}
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
	message string
	author  Author
	change  func(Files) error
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
	if err := w.change(files); err != nil {
		return "", false, err
	}
	id, pack, err := r.build(s, files, w)
	if err != nil {
		return "", false, err
	}
	// Nothing changed, so that no commit is made.
	if id == s.tip {
		return idText(s.tip), false, nil
	}
	err = r.push(ctx, remote.Update{Ref: s.ref, Before: s.tip, After: id, Pack: pack})
	if err == nil {
		return id.String(), false, nil
	}
	return r.afterPush(ctx, s, id, err)
}

// push moves the branch with a connection of its own.
func (r *Repository) push(ctx context.Context, update remote.Update) error {
	client, err := r.client()
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Push(ctx, update); err != nil {
		return r.explain(err)
	}
	return nil
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
func (r *Repository) build(s snapshot, files Files, w changeRequest) (objects.ID, []byte, error) {
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
	author, committer := signature(w.author, r.options.Committer, now), signature(r.options.Committer, Author{Name: "Slipway"}, now)
	id := added.add(objects.Commit, commitText(tree, s.base, author, committer, plainMessage(w.message)))
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
