package sharedrepo

import (
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
	"slipway.dev/slipway/internal/gitops/source/objects"
	"slipway.dev/slipway/internal/gitops/source/remote"
)

// How often a change is made again when somebody else was faster, and how long
// one attempt may take.
const (
	maxAttempts    = 40
	attemptTimeout = time.Minute
	// longestPause does not grow: who has lost often should not wait longer than
	// who comes first.
	longestPause = 300 * time.Millisecond
)

// maxMessageBytes bounds the message of a commit.
const maxMessageBytes = 8 << 10

// Author is a person, or the runtime.
type Author struct {
	Name, Email string
}

// Options is what a repository is opened with.
type Options struct {
	Location Location
	// Access is the credential for the repository, and what its host is known by.
	Access remote.Access
	// Committer is the runtime. It is also the author of what nobody asked for.
	Committer Author
	// Folder is for what is fetched; empty is the system's folder for temporary
	// files.
	Folder string
	// Now is the time of commits; nil is time.Now.
	Now func() time.Time
}

// Repository is a Shared Configuration Repository. It is safe for concurrent use.
type Repository struct {
	options Options
	address remote.Address
	// turn lets the writers of this process go one after the other: among
	// themselves they need not race.
	turn chan struct{}
	// last is what was fetched last, for the next one who needs the same commit.
	last atomic.Pointer[snapshot]
}

// Open prepares a repository and connects to nothing.
func Open(options Options) (*Repository, error) {
	address, err := remote.ParseAddress(options.Location.RepoURL)
	if err != nil {
		return nil, fmt.Errorf("the Shared Configuration Repository: %w", err)
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Repository{options: options, address: address, turn: make(chan struct{}, 1)}, nil
}

// Location is where the repository is.
func (r *Repository) Location() Location { return r.options.Location }

func (r *Repository) client() (*remote.Client, error) {
	client, err := remote.NewClient(r.address, r.options.Access, maxRefs)
	if err != nil {
		return nil, r.explain(err)
	}
	return client, nil
}

// explain names the repository. The causes have no credentials.
func (r *Repository) explain(err error) error {
	var large *objects.TooLarge
	if errors.As(err, &large) {
		return fmt.Errorf("the Shared Configuration Repository %s is too large (%w): keep it in a repository of its own", r.address, err)
	}
	return fmt.Errorf("the Shared Configuration Repository %s: %w", r.address, err)
}

// View shows the files at the newest commit, whose id it gives; it is empty for an
// empty repository.
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

func idText(id objects.ID) string {
	if id == plumbing.ZeroHash {
		return ""
	}
	return id.String()
}

// Change makes one commit of what change does to the files and puts it on the
// branch. It gives the id of the commit; when nothing changed, that of the newest
// one. Somebody else may be faster: then change is called again, with what is
// there now. An error of change is given back as it is, and nothing is pushed.
func (r *Repository) Change(ctx context.Context, message string, author Author, change func(files Files) error) (string, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	wish := wish{message: message, author: author, change: change}
	var last error
	for attempt := range maxAttempts {
		if err := pause(ctx, attempt); err != nil {
			return "", errors.Join(err, last)
		}
		commit, again, err := r.attempt(ctx, wish)
		if err == nil || !again {
			return commit, err
		}
		last = err
	}
	return "", fmt.Errorf("after %d attempts, try again later: %w", maxAttempts, last)
}

// wish is a change that is to be made.
type wish struct {
	message string
	author  Author
	change  func(Files) error
}

// pause waits before an attempt that is not the first. Chance keeps writers that
// met once from meeting again.
func pause(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return ctx.Err()
	}
	return backoff.Sleep(ctx, 20*time.Millisecond+rand.N(longestPause))
}

// attempt makes the change on what is there now. again is true when what was
// there is so no more.
func (r *Repository) attempt(ctx context.Context, w wish) (commit string, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	s, err := r.fetch(ctx)
	if err != nil {
		// A branch can move between being told of and being fetched.
		return "", isMoved(err, s), err
	}
	files, err := r.files(s)
	if err != nil {
		return "", false, err
	}
	if err := w.change(files); err != nil {
		return "", false, err
	}
	id, pack, err := r.build(s, files, w)
	if err != nil {
		return "", false, err
	}
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

// isMoved tells a commit that is gone from a repository that is.
func isMoved(err error, s snapshot) bool {
	var failure *remote.Failure
	return s.base != plumbing.ZeroHash && errors.As(err, &failure) && failure.Reason == remote.Missing
}

// afterPush looks at the branch after a push that failed, or whose answer got
// lost.
func (r *Repository) afterPush(ctx context.Context, s snapshot, pushed objects.ID, failed error) (string, bool, error) {
	client, err := r.client()
	if err != nil {
		return "", false, failed
	}
	defer client.Close()
	_, now, err := r.look(ctx, client)
	switch {
	case err != nil:
		return "", false, failed
	case now.tip == pushed:
		return pushed.String(), false, nil
	case now.tip != s.tip:
		return "", true, failed
	}
	var rejected *remote.RejectedError
	return "", errors.As(failed, &rejected) && rejected.Conflict(), failed
}

// build makes the commit, and the pack with what is new.
func (r *Repository) build(s snapshot, files Files, w wish) (objects.ID, []byte, error) {
	added := newFresh()
	before := files.root.id
	tree := files.root.store(added)
	switch {
	case tree == plumbing.ZeroHash && s.base == plumbing.ZeroHash:
		return plumbing.ZeroHash, nil, nil
	case tree == plumbing.ZeroHash:
		tree = added.add(objects.Tree, nil)
	}
	if tree == before && s.tip != plumbing.ZeroHash {
		return s.tip, nil, nil
	}
	now := r.options.Now()
	author, committer := signature(w.author, r.options.Committer, now), signature(r.options.Committer, Author{Name: "Slipway"}, now)
	id := added.add(objects.Commit, commitText(tree, s.base, author, committer, plainMessage(w.message)))
	pack, err := added.pack()
	return id, pack, err
}

// signature is a person as Git writes one. Names come from accounts: what would
// end the line or the name is taken out.
func signature(author, instead Author, at time.Time) stamp {
	name, email := plainName(author.Name), plainName(author.Email)
	if email == "" {
		email = plainName(instead.Email)
	}
	if name == "" {
		name = plainName(author.Email)
	}
	if name == "" {
		name = plainName(instead.Name)
	}
	if email == "" {
		email = "noreply@slipway.invalid"
	}
	return stamp{name: name, email: email, at: at}
}

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
