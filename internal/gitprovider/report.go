package gitprovider

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// TokenKind is what sort of token it is.
type TokenKind string

// The sorts of tokens.
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

// Missing is something that the token must be allowed and is not.
type Missing struct {
	// Name is the provider's own: admin:repo_hook, Webhooks: Read and write, api.
	Name string
	// Why says what it is needed for, or what the provider answered.
	Why string
	// Where says where it is set.
	Where string
}

// TokenReport is what is known of a token. Nothing in it is secret.
type TokenReport struct {
	// Login is the user's name at the provider; empty for tokens of nobody.
	Login string
	Kind  TokenKind

	// ExpiresAt is when the token stops working. When it is zero, NeverExpires
	// tells a token without an end from one whose end is not known.
	ExpiresAt    time.Time
	NeverExpires bool

	// Scopes are what the provider says the token has, sorted.
	Scopes []string

	// Missing is what the purpose needs and the token lacks.
	Missing []Missing

	// Unverified is what no documented call can tell, each a sentence.
	Unverified []string
}

// OK reports whether nothing is known to be missing.
func (r TokenReport) OK() bool { return len(r.Missing) == 0 }

// MissingNames are the names of what is missing.
func (r TokenReport) MissingNames() []string {
	var names []string
	for _, missing := range r.Missing {
		names = append(names, missing.Name)
	}
	return names
}

// DaysLeft is the number of whole days until the token expires, negative when
// it has; false when it does not expire or the end is not known.
func (r TokenReport) DaysLeft(now time.Time) (int, bool) {
	if r.ExpiresAt.IsZero() {
		return 0, false
	}
	left := r.ExpiresAt.Sub(now)
	if left < 0 {
		return -1 - int(-left/(24*time.Hour)), true
	}
	return int(left / (24 * time.Hour)), true
}

// Expiry is when the token ends, in a sentence.
func (r TokenReport) Expiry(now time.Time) string {
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

// Message is the report in one line: what is missing first.
func (r TokenReport) Message(now time.Time) string {
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

// lack adds something that is missing.
func (r *TokenReport) lack(name, why, where string) {
	r.Missing = append(r.Missing, Missing{Name: name, Why: why, Where: where})
}

// unsure adds something that could not be checked.
func (r *TokenReport) unsure(format string, args ...any) {
	r.Unverified = append(r.Unverified, fmt.Sprintf(format, args...))
}

// TokenState is a token in one word, as lists show it.
type TokenState string

// The states of a token.
const (
	StateOK           TokenState = "ok"
	StateExpired      TokenState = "expired"
	StateRevoked      TokenState = "revoked"
	StateInsufficient TokenState = "insufficient"
	// StateUnknown: the provider could not be asked, or does not say.
	StateUnknown TokenState = "unknown"
)

// StateOf turns what Check returned into a state (R114). Providers that answer
// an expired and a revoked token alike give revoked: the remedy is the same.
func StateOf(report TokenReport, err error, now time.Time) TokenState {
	refused, _ := errors.AsType[*Error](err)
	switch {
	case refused != nil && refused.Token != "":
		return refused.Token
	case refused != nil && refused.Kind == Denied:
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
