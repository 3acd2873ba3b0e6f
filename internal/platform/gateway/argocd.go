package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/argocd"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

const (
	// argoTokenHeader is where the argocd command sends its token.
	argoTokenHeader = "Token"
	// argoGet is the one procedure that reads, or changes something: it can
	// request a refresh.
	argoGet = "/application.ApplicationService/Get"
)

// argoRequest is a request of Argo CD's API.
type argoRequest struct {
	procedure *argocd.Procedure
	// values are the fields in the path of a request in REST.
	values map[string]string
	rest   bool
}

// identifyArgo finds the procedure of a request, and puts the token of the argocd
// command where keys are. What is not served is refused before a credential is
// needed, so that argocd login shows what to do instead.
func (q *request) identifyArgo(r *http.Request) error {
	path := q.path[len(wire.ArgoCDPath)-1:]
	found, values := argocd.Find(r.Method, path)
	if found == nil {
		return connect.NewError(connect.CodeUnimplemented, errors.New(argocd.Unserved(r.Method, path)))
	}
	q.argo = &argoRequest{procedure: found, values: values, rest: path != found.Name}
	q.procedure = found.Name
	if tokens := r.Header.Values(argoTokenHeader); len(tokens) == 1 && r.Header.Get("Authorization") == "" {
		r.Header.Set("Authorization", "Bearer "+tokens[0])
	}
	return nil
}

// authorise accepts keys only: GET requests have effects here, and a page of
// another site can send them with the cookie of its visitor.
func (a *argoRequest) authorise(caller identity.Caller, upgrade bool) error {
	switch {
	case upgrade:
		return statusError{http.StatusMethodNotAllowed, "Argo CD's API has no WebSockets here"}
	case caller.Key == nil:
		return &identity.DeniedError{Code: connect.CodeUnauthenticated, Reason: "Argo CD's API takes API keys and no sessions: pass a key with --auth-token, ARGOCD_AUTH_TOKEN or the Authorization header"}
	}
	return nil
}

// decode returns the message of a request, or nil.
func (q *request) decode(with *decoder, r *http.Request, body []byte) proto.Message {
	if q.argo == nil || !q.argo.rest {
		return with.request(r, body)
	}
	message, err := q.argo.procedure.FromREST(q.argo.values, r.URL.Query(), body)
	if err != nil {
		return nil
	}
	return message
}

// changes reports whether a decoded request changes something. A refresh that Get
// requests needs what a sync needs, and is audited by its own name.
func (q *request) changes(ctx context.Context, message proto.Message) (bool, error) {
	if q.procedure != argoGet {
		return true, nil
	}
	if text(message.ProtoReflect(), "refresh") == "" {
		return false, nil
	}
	q.procedure, q.rule = runtimev1connect.ApplicationServiceRefreshProcedure, permission.Sync.Rule()
	if err := q.authoriseRule(ctx); err != nil {
		return false, err
	}
	return true, q.authoriseVerb(ctx)
}

// resultOfREST returns outcome and code of a change in REST.
func resultOfREST(status int, complete bool) (outcome, code string) {
	switch {
	case !complete:
		return identity.OutcomeUnknown, connect.CodeUnknown.String()
	case status == http.StatusOK:
		return identity.OutcomeOK, identity.CodeOK
	case status == http.StatusForbidden:
		return identity.OutcomeDenied, connect.CodePermissionDenied.String()
	}
	return identity.OutcomeFailed, strings.ToLower(strings.ReplaceAll(http.StatusText(status), " ", "_"))
}
