package preflight

import (
	"context"
	"errors"

	"slipway.dev/slipway/internal/gitprovider"
)

// askedToken gives what the provider says of the token; false when there is none or
// it did not say, which P22 tells.
func (in *Inquiry) askedToken(out *Report) (gitprovider.TokenReport, bool) {
	if in.GitProvider == nil {
		out.skip("no Git token is given (--git-token-file)")
		return gitprovider.TokenReport{}, false
	}
	report, err := in.token()
	if err != nil {
		out.skip("the token could not be looked at: see P22")
		return gitprovider.TokenReport{}, false
	}
	return report, true
}

// checkGitCredentials is P22: the provider accepts the token of the runtime (R37).
func checkGitCredentials(_ context.Context, in *Inquiry, out *Report) {
	if in.GitProvider == nil {
		out.skip("no Git token is given (--git-token-file)")
		return
	}
	out.look("who the token is, at its provider")
	report, err := in.token()
	var told *gitprovider.Error
	switch {
	case errors.As(err, &told) && told.Kind == gitprovider.Denied:
		out.fail("Git token", told.Error(), "make a new one: docs/git-providers.md says what it needs")
	case errors.As(err, &told) && told.Kind == gitprovider.Certificate:
		out.fail("Git provider", told.Error(), "see P26")
	case err != nil:
		out.fail("Git provider", err.Error(), "see whether this machine reaches it, and whether the API URL is right")
	default:
		out.look("it is %s, a %s token", report.Login, report.Kind)
	}
}
