package source

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"

	"slipway.dev/slipway/internal/gitops/source/remote"
)

// target is what a revision turned out to be: a commit, or the beginning of the
// id of one.
type target struct {
	id     remote.ID
	prefix string
}

// maxRevision is longer than any name that hosts allow.
const maxRevision = 256

// checkRevision refuses text that cannot name a commit. What Git gives a
// meaning of its own, such as main~1 or main@{yesterday}, names no ref. The
// reason is a verb phrase for the message; it is empty for valid text. The
// rules are those of git check-ref-format, and stricter.
func checkRevision(text string) (reason string) {
	switch {
	case len(text) > maxRevision:
		return "is too long"
	case strings.HasPrefix(text, "-"):
		return "begins with a dash"
	case strings.HasPrefix(text, "/"), strings.HasSuffix(text, "/"), strings.HasSuffix(text, ".lock"), strings.HasSuffix(text, "."):
		return "has no proper end or beginning"
	case strings.Contains(text, ".."), strings.Contains(text, "@{"), strings.Contains(text, "//"):
		return "has .., @{ or // in it"
	}
	for _, r := range text {
		if r < ' ' || r == 0x7f || strings.ContainsRune(`\:?["'`+"`$;&(){}", r) {
			return "has a character in it that no branch, tag or range has"
		}
	}
	if strings.ContainsAny(text, " ~^*<>=!|,") && constraintOf(text) == nil {
		return "is neither a name nor a range of versions"
	}
	return ""
}

// constraint is a range of versions, of tags that begin with a prefix.
type constraint struct {
	prefix string
	*semver.Constraints
}

// prefixed finds the folder of a tag in front of a version: app/v1.2.*.
var prefixed = regexp.MustCompile(`(^|[\s,<>=!~^|])((?:[A-Za-z0-9][\w.-]*/)+)`)

// constraintOf reads a range. A version alone is none: it is the name of a tag.
// As Argo CD documents, the tags may be in a folder, and then all parts of the
// range name it.
func constraintOf(text string) *constraint {
	prefix := ""
	if found := prefixed.FindAllStringSubmatch(text, -1); len(found) > 0 {
		prefix = found[0][2]
		for _, other := range found {
			if other[2] != prefix {
				return nil
			}
		}
		text = prefixed.ReplaceAllString(text, "$1")
	}
	if _, err := semver.NewVersion(text); err == nil {
		return nil
	}
	parsed, err := semver.NewConstraint(text)
	if err != nil {
		return nil
	}
	return &constraint{prefix: prefix, Constraints: parsed}
}

// best is the name of the highest version that is in the range. Tags that are
// no versions are skipped, so that a repository can have both.
func (c *constraint) best(names func(yield func(string) bool)) (string, bool) {
	var highest *semver.Version
	best := ""
	for name := range names {
		text, found := strings.CutPrefix(name, c.prefix)
		if !found {
			continue
		}
		version, err := semver.NewVersion(text)
		if err != nil || !c.Check(version) {
			continue
		}
		// Of v1.0.0 and 1.0.0 the choice is always the same.
		if highest == nil || version.GreaterThan(highest) || (version.Equal(highest) && name < best) {
			highest, best = version, name
		}
	}
	return best, highest != nil
}

// Where refs of the two kinds are.
const (
	heads = "refs/heads/"
	tags  = "refs/tags/"
)

// findRevision resolves a revision in Argo CD's order: a range of versions
// selects among the tags; otherwise it is a ref by its full or short name;
// otherwise the beginning of a commit's id. Where a branch and a tag have the
// name and differ, Argo CD takes either one; here it is an error, because which
// one is deployed must not depend on chance. With a prefix of tags, versions and
// ranges are about the tags that begin with it, and about no others.
func findRevision(revision, tagPrefix string, refs map[string]remote.ID) (target, *Error) {
	revision = cmp.Or(revision, "HEAD")
	if reason := checkRevision(revision); reason != "" {
		return target{}, errorf(Invalid, "", "the revision %q %s: write a branch, a tag, a commit or a range of versions", revision, reason)
	}
	if id, ok := remote.ParseID(strings.ToLower(revision)); ok {
		return target{id: id}, nil
	}
	ranged := constraintOf(revision)
	if _, err := semver.NewVersion(revision); err == nil {
		revision = tagPrefix + revision
	}
	if ranged != nil {
		ranged.prefix = tagPrefix + ranged.prefix
		if tag, found := ranged.best(tagNames(refs)); found {
			return target{id: refs[tags+tag]}, nil
		}
	}
	for _, name := range []string{revision, "refs/" + revision} {
		if id, found := refs[name]; found && (name == "HEAD" || strings.HasPrefix(name, "refs/")) {
			return target{id: id}, nil
		}
	}
	branch, isBranch := refs[heads+revision]
	tag, isTag := refs[tags+revision]
	switch {
	case isBranch && isTag && branch != tag:
		return target{}, errorf(Ambiguous, "", "there is a branch and a tag %s, of different commits: write refs/heads/%s or refs/tags/%s", revision, revision, revision)
	case isBranch:
		return target{id: branch}, nil
	case isTag:
		return target{id: tag}, nil
	case isAbbreviation(revision):
		return target{prefix: strings.ToLower(revision)}, nil
	case ranged != nil && tagPrefix != "":
		return target{}, errorf(NotFound, "", "no tag that begins with %q is in the range %q: %d tags are there", tagPrefix, revision, countTags(refs))
	case ranged != nil:
		return target{}, errorf(NotFound, "", "no tag is in the range %q: %d tags are there", revision, countTags(refs))
	case revision == "HEAD":
		return target{}, errorf(NotFound, "", "it is empty, or its HEAD names a branch that is not there: push something, or name a branch")
	}
	return target{}, errorf(NotFound, "", "there is no branch, tag or commit %q: was it deleted?", revision)
}

// tagNames iterates over the names of tags without their prefix.
func tagNames(refs map[string]remote.ID) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for ref := range refs {
			if name, isTag := strings.CutPrefix(ref, tags); isTag && !yield(name) {
				return
			}
		}
	}
}

// countTags is the number of tags, for error messages.
func countTags(refs map[string]remote.ID) (n int) {
	for range tagNames(refs) {
		n++
	}
	return n
}

// isAbbreviation reports whether a text can be the beginning of an id. Seven
// digits is Argo CD's minimum.
func isAbbreviation(text string) bool {
	return len(text) >= 7 && len(text) < 40 && strings.Trim(strings.ToLower(text), "0123456789abcdef") == ""
}
