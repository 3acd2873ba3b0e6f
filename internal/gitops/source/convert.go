package source

import (
	"context"
	"errors"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/source/objects"
	"slipway.dev/slipway/internal/gitops/source/remote"
)

// toError converts the errors of the packages below into an *Error, in one
// place, so that the kind of an error decides about retries and not its text.
// name is the redacted address; it is added where an error has none. The order
// matters: an *Error of a callback can wrap any of the others, and a timeout
// can look like damage.
func toError(err error, name string) error {
	var done *Error
	var failure *remote.Failure
	var large *objects.TooLarge
	var refused *refusal.Refusal
	switch {
	case errors.As(err, &done):
		if done.Repository != "" {
			return done
		}
		named := *done
		named.Repository = name
		return &named
	case errors.As(err, &failure):
		return &Error{Kind: kindOfReason(failure.Reason), Repository: name, Message: failure.Message, Err: failure}
	case errors.As(err, &large):
		return &Error{Kind: Refused, Repository: name, Message: "it is too large: " + large.Error() + ": raise the limit, or use a smaller repository", Err: err}
	case errors.As(err, &refused):
		return &Error{Kind: Refused, Repository: name, Message: refused.Error(), Err: err}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &Error{Kind: Unreachable, Repository: name, Message: "no response in time", Err: err}
	case errors.Is(err, errNoCommit):
		return &Error{Kind: Invalid, Repository: name, Message: "the revision names no commit, but a file or a folder: write a branch, a tag or a commit", Err: err}
	// The folder is replaced by the next fetch, so that a retry can succeed.
	case errors.Is(err, objects.ErrCorrupt), errors.Is(err, objects.ErrMissing), errors.Is(err, objects.ErrBase):
		return &Error{Kind: Unreachable, Repository: name, Message: "what was fetched is damaged and is fetched again: " + err.Error(), Err: err}
	}
	return &Error{Kind: Unreachable, Repository: name, Message: "it cannot be kept on the disk: " + err.Error(), Err: err}
}

// kindOfReason maps the reason of a failed exchange. An unknown reason is
// retried.
func kindOfReason(reason remote.Reason) ErrorKind {
	switch reason {
	case remote.Denied:
		return Denied
	case remote.Missing:
		return NotFound
	case remote.TooLarge:
		return Refused
	case remote.Invalid:
		return Invalid
	}
	return Unreachable
}

// cleanPath is a path of a source in the form that Stores have. As in Argo CD,
// "." is the root and an absolute path is wrong. The reason is a verb phrase
// for the message of the caller; it is empty for a valid path. Links are not
// resolved here: the tree does that with its own bounds.
func cleanPath(path string) (clean, reason string) {
	if strings.HasPrefix(path, "/") {
		return "", "is absolute"
	}
	if strings.ContainsAny(path, "\x00\\") {
		return "", "has a character in it that no folder has"
	}
	var elements []string
	for element := range strings.SplitSeq(path, "/") {
		switch element {
		case "", ".":
		case "..":
			if len(elements) == 0 {
				return "", "leaves the repository"
			}
			elements = elements[:len(elements)-1]
		default:
			elements = append(elements, element)
		}
	}
	return strings.Join(elements, "/"), ""
}
