package sharedrepo

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/gitops/gitwrite"
	"slipway.dev/slipway/internal/gitops/source/objects"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/gitprovider"
)

// explained adds to an error what a user can do about it.
func explained(err error) error { return fmt.Errorf("%w%s", err, advice(err)) }

// advice returns the command that a user runs after an error of the repository;
// empty where the error names what to do already.
func advice(err error) string {
	failure, ok := errors.AsType[*remote.Failure](err)
	if _, ours := errors.AsType[gitwrite.RepositoryError](err); !ok || !ours {
		return ""
	}
	switch failure.Reason {
	case remote.Denied:
		// A certificate that is not trusted has a cause, and its own advice.
		if failure.Err != nil {
			return ""
		}
		return "; set another token of the runtime with slipway integration git set-runtime-token --token-file FILE"
	case remote.Missing:
		return "; create it there, or name another one with slipway account git reset and slipway account git set --shared-repository URL"
	case remote.Unreachable:
		return "; check that the cluster of the runtime reaches the host, then try again"
	}
	return ""
}

// ToConnectError gives an error of the repository or of its Git provider the
// code that decides whether a client retries, and what to do about it. Their
// texts are written for users and contain no credentials. Other errors are
// returned unchanged: the caller decides whether their text may be shown.
func ToConnectError(err error) error {
	var already *connect.Error
	var notReady *NotReadyError
	var rejected *remote.RejectedError
	var path *PathError
	var large *objects.TooLarge
	var failure *remote.Failure
	var provider *gitprovider.Error
	code := connect.CodeFailedPrecondition
	switch {
	case err == nil, errors.As(err, &already):
		return err
	case errors.As(err, &notReady), errors.As(err, &rejected), errors.As(err, &path), errors.As(err, &large):
	// The provider comes before the server: a repository that is missing and
	// cannot be created has both errors.
	case errors.As(err, &provider):
		// Clients retry Unavailable and show FailedPrecondition.
		if provider.Retryable() {
			code = connect.CodeUnavailable
		}
	case errors.As(err, &failure):
		if failure.Reason == remote.Unreachable {
			code = connect.CodeUnavailable
		}
	default:
		return err
	}
	return connect.NewError(code, explained(err))
}
