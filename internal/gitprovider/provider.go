package gitprovider

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"slipway.dev/slipway/internal/secret"
)

// Kind is a family of providers with one API.
type Kind string

// The kinds. GitHub Enterprise is GitHub and GitLab Server is GitLab, each with
// an API URL of its own.
const (
	GitHub          Kind = "github"
	GitLab          Kind = "gitlab"
	Bitbucket       Kind = "bitbucket"
	BitbucketServer Kind = "bitbucket-server"
)

// Kinds are all kinds, in the order in which they are offered.
func Kinds() []Kind { return []Kind{GitHub, GitLab, Bitbucket, BitbucketServer} }

// ParseKind reads the name of a kind.
func ParseKind(name string) (Kind, error) {
	for _, kind := range Kinds() {
		if strings.EqualFold(name, string(kind)) {
			return kind, nil
		}
	}
	return "", invalid("", "%q is not a Git provider: use github, gitlab, bitbucket or bitbucket-server", name)
}

// Title is the name that people know.
func (k Kind) Title() string {
	switch k {
	case GitHub:
		return "GitHub"
	case GitLab:
		return "GitLab"
	case Bitbucket:
		return "Bitbucket Cloud"
	case BitbucketServer:
		return "Bitbucket Server"
	}
	return "the Git provider"
}

// Options are what a [Provider] is made of.
type Options struct {
	Kind Kind

	// APIURL is where the API is: https://api.github.com,
	// https://<server>/api/v3, https://<server>/api/v4,
	// https://api.bitbucket.org/2.0, or https://<server> for Bitbucket Server.
	// Empty: the cloud's; Bitbucket Server has none and needs it.
	APIURL string

	// Token is what the provider made for the user or the runtime.
	Token secret.Text

	// Username is needed by Bitbucket Cloud: the Atlassian account's email for
	// an API token, the user name for an app password, and nothing for a
	// repository, project or workspace access token.
	Username string

	// Repository is the address of the repository that the token is for, as
	// the Shared Configuration Repository. Tokens without scopes of their own
	// (fine-grained ones, Bitbucket Server's) are judged by what they may do
	// there. Empty, or of another server: that part of the report is unverified.
	Repository string

	// CAs are PEM certificates of authorities to trust besides the system's.
	CAs []byte

	// Proxy chooses the proxy of a request; nil: from the environment.
	Proxy func(*http.Request) (*url.URL, error)

	// PlainHTTP lets the API URL be http:// on another machine. The token is
	// then readable on the way.
	PlainHTTP bool

	// Timeout bounds one request with its answer; 0: 15 s.
	Timeout time.Duration

	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Purpose is what a token is for, and so what it must be allowed.
type Purpose int

const (
	// RuntimeToken is the token of the runtime itself: it makes the Shared
	// Configuration Repository, clones, pushes, and registers webhooks (R8, R16).
	RuntimeToken Purpose = iota + 1
	// UserToken is one user's: it commits in the user's name (R17).
	UserToken
)

// String is the purpose in a sentence.
func (p Purpose) String() string {
	if p == UserToken {
		return "user token"
	}
	return "runtime token"
}

// Provider is one Git provider with one token.
type Provider interface {
	// Check asks who the token is and what it may do. It has no side effects.
	// A token that is not accepted at all is an [Error] of kind Denied.
	Check(ctx context.Context, purpose Purpose) (TokenReport, error)

	// Repository looks a repository up.
	Repository(ctx context.Context, repoURL string) (Repository, error)

	// CreateRepository makes an empty repository; one that exists is an [Error]
	// of kind Conflict.
	CreateRepository(ctx context.Context, repoURL string, private bool) (Repository, error)

	// EnsureWebhook makes the hook with this URL what it should be, and removes
	// further ones with the same URL.
	EnsureWebhook(ctx context.Context, repoURL string, hook Webhook) error

	// RemoveWebhook removes the hooks with this URL; none is no error.
	RemoveWebhook(ctx context.Context, repoURL, hookURL string) error
}

// Access is what the token's user may do with a repository. It says nothing
// about limits of the token itself.
type Access string

// What a user may do, each including the one before; AccessUnknown when the
// provider does not say.
const (
	AccessUnknown Access = ""
	AccessRead    Access = "read"
	AccessWrite   Access = "write"
	AccessAdmin   Access = "admin"
)

// Repository is what a provider says of a repository.
type Repository struct {
	// Path is owner/name, with all groups of GitLab, or KEY/slug.
	Path string
	// CloneURL is HTTPS.
	CloneURL string
	SSHURL   string
	WebURL   string
	// DefaultBranch is empty when the repository has no commit, or when the
	// provider needs a further call to tell.
	DefaultBranch string
	Private       bool
	Archived      bool
	Access        Access
}

// Event is something that a webhook tells.
type Event string

// The events that Slipway reads.
const (
	PushEvent        Event = "push"
	PullRequestEvent Event = "pull-request"
)

// Webhook is what a provider should send, and where to.
type Webhook struct {
	// URL is ours: the runtime's address, or the platform's for the tunnel.
	URL    string
	Secret secret.Text
	// Events are what is sent; empty: pushes, of branches and tags.
	Events []Event
}

// wants reports whether the hook sends the event.
func (w Webhook) wants(event Event) bool {
	if len(w.Events) == 0 {
		return event == PushEvent
	}
	for _, e := range w.Events {
		if e == event {
			return true
		}
	}
	return false
}

// check refuses a hook that no provider could call, or that nobody could verify.
func (w Webhook) check(kind Kind) error {
	u, err := url.Parse(w.URL)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || u.Fragment != "" {
		return invalid(kind, "the webhook's address must be a URL such as https://slipway.example.com/webhooks/<runtime>/<source>, without user and fragment")
	}
	if w.Secret.IsZero() {
		return invalid(kind, "a webhook needs a secret, or anybody could send its events")
	}
	for _, event := range w.Events {
		if event != PushEvent && event != PullRequestEvent {
			return invalid(kind, "unknown webhook event %q: use push or pull-request", event)
		}
	}
	return nil
}

// New makes a provider. It sends nothing.
func New(options Options) (Provider, error) {
	client, err := newClient(options)
	if err != nil {
		return nil, err
	}
	switch options.Kind {
	case GitHub:
		return &gitHub{client: client}, nil
	case GitLab:
		return &gitLab{client: client}, nil
	case Bitbucket:
		return &bitbucketCloud{client: client}, nil
	default:
		return &bitbucketServer{client: client}, nil
	}
}
