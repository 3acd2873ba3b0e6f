package preflight

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// fetchMe returns the user of the API key.
func (in *CheckContext) fetchMe(ctx context.Context) (*platformv1.MeResponse, error) {
	response, err := in.Platform.Auth.Me(ctx, connect.NewRequest(&platformv1.MeRequest{}))
	if err != nil {
		return nil, err
	}
	return response.Msg, nil
}

// platformFailed reports that the platform did not respond as expected.
func (r *Report) platformFailed(err error) {
	// An expired session is the most common cause, and has another fix.
	fix := "see whether this machine reaches the platform: slipway doctor"
	if connect.CodeOf(err) == connect.CodeUnauthenticated {
		fix = "sign in again: slipway login URL"
	}
	r.fail("platform", err.Error(), fix)
}

// checkAccountAdmin is P11: the installing user is an admin of the account
// (R32).
func checkAccountAdmin(_ context.Context, in *CheckContext, out *Report) {
	if in.Platform == nil {
		out.skip("no platform is chosen: run slipway login URL")
		return
	}
	out.inspect("who you are at %s", in.Platform.URL)
	me, err := in.me()
	if err != nil {
		out.platformFailed(err)
		return
	}
	if me.GetUser().GetRole() != platformv1.Role_ROLE_ADMIN {
		out.fail(me.GetUser().GetEmail(), fmt.Sprintf("the user is no admin of the account %s", me.GetAccount().GetName()),
			"have an admin install the runtime, or have one make you admin")
	}
}
