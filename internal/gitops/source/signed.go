package source

import (
	"cmp"
	"context"
	"slices"
	"time"

	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source/objects"
)

// maxSignedTags bounds the tags of a commit that are read: anyone who pushes can add some.
const maxSignedTags = 16

// checkSignature refuses a commit that none of the keys of the project has signed, by itself
// or by an annotated tag that names it. Tags count for every name of the commit, so that a
// sync and a rollback to its id are allowed where the tag is.
func (r *repository) checkSignature(ctx context.Context, commit *Commit, store *commitStore, of project.Admitted, maxAge time.Duration) error {
	keys := of.SignatureKeys()
	if len(keys) == 0 {
		return nil
	}
	id, _ := parseID(commit.ID)
	_, content, err := store.set.Read(id, maxCommitBytes)
	if err != nil {
		return err
	}
	keyring := r.sources.options.Credentials.Keyring()
	unsigned := keyring.Verify(string(content), keys)
	if unsigned == nil {
		return nil
	}
	known, err := r.refs(ctx, maxAge)
	if err != nil {
		return toError(err, r.name)
	}
	for _, tag := range tagsOf(known, id, of.Source().TargetRevision) {
		content, err := r.readTag(ctx, tag, known)
		if err != nil {
			return toError(err, r.name)
		}
		if keyring.VerifyTag(content, commit.ID, keys) == nil {
			return nil
		}
	}
	return errorf(Refused, of.Address().String(), "project %s deploys commits that one of spec.signatureKeys has signed, by the commit or an annotated tag of it, and the commit %.12s %v", of.Project(), commit.ID, unsigned)
}

// tagsOf returns the ids of the annotated tags that name a commit, by the server. The one that
// is deployed comes first.
func tagsOf(known *cachedRefs, commit objects.ID, revision string) []objects.ID {
	var names []string
	for name := range known.Tags {
		if known.Refs[name] == commit {
			names = append(names, name)
		}
	}
	last := func(name string) int {
		if name == tags+revision {
			return 0
		}
		return 1
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(last(a)-last(b), cmp.Compare(a, b)) })
	var found []objects.ID
	for _, name := range names[:min(len(names), maxSignedTags)] {
		found = append(found, known.Tags[name])
	}
	return found
}

// readTag returns a tag as Git stores it. It is fetched if it is not on the disk.
func (r *repository) readTag(ctx context.Context, tag objects.ID, known *cachedRefs) (string, error) {
	d, err := r.ensureDisk(ctx)
	if err != nil {
		return "", err
	}
	if !d.objects().Has(tag) {
		if err := r.fetch(ctx, target{id: tag}, known); err != nil {
			return "", err
		}
	}
	_, content, err := r.loadedDisk().objects().Read(tag, maxCommitBytes)
	return string(content), err
}
