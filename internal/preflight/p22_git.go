package preflight

import (
	"context"
	"errors"

	"slipway.dev/slipway/internal/gitprovider"
)

// tokenReport returns the provider's report about the token; false if there
// is no token or the check failed, which P22 reports.
func (in *CheckContext) tokenReport(out *Report) (gitprovider.TokenReport, bool) {
	// Checks of the token are optional: it can be set after the installation.
	if in.GitProvider == nil {
		out.skip("no Git token is given (--git-token-file)")
		return gitprovider.TokenReport{}, false
	}
	// The result is shared with P23 and P24, so the provider is queried once.
	report, err := in.token()
	if err != nil {
		out.skip("the token could not be checked: see P22")
		return gitprovider.TokenReport{}, false
	}
	return report, true
}

// checkGitCredentials is P22: the provider accepts the token of the runtime
// (R37).
func checkGitCredentials(_ context.Context, in *CheckContext, out *Report) {
	if in.GitProvider == nil {
		out.skip("no Git token is given (--git-token-file)")
		return
	}
	out.inspect("who the token is, at its provider")
	report, err := in.token()
	var reported *gitprovider.Error
	switch {
	case errors.As(err, &reported) && reported.Kind == gitprovider.Denied:
		out.fail("Git token", reported.Error(), "create a new one: docs/git-providers.md lists the permissions")
	case errors.As(err, &reported) && reported.Kind == gitprovider.Certificate:
		out.fail("Git provider", reported.Error(), "see P26")
	case err != nil:
		out.fail("Git provider", err.Error(), "check that this machine reaches it, and the API URL")
	default:
		out.inspect("it is %s, a %s token", report.Login, report.Kind)
	}
}
