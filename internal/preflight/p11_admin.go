package preflight

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/wire/platformv1"
)

func (in *Inquiry) askMe(ctx context.Context) (*platformv1.MeResponse, error) {
	answer, err := in.Platform.Auth.Me(ctx, connect.NewRequest(&platformv1.MeRequest{}))
	if err != nil {
		return nil, err
	}
	return answer.Msg, nil
}

// platformFailed tells that the platform did not answer, or not as one does.
func (r *Report) platformFailed(err error) {
	fix := "see whether this machine reaches the platform: slipway doctor"
	if connect.CodeOf(err) == connect.CodeUnauthenticated {
		fix = "sign in again: slipway login URL"
	}
	r.fail("platform", err.Error(), fix)
}

// checkAccountAdmin is P11: whoever installs a runtime is admin of the account (R32).
func checkAccountAdmin(_ context.Context, in *Inquiry, out *Report) {
	if in.Platform == nil {
		out.skip("no platform is chosen: run slipway login URL")
		return
	}
	out.look("who you are at %s", in.Platform.URL)
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
