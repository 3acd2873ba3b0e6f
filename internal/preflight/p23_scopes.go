package preflight

import (
	"context"
	"strings"
)

// checkGitScopes is P23: the token may do what a runtime does (R16, R38), by the
// names that its provider has for it.
func checkGitScopes(_ context.Context, in *Inquiry, out *Report) {
	report, known := in.askedToken(out)
	if !known {
		return
	}
	out.look("scopes %s", shorten(report.Scopes))
	if names := report.MissingNames(); len(names) > 0 {
		out.fail("Git token", "it lacks "+strings.Join(names, ", "), "make a token that has "+strings.Join(names, ", ")+" too")
	}
	for _, sentence := range report.Unverified {
		out.note("Git token", sentence)
	}
}
