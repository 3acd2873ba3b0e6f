package preflight

import (
	"context"
	"fmt"
)

// checkGitExpiry is P24: the token is good for longer than two weeks (R16).
func checkGitExpiry(_ context.Context, in *Inquiry, out *Report) {
	report, known := in.askedToken(out)
	if !known {
		return
	}
	now := in.Now()
	out.look("when the token ends: %s", report.Expiry(now))
	days, ends := report.DaysLeft(now)
	switch {
	case ends && !report.ExpiresAt.After(now):
		out.fail("Git token", "it has expired", "make a new one")
	case ends && report.ExpiresAt.Sub(now) < expirySoon:
		out.warn("Git token", fmt.Sprintf("it expires in %d days", days), "make one that lasts longer, and give it to the runtime before: slipway integration git set-runtime-token")
	}
}
