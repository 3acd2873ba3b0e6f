package service

import (
	"cmp"
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway.dev/slipway/internal/gitops/githubapp"
	"slipway.dev/slipway/internal/secret"
)

// githubOptions are those of a GitHub App.
type githubOptions struct {
	AppID             json.Number `json:"appID"`
	InstallationID    json.Number `json:"installationID"`
	PrivateKey        string      `json:"privateKey"`
	EnterpriseBaseURL string      `json:"enterpriseBaseURL"`
	httpOptions
}

// github writes statuses, deployments and comments as a GitHub App.
type github struct {
	options githubOptions
	key     *rsa.PrivateKey
	hosts   []string
	api     *api

	mu      sync.Mutex
	token   string
	expires time.Time
}

// tokenMargin is how long before its end a token is replaced.
const tokenMargin = 5 * time.Minute

func newGitHub(options decoder, clients *Clients) (Service, error) {
	g := &github{hosts: []string{"github.com", "ssh.github.com", "www.github.com"}}
	if err := options(&g.options); err != nil {
		return nil, err
	}
	for name, value := range map[string]json.Number{"appID": g.options.AppID, "installationID": g.options.InstallationID} {
		if _, err := strconv.ParseUint(value.String(), 10, 63); err != nil {
			return nil, fmt.Errorf("the option %s has to be a number", name)
		}
	}
	var err error
	if g.key, err = githubapp.ParseKey(secret.New(g.options.PrivateKey)); err != nil {
		return nil, fmt.Errorf("the option privateKey is %w", err)
	}
	at := "https://api.github.com"
	if base := strings.TrimRight(g.options.EnterpriseBaseURL, "/"); base != "" {
		if err := checkAddress("enterpriseBaseURL", base); err != nil {
			return nil, err
		}
		at = base
		if !strings.HasSuffix(at, "/api/v3") {
			at += "/api/v3"
		}
		parsed, err := url.Parse(base)
		if err != nil {
			return nil, errors.New("the option enterpriseBaseURL is no address")
		}
		g.hosts = []string{parsed.Hostname(), strings.TrimPrefix(parsed.Hostname(), "api.")}
	}
	g.api = &api{address: at, client: clients.of(g.options.httpOptions), authorize: g.authorize}
	return g, nil
}

// authorize sets the token of the installation, and requests one if there is none.
func (g *github) authorize(ctx context.Context, header http.Header) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Until(g.expires) < tokenMargin {
		signed, err := githubapp.Sign(g.options.AppID.String(), g.key, time.Now())
		if err != nil {
			return err
		}
		asApp := &api{address: g.api.address, client: g.api.client, authorize: func(_ context.Context, header http.Header) error {
			header.Set("Authorization", "Bearer "+signed)
			setGitHubHeaders(header)
			return nil
		}}
		var issued struct {
			Token   string    `json:"token"`
			Expires time.Time `json:"expires_at"`
		}
		if err := asApp.call(ctx, http.MethodPost, "/app/installations/"+g.options.InstallationID.String()+"/access_tokens", struct{}{}, &issued); err != nil {
			return fmt.Errorf("get a token of the GitHub App: %w", err)
		}
		g.token, g.expires = issued.Token, issued.Expires
	}
	header.Set("Authorization", "Bearer "+g.token)
	setGitHubHeaders(header)
	return nil
}

// setGitHubHeaders names the version of the API that the requests are for.
func setGitHubHeaders(header http.Header) {
	header.Set("Accept", "application/vnd.github+json")
	header.Set("X-GitHub-Api-Version", "2022-11-28")
}

// Send writes what the section has: a status, a deployment, comments.
func (g *github) Send(ctx context.Context, message Message) error {
	own := gitSection{}
	path, err := own.target(&message, "github", g.hosts)
	if err != nil {
		return err
	}
	parts := strings.Split(path, "/")
	if len(parts) < 2 {
		return permanent("%q is no repository of GitHub", path)
	}
	at := "/repos/" + url.PathEscape(parts[0]) + "/" + url.PathEscape(parts[1])
	if own.Status != nil {
		if err := g.status(ctx, at, &own, &message); err != nil {
			return err
		}
	}
	if own.Deployment != nil {
		if err := g.deploy(ctx, at, &own, &message); err != nil {
			return err
		}
	}
	if own.PullRequestComment != nil {
		return g.comment(ctx, at, &own, &message)
	}
	return nil
}

// status writes a status of the commit, unless it is the one that the commit shows: a
// process that was killed has left it there.
func (g *github) status(ctx context.Context, at string, own *gitSection, message *Message) error {
	wanted := map[string]string{
		"state": own.Status.State, "description": cut(message.Text, maxDescription), "context": own.Status.Label, "target_url": own.Status.TargetURL,
	}
	return g.append(ctx, at+"/commits/"+own.Revision+"/statuses", at+"/statuses/"+own.Revision, "context", wanted)
}

// append adds an entry to a list whose newest entry counts, unless that is the same
// already. by is the field that separates lists in one; empty for none. Only the newest is
// compared: a state that comes back after another one is news.
func (g *github) append(ctx context.Context, list, path, by string, wanted map[string]string) error {
	same := false
	err := eachOf(ctx, g.api, list, url.Values{}, func(known map[string]any) bool {
		if by != "" && known[by] != wanted[by] {
			return true
		}
		same = true
		for field, value := range wanted {
			// An empty text is null in some responses.
			text, _ := known[field].(string)
			same = same && strings.TrimSpace(text) == strings.TrimSpace(value)
		}
		return false // the newest is the first one
	})
	if err != nil || same {
		return err
	}
	return g.api.call(ctx, http.MethodPost, path, wanted, nil)
}

// deploy writes the status of a deployment, which is created if the commit has none for
// the environment.
func (g *github) deploy(ctx context.Context, at string, own *gitSection, message *Message) error {
	wanted := own.Deployment
	var id int64
	type deployment struct {
		ID int64 `json:"id"`
	}
	err := eachOf(ctx, g.api, at+"/deployments", url.Values{"sha": {own.Revision}, "environment": {wanted.Environment}}, func(newest deployment) bool {
		id = newest.ID
		return false
	})
	if err != nil {
		return err
	}
	if id == 0 {
		var created deployment
		if err := g.api.call(ctx, http.MethodPost, at+"/deployments", wanted.creation(own.Revision), &created); err != nil {
			return err
		}
		id = created.ID
	}
	statuses := fmt.Sprintf("%s/deployments/%d/statuses", at, id)
	return g.append(ctx, statuses, statuses, "", map[string]string{
		"state": wanted.State, "log_url": wanted.LogURL, "description": cut(message.Text, maxDescription), "environment": wanted.Environment,
		"environment_url": wanted.EnvironmentURL,
	})
}

// creation is the body of a request that creates the deployment of a commit.
func (d *gitDeployment) creation(revision string) map[string]any {
	body := map[string]any{
		"ref": cmp.Or(d.Reference, revision), "environment": d.Environment, "auto_merge": d.AutoMerge == nil || *d.AutoMerge,
		"transient_environment": d.TransientEnvironment != nil && *d.TransientEnvironment,
	}
	if d.RequiredContexts != nil {
		body["required_contexts"] = d.RequiredContexts
	}
	return body
}

// comment comments on the pull requests of the commit.
func (g *github) comment(ctx context.Context, at string, own *gitSection, message *Message) error {
	var pulls []struct {
		Number int64 `json:"number"`
	}
	if err := g.api.call(ctx, http.MethodGet, at+"/commits/"+own.Revision+"/pulls", nil, &pulls); err != nil {
		return err
	}
	for _, pull := range pulls {
		path := fmt.Sprintf("%s/issues/%d/comments", at, pull.Number)
		err := own.PullRequestComment.write(ctx, g.api, message, path, func(id int64) (string, string) {
			return http.MethodPatch, fmt.Sprintf("%s/issues/comments/%d", at, id)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
