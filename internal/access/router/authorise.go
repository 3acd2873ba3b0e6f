package router

import (
	"errors"
	"strings"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
)

// runtimeServices start the procedures that a runtime has; others are the
// platform's.
const runtimeServices = "/slipway.runtime."

// authorise says whether the role of a token may call a procedure. The platform
// has asked the same table; a runtime does not have to believe it. What has no row
// is denied.
func authorise(procedure string, claims wire.RuntimeClaims) error {
	rule, known := permission.Of(procedure)
	switch {
	case !known || !strings.HasPrefix(procedure, runtimeServices):
		return connect.NewError(connect.CodeUnimplemented, errors.New("the runtime has no such procedure: it may be older than who asks"))
	case !rule.Role(claims.Role):
		return connect.NewError(connect.CodePermissionDenied, errors.New("your role may not do this: ask an admin of the account"))
	}
	return nil
}
