package preflight

import (
	"context"
	"fmt"

	"slipway.dev/slipway/internal/access/mode"
)

// checkAccountMatch is P12: the account in the values is the account of the
// key (R34).
func checkAccountMatch(_ context.Context, in *CheckContext, out *Report) {
	// Both the platform and an account ID are needed for the comparison.
	if in.Platform == nil {
		out.skip("no platform is chosen: run slipway login URL")
		return
	}
	if in.Settings.AccountID == "" {
		out.skip("no account is given: the platform knows it from the key")
		return
	}
	out.inspect("the account %s and that of the key at %s", in.Settings.AccountID, in.Platform.URL)
	me, err := in.me()
	if err != nil {
		out.platformFailed(err)
		return
	}
	if account := me.GetAccount(); account.GetId() != in.Settings.AccountID {
		out.fail(mode.KeyAccountID, fmt.Sprintf("%s is not the account of the key, which is %s (%s)", in.Settings.AccountID, account.GetId(), account.GetName()),
			"write "+account.GetId()+", or use a key of the other account")
	}
}
