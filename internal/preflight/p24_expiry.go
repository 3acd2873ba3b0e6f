package preflight

import (
	"context"
	"fmt"
)

// checkGitExpiry is P24: the token is valid for more than two weeks (R16).
func checkGitExpiry(_ context.Context, in *CheckContext, out *Report) {
	report, known := in.tokenReport(out)
	if !known {
		return
	}
	now := in.Now()
	out.inspect("when the token ends: %s", report.Expiry(now))
	// Tokens without a known expiry pass.
	days, ends := report.DaysLeft(now)
	switch {
	case ends && !report.ExpiresAt.After(now):
		out.fail("Git token", "it has expired", "create a new one")
	case ends && report.ExpiresAt.Sub(now) < expirySoon:
		out.warn("Git token", fmt.Sprintf("it expires in %d days", days), "create one with a longer lifetime, and set it before then: slipway integration git set-runtime-token")
	}
}
