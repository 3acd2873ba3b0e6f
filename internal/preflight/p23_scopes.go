package preflight

import (
	"context"
	"strings"
)

// checkGitScopes is P23: the token has the permissions of a runtime (R16,
// R38), by the provider's names.
func checkGitScopes(_ context.Context, in *CheckContext, out *Report) {
	report, known := in.tokenReport(out)
	if !known {
		return
	}
	out.inspect("scopes %s", shorten(report.Scopes))
	// All missing permissions are listed at once.
	if names := report.MissingNames(); len(names) > 0 {
		out.fail("Git token", "it lacks "+strings.Join(names, ", "), "create a token that has "+strings.Join(names, ", ")+" too")
	}
	// Unverifiable permissions are information: the token may well have them.
	for _, sentence := range report.Unverified {
		out.note("Git token", sentence)
	}
}
