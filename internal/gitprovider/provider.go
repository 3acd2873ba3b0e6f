package gitprovider

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/outbound"
	"slipway.dev/slipway/internal/secret"
)

// Kind is a family of providers with the same API.
type Kind string

// The kinds. GitHub Enterprise is GitHub and self-managed GitLab is GitLab,
// each with its own API URL.
const (
	GitHub          Kind = "github"
	GitLab          Kind = "gitlab"
	Bitbucket       Kind = "bitbucket"
	BitbucketServer Kind = "bitbucket-server"
	// PlainGit is any other server: Git alone, without an API.
	PlainGit Kind = "git"
)

// kindWords lists the names of the kinds for messages.
const kindWords = "github, gitlab, bitbucket, bitbucket-server, or git for another server"

// Kinds returns the kinds that have an API, in the order of the user interface.
func Kinds() []Kind { return []Kind{GitHub, GitLab, Bitbucket, BitbucketServer} }

// ParseKind parses the name of a kind.
func ParseKind(name string) (Kind, error) {
	// Names are case-insensitive, because users type them.
	for _, kind := range append(Kinds(), PlainGit) {
		if strings.EqualFold(name, string(kind)) {
			return kind, nil
		}
	}
	return "", invalid("", "%q is not a Git provider: use %s", name, kindWords)
}

// Title returns the product name.
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
	case Gitea:
		return "Gitea"
	case AzureDevOps:
		return "Azure DevOps"
	case PlainGit:
		return "the Git server"
	}
	return "the Git provider"
}

// Options configures a [Provider].
type Options struct {
	Kind Kind

	// APIURL is the URL of the API: https://api.github.com,
	// https://<server>/api/v3, https://<server>/api/v4,
	// https://api.bitbucket.org/2.0, or https://<server> for Bitbucket
	// Server. Empty means the cloud's; Bitbucket Server requires it.
	APIURL string

	// Token is the token of the user or the runtime.
	Token secret.Text

	// Username is required by Bitbucket Cloud: the Atlassian account's email
	// for an API token, the user name for an app password, and empty for a
	// repository, project or workspace access token.
	Username string

	// Repository is the URL of the repository that the token is for, such as
	// the Shared Configuration Repository. Tokens without scopes
	// (fine-grained ones, Bitbucket Server's) are checked by reading from it.
	// Empty, or on another server: that part of the report is unverified.
	Repository string

	// CAs are PEM certificates of CAs to trust in addition to the system's.
	CAs []byte

	// Proxy selects the proxy of a request; nil means the environment.
	Proxy func(*http.Request) (*url.URL, error)

	// Outbound decides which addresses are connected to; nil allows all.
	Outbound *outbound.Policy

	// Transport sends the requests in place of one made of CAs, Proxy and Outbound;
	// nil for none.
	Transport http.RoundTripper

	// PlainHTTP allows an http:// API URL on another machine. The token is
	// then sent unencrypted.
	PlainHTTP bool

	// Timeout bounds one request with its response; 0 means 15 s.
	Timeout time.Duration

	// Now is the clock; nil means time.Now.
	Now func() time.Time

	// Responses keeps lists, so that those that did not change are not sent again;
	// nil keeps none.
	Responses *Responses

	// anonymous allows an empty token, for a Listing.
	anonymous bool
}

// Purpose is what a token is used for. It determines the required
// permissions.
type Purpose int

const (
	// RuntimeToken is the token of the runtime: it creates the Shared
	// Configuration Repository, clones, pushes, and registers webhooks (R8,
	// R16).
	RuntimeToken Purpose = iota + 1
	// UserToken is a user's token: it commits in the user's name (R17).
	UserToken
)

// String returns the purpose for messages.
func (p Purpose) String() string {
	if p == UserToken {
		return "user token"
	}
	return "runtime token"
}

// Provider is one Git provider with one token. Implementations are safe for
// concurrent use.
type Provider interface {
	// Check returns owner and permissions of the token, without side effects.
	// A token that is not accepted at all is an [Error] of kind Denied.
	Check(ctx context.Context, purpose Purpose) (TokenReport, error)

	// Repository looks up a repository.
	Repository(ctx context.Context, repoURL string) (Repository, error)

	// CreateRepository creates an empty repository; an existing one is an
	// [Error] of kind Conflict.
	CreateRepository(ctx context.Context, repoURL string, private bool) (Repository, error)

	// EnsureWebhook creates or updates the hook with this URL, and removes
	// duplicates.
	EnsureWebhook(ctx context.Context, repoURL string, hook Webhook) error

	// RemoveWebhook removes the hooks with this URL. It is idempotent.
	RemoveWebhook(ctx context.Context, repoURL, hookURL string) error
}

// Access is the permission of the token's user on a repository. The token
// itself may be more limited.
type Access string

// Levels of access, each including the previous one; AccessUnknown if the
// provider does not report it.
const (
	AccessUnknown Access = ""
	AccessRead    Access = "read"
	AccessWrite   Access = "write"
	AccessAdmin   Access = "admin"
)

// Repository is a repository at a provider.
type Repository struct {
	// Path is owner/name, with all groups of GitLab, or KEY/slug.
	Path string
	// CloneURL is the HTTPS URL.
	CloneURL string
	SSHURL   string
	WebURL   string
	// DefaultBranch is empty if the repository has no commit, or if the
	// provider needs another call to return it.
	DefaultBranch string
	Private       bool
	Archived      bool
	Access        Access
}

// Event is a type of webhook event.
type Event string

// Events that Slipway processes.
const (
	PushEvent        Event = "push"
	PullRequestEvent Event = "pull-request"
)

// Webhook is the desired configuration of a webhook.
type Webhook struct {
	// URL is the target: the runtime's address, or the platform's for the
	// tunnel.
	URL    string
	Secret secret.Text
	// Events are the events to send; empty means pushes of branches and tags.
	Events []Event
}

// wants reports whether the hook includes an event.
func (w Webhook) wants(event Event) bool {
	if len(w.Events) == 0 {
		return event == PushEvent
	}
	return slices.Contains(w.Events, event)
}

// names returns the wanted events by the provider's names for a push and for
// what happens to a pull request.
func (w Webhook) names(push string, pullRequest ...string) (names []string) {
	if w.wants(PushEvent) {
		names = append(names, push)
	}
	if w.wants(PullRequestEvent) {
		names = append(names, pullRequest...)
	}
	return names
}

// check rejects a hook with an invalid URL, and one without a secret: its
// events could not be verified.
func (w Webhook) check(kind Kind) error {
	// The URL is stored at the provider, so it must not contain credentials.
	u, err := url.Parse(w.URL)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || u.Fragment != "" {
		return invalid(kind, "the webhook's address must be a URL such as https://slipway.example.com/webhooks/<runtime>/<source>, without user and fragment")
	}
	if w.Secret.IsZero() {
		return invalid(kind, "a webhook needs a secret, otherwise its events could be forged")
	}
	for _, event := range w.Events {
		if event != PushEvent && event != PullRequestEvent {
			return invalid(kind, "unknown webhook event %q: use push or pull-request", event)
		}
	}
	return nil
}

// New returns a provider. It sends no request.
func New(options Options) (Provider, error) {
	// The client validates the options, including the kind.
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
	case PlainGit:
		return newPlainGit(client, options.Repository), nil
	// newClient has rejected unknown kinds.
	default:
		return &bitbucketServer{client: client}, nil
	}
}
