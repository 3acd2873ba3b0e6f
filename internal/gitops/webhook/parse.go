package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// Event is the content of a request.
type Event struct {
	Provider Provider
	// Name is what the host calls it.
	Name string
	// Ping is set for a connection test of the host.
	Ping bool
	// Pushes are the pushed branches and tags, or a changed pull request. A request
	// can contain several.
	Pushes []Push
	// Ignored is the reason why there is nothing to do; empty otherwise.
	Ignored string
}

// Parse reads an authenticated request. The body is the bytes that were
// authenticated; the body of the request is not read.
func Parse(r *http.Request, body []byte) (Event, error) {
	provider, name, ok := detect(r.Header)
	if !ok {
		return Event{}, errUnknownSender
	}
	event := Event{Provider: provider, Name: name}
	body, err := payload(r.Header, body)
	if err != nil {
		return event, err
	}
	var read func(Provider, []byte) ([]Push, error)
	switch provider {
	case GitHub, GitHubEnterprise, Gitea:
		event.Ping = name == "ping"
		switch name {
		case "push":
			read = readGitHub
		case "pull_request":
			read = readGitHubPullRequest
		}
	case GitLab:
		if name == "Push Hook" || name == "Tag Push Hook" || name == "Merge Request Hook" || name == "System Hook" {
			read = readGitLab
		}
	case BitbucketCloud:
		if name == "repo:push" || isPullRequest("pullrequest:", name) {
			read = readBitbucketCloud
		}
	case BitbucketServer:
		event.Ping = name == pingOfBitbucketServer
		switch {
		case name == "repo:refs_changed":
			read = readBitbucketServer
		case isPullRequest("pr:", name):
			read = readBitbucketServerPullRequest
		}
	}
	switch {
	case event.Ping:
		return event, nil
	case read == nil:
		event.Ignored = fmt.Sprintf("only pushes and pull requests are of interest, and this is %q", shortened(name))
		return event, nil
	}
	event.Pushes, err = read(provider, body)
	if err == nil && len(event.Pushes) == 0 {
		event.Ignored = "it names no branch or tag"
	}
	return event, err
}

// isPullRequest reports whether an event of Bitbucket is about a pull request
// itself. Comments do not change what a set lists.
func isPullRequest(prefix, name string) bool {
	return strings.HasPrefix(name, prefix) && !strings.Contains(name, "comment")
}

// errUnknownSender is returned for a request without the headers of a supported
// host.
var errUnknownSender = errors.New("it is not from a Git host that is known: GitHub, GitLab, Bitbucket or Gitea")

// payload extracts the JSON of a form, which GitHub and Gitea can be configured
// to send.
func payload(header http.Header, body []byte) ([]byte, error) {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return body, nil
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, errors.New("the form cannot be read")
	}
	return []byte(form.Get("payload")), nil
}

// decode parses JSON. The body is bounded and authenticated before.
func decode(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the body cannot be read as JSON of a push: %s", shortened(err.Error()))
	}
	return nil
}

// newPush checks the fields that all hosts send. A commit of zeros is none.
// Before or After is empty for a created or deleted ref.
func newPush(push Push) (Push, error) {
	if !isName(push.Ref) || !strings.HasPrefix(push.Ref, "refs/") {
		return Push{}, fmt.Errorf("the ref is %q", shortened(push.Ref))
	}
	for _, hash := range []*string{&push.Before, &push.After} {
		if strings.Trim(*hash, "0") == "" {
			*hash = ""
		}
		if !isHash(*hash) {
			return Push{}, fmt.Errorf("a commit is %q", shortened(*hash))
		}
	}
	return push, push.checkRepository()
}

// newPullRequest checks a change of a pull request.
func newPullRequest(push Push) ([]Push, error) {
	push.PullRequest = true
	if err := push.checkRepository(); err != nil {
		return nil, err
	}
	return []Push{push}, nil
}

// checkRepository is an error for a request that names no repository.
func (p Push) checkRepository() error {
	if len(p.RepositoryURLs) == 0 && !isName(p.Repository) {
		return errors.New("it names no repository")
	}
	return nil
}

// isHash reports whether a text is a commit id, of SHA-1 or SHA-256.
func isHash(text string) bool {
	return text == "" || len(text) >= 7 && len(text) <= 64 && strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

// shortened bounds a text of the sender for messages.
func shortened(text string) string { return refusal.Shorten(text, 128) }
