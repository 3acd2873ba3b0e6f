package router

import (
	"errors"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/argocd"
	"slipway.dev/slipway/internal/wire/permission"
)

// runtimeServices is the prefix of the procedures that a runtime serves; all others
// belong to the platform.
const runtimeServices = "/slipway.runtime."

// authorise reports whether the role of a token may call a procedure. The platform
// applies the same table; the runtime checks again, so that a compromised platform
// replica gains no rights. A procedure without a row is denied.
func authorise(_, procedure string, claims wire.RuntimeClaims) error {
	rule, known := permission.Of(procedure)
	switch {
	case !known || !strings.HasPrefix(procedure, runtimeServices):
		return connect.NewError(connect.CodeUnimplemented, errors.New("the runtime does not implement this procedure: it may be older than the client"))
	// The runtime decides about Applications when it knows which one.
	case rule.Verb == "" && !rule.Role(claims.Role):
		return connect.NewError(connect.CodePermissionDenied, errors.New(rule.Missing(claims.Role)))
	}
	return nil
}

// authoriseArgoCD is authorise for a request of Argo CD's API.
func authoriseArgoCD(method, path string, claims wire.RuntimeClaims) error {
	found, _ := argocd.Find(method, path)
	switch {
	case found == nil:
		return connect.NewError(connect.CodeUnimplemented, errors.New(argocd.Unserved(method, path)))
	case found.Rule.Verb == "" && !found.Rule.Role(claims.Role):
		return connect.NewError(connect.CodePermissionDenied, errors.New(found.Rule.Missing(claims.Role)))
	}
	return nil
}

// authorisePath is authorise for a path that is no procedure.
func authorisePath(path string, request *http.Request, claims wire.RuntimeClaims) error {
	if rule := permission.OfPath(path, request.Method, request.Header.Get("Upgrade") != ""); !rule.Role(claims.Role) {
		return connect.NewError(connect.CodePermissionDenied, errors.New(rule.Missing(claims.Role)))
	}
	return nil
}
