package appproxy

import (
	"context"
	"errors"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// maxCheckers bounds the runs of checks at a time, because they connect to
// external hosts.
const maxCheckers = 2

// installedChecks lists the checks that a runtime can run for itself. The
// others are about the machine and the user that install it.
func installedChecks() []preflight.Code {
	return []preflight.Code{
		preflight.KubernetesVersion, preflight.NodeSize, preflight.RuntimeName, preflight.NamespaceName,
		preflight.IngressClass, preflight.ExternalAddress, preflight.TLSCertificate, preflight.TCP, preflight.StatusReport,
		preflight.URLResponse, preflight.RouteResources, preflight.DNS,
		preflight.GitCredentials, preflight.GitScopes, preflight.GitExpiry, preflight.SharedRepository, preflight.GitTLS, preflight.Egress,
	}
}

// Preflight runs the checks of an installed runtime with the agent's rights,
// and streams each result as soon as it exists.
func (s *Service) Preflight(ctx context.Context, request *connect.Request[runtimev1.PreflightRequest], stream *connect.ServerStream[runtimev1.PreflightResponse]) error {
	if s.options.Preflight == nil {
		return connect.NewError(connect.CodeFailedPrecondition, errors.New("this runtime does not know how it is reached, and cannot check it"))
	}
	select {
	case s.checking <- struct{}{}:
		defer func() { <-s.checking }()
	default:
		return connect.NewError(connect.CodeResourceExhausted, errors.New("the checks of this runtime are running: try again in a minute"))
	}
	// The input is collected for each run: settings may have changed.
	world, options, err := s.options.Preflight(ctx)
	if err != nil {
		return connect.NewError(connect.CodeUnavailable, err)
	}
	if options.Only, err = chosenChecks(request.Msg.GetOnly(), world, options); err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	if len(options.Only) == 0 {
		return nil
	}
	options.Stage = preflight.After
	running, stop := context.WithCancel(ctx)
	defer stop()
	var sending error
	options.Found = func(result preflight.Result) {
		if sending != nil || running.Err() != nil {
			return
		}
		if sending = stream.Send(resultMessage(result, len(options.Only))); sending != nil {
			stop() // the client is gone
		}
	}
	preflight.Run(running, world, options)
	if ctx.Err() != nil {
		return s.streamEnd(ctx)
	}
	return sending
}

// chosenChecks returns the requested checks that can run now, or all of those
// without a request. Checks that need a Git token are left out until there is
// one: setting it is a step of the installation, and no finding.
func chosenChecks(requested []string, world preflight.World, options preflight.Options) ([]preflight.Code, error) {
	possible := slices.DeleteFunc(installedChecks(), func(code preflight.Code) bool {
		switch code {
		case preflight.GitCredentials, preflight.GitScopes, preflight.GitExpiry:
			return world.GitProvider == nil
		case preflight.SharedRepository, preflight.GitTLS:
			return options.Git.Repository == ""
		}
		return false
	})
	if len(requested) == 0 {
		return possible, nil
	}
	var wanted []preflight.Code
	for _, word := range requested {
		code, err := preflight.ParseCode(word)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, code)
	}
	return slices.DeleteFunc(possible, func(code preflight.Code) bool { return !slices.Contains(wanted, code) }), nil
}

// resultMessage converts a result to its message.
func resultMessage(result preflight.Result, total int) *runtimev1.PreflightResponse {
	message := &runtimev1.PreflightResponse{
		Code: string(result.Code), Name: result.Name, State: string(result.State),
		Looked: valid(result.Looked), Reason: valid(result.Message), Total: int32(total), // #nosec G115 -- at most 27
	}
	for _, finding := range result.Findings {
		message.Findings = append(message.Findings, &runtimev1.PreflightFinding{
			Severity: string(finding.Severity), Subject: valid(finding.Subject), Message: valid(finding.Message), Fix: valid(finding.Fix),
		})
	}
	return message
}

// valid replaces invalid UTF-8, which protobuf refuses. Some texts come from
// other servers.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
