package preflight

import (
	"context"

	"slipway.dev/slipway/api/finding"
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
		out.warn("Git token", "it expires in "+finding.Count(days, "day", "days"), "create one with a longer lifetime, and set it before then: slipway integration git set-runtime-token --token-file FILE")
	}
}
