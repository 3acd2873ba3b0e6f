package gitprovider

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// TokenKind is the type of a token.
type TokenKind string

// Types of tokens.
const (
	ClassicToken      TokenKind = "classic"      // GitHub personal access token (classic)
	FineGrainedToken  TokenKind = "fine-grained" // GitHub fine-grained personal access token
	AppUserToken      TokenKind = "app-user"     // GitHub App, on behalf of a user
	InstallationToken TokenKind = "installation" // GitHub App installation
	OAuthToken        TokenKind = "oauth"
	PersonalToken     TokenKind = "personal" // GitLab
	GroupToken        TokenKind = "group"    // GitLab
	ProjectToken      TokenKind = "project"  // GitLab
	ServiceToken      TokenKind = "service-account"
	APIToken          TokenKind = "api-token"    // Bitbucket Cloud, with the account's email
	AppPassword       TokenKind = "app-password" // Bitbucket Cloud, with the user name
	AccessToken       TokenKind = "access-token" // Bitbucket: of a repository, project or workspace; HTTP access token of Bitbucket Server
	UnknownToken      TokenKind = "unknown"
)

// Missing is a permission that the token lacks.
type Missing struct {
	// Name is the provider's name: admin:repo_hook, Webhooks: Read and write,
	// api.
	Name string
	// Why is the purpose of the permission, or the provider's error.
	Why string
	// Where is the page on which it is set.
	Where string
}

// TokenReport is the result of checking a token. It contains no secrets.
type TokenReport struct {
	// Login is the user's name at the provider; empty for tokens without a
	// user.
	Login string
	Kind  TokenKind

	// ExpiresAt is when the token expires. If it is zero, NeverExpires
	// distinguishes a token without expiry from an unknown one.
	ExpiresAt    time.Time
	NeverExpires bool

	// Scopes are the scopes that the provider reports, sorted.
	Scopes []string

	// Missing are the permissions that the purpose needs and the token lacks.
	Missing []Missing

	// Unverified lists what no documented call reveals, as sentences.
	Unverified []string
}

// OK reports whether no permission is known to be missing.
func (r TokenReport) OK() bool { return len(r.Missing) == 0 }

// MissingNames returns the names of the missing permissions.
func (r TokenReport) MissingNames() []string {
	var names []string
	for _, missing := range r.Missing {
		names = append(names, missing.Name)
	}
	return names
}

// DaysLeft returns the number of whole days until the token expires, negative
// after it; false if it does not expire or the expiry is unknown.
func (r TokenReport) DaysLeft(now time.Time) (int, bool) {
	if r.ExpiresAt.IsZero() {
		return 0, false
	}
	// A partial day that has passed counts as -1, so that 0 always means
	// today.
	left := r.ExpiresAt.Sub(now)
	if left < 0 {
		return -1 - int(-left/(24*time.Hour)), true
	}
	return int(left / (24 * time.Hour)), true
}

// Expiry returns the expiry as a phrase.
func (r TokenReport) Expiry(now time.Time) string {
	// Dates are in UTC, so that messages are the same everywhere.
	days, known := r.DaysLeft(now)
	date := r.ExpiresAt.UTC().Format("2006-01-02 15:04 UTC")
	switch {
	case r.NeverExpires:
		return "does not expire"
	case !known:
		return "expiry not known"
	case days < 0:
		return "expired at " + date
	case days == 0:
		return "expires today, at " + date
	case days == 1:
		return "expires in 1 day, at " + date
	}
	return fmt.Sprintf("expires in %d days, at %s", days, date)
}

// Message returns the report in one line, missing permissions first.
func (r TokenReport) Message(now time.Time) string {
	// Missing permissions come first: they need an action.
	var parts []string
	for _, missing := range r.Missing {
		part := "missing " + missing.Name
		if missing.Why != "" {
			part += " (" + missing.Why + ")"
		}
		if missing.Where != "" {
			part += ": set it at " + missing.Where
		}
		parts = append(parts, part)
	}
	parts = append(parts, r.Expiry(now))
	if len(r.Unverified) > 0 {
		parts = append(parts, "not verified: "+strings.Join(r.Unverified, "; "))
	}
	return strings.Join(parts, "; ")
}

// addMissing adds a missing permission.
func (r *TokenReport) addMissing(name, why, where string) {
	r.Missing = append(r.Missing, Missing{Name: name, Why: why, Where: where})
}

// addUnverified adds a property that could not be checked.
func (r *TokenReport) addUnverified(format string, args ...any) {
	r.Unverified = append(r.Unverified, fmt.Sprintf(format, args...))
}

// TokenState is the state of a token in one word, for lists.
type TokenState string

// States of a token.
const (
	StateOK           TokenState = "ok"
	StateExpired      TokenState = "expired"
	StateRevoked      TokenState = "revoked"
	StateInsufficient TokenState = "insufficient"
	// StateUnknown: the provider is unreachable, or does not report it.
	StateUnknown TokenState = "unknown"
)

// StateOf converts the result of Check to a state (R114). Providers that
// return the same error for expired and revoked tokens result in revoked: the
// fix is the same.
func StateOf(report TokenReport, err error, now time.Time) TokenState {
	// Errors are classified before the report, which is empty then.
	responseError, _ := errors.AsType[*Error](err)
	switch {
	case responseError != nil && responseError.Token != "":
		return responseError.Token
	case responseError != nil && responseError.Kind == Denied:
		return StateInsufficient
	case err != nil:
		return StateUnknown
	case !report.ExpiresAt.IsZero() && !now.Before(report.ExpiresAt):
		return StateExpired
	case !report.OK():
		return StateInsufficient
	}
	return StateOK
}
