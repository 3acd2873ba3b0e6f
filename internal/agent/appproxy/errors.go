package appproxy

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/gitwrite"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/pullrequest"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/revert"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/observe"
)

// notFound is the error for an Application that does not exist or is not
// served.
func notFound(place tracking.App) error {
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no Application %s in the namespace %s of this runtime", place.Name, place.Namespace))
}

// toConnectError maps an error to a code and a message of the API. Only errors
// that are written for users reach the client; every other one is logged and
// hidden, because it may quote what the user may not read.
func (s *Service) toConnectError(err error, place tracking.App) error {
	var connectErr *connect.Error
	var busy *inspect.BusyError
	var state *inspect.StateError
	var access *inspect.AccessError
	var fetching *source.Error
	var rendering *render.Error
	var refused refusal.Refusal
	var reverting *revert.StateError
	var writing gitwrite.RepositoryError
	var provider *gitprovider.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &connectErr):
		return err
	case errors.As(err, &busy), errors.As(err, &state):
		return connect.NewError(connect.CodeFailedPrecondition, err)
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, errors.New("the request was ended"))
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, errors.New("it took too long: try again later"))
	case errors.As(err, &access) && apierrors.IsNotFound(err):
		return notFound(place)
	// Errors of Git and of rendering, and what a sync would refuse, are written
	// for users and contain no credentials.
	case errors.As(err, &fetching), errors.As(err, &rendering), errors.As(err, &refused), errors.As(err, &reverting), errors.As(err, &writing),
		errors.As(err, &provider), errors.Is(err, pullrequest.ErrNoToken):
		return connect.NewError(connect.CodeFailedPrecondition, err)
	}
	return s.clusterError(err, place)
}

// clusterError maps an error of the API server. Unexpected ones are logged and
// replaced by a general message, because their text is not written for users
// and may contain internals.
func (s *Service) clusterError(err error, place tracking.App) error {
	switch {
	case apierrors.IsNotFound(err):
		return connect.NewError(connect.CodeNotFound, err)
	case apierrors.IsForbidden(err):
		return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("the agent may not do this in the cluster: %w", err))
	case apierrors.IsConflict(err):
		return connect.NewError(connect.CodeAborted, errors.New("others changed it at the same time: try again"))
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return connect.NewError(connect.CodeInvalidArgument, err)
	case apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err):
		return connect.NewError(connect.CodeUnavailable, errors.New("the API server of the cluster is busy: try again later"))
	}
	s.log.Error("a request failed", "application", place.String(), observe.KeyError, err)
	return connect.NewError(connect.CodeUnavailable, errors.New("the cluster returned an unexpected response: see the log of the runtime"))
}
