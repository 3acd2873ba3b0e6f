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
	header.Set("Accept", "application/vnd.github+json")
	return nil
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
		body := map[string]string{"state": own.Status.State, "description": cut(message.Text, maxDescription), "context": own.Status.Label, "target_url": own.Status.TargetURL}
		if err := g.api.call(ctx, http.MethodPost, at+"/statuses/"+own.Revision, body, nil); err != nil {
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

// deploy writes the status of a deployment, which is created if the commit has none for
// the environment.
func (g *github) deploy(ctx context.Context, at string, own *gitSection, message *Message) error {
	wanted := own.Deployment
	query := url.Values{"sha": {own.Revision}, "environment": {wanted.Environment}}
	var known []struct {
		ID int64 `json:"id"`
	}
	if err := g.api.call(ctx, http.MethodGet, at+"/deployments?"+query.Encode(), nil, &known); err != nil {
		return err
	}
	var id int64
	if len(known) > 0 {
		id = known[0].ID
	} else {
		autoMerge, transient := wanted.AutoMerge == nil || *wanted.AutoMerge, wanted.TransientEnvironment != nil && *wanted.TransientEnvironment
		body := map[string]any{
			"ref": cmp.Or(wanted.Reference, own.Revision), "environment": wanted.Environment, "auto_merge": autoMerge, "transient_environment": transient,
		}
		if wanted.RequiredContexts != nil {
			body["required_contexts"] = wanted.RequiredContexts
		}
		var created struct {
			ID int64 `json:"id"`
		}
		if err := g.api.call(ctx, http.MethodPost, at+"/deployments", body, &created); err != nil {
			return err
		}
		id = created.ID
	}
	return g.api.call(ctx, http.MethodPost, fmt.Sprintf("%s/deployments/%d/statuses", at, id), map[string]string{
		"state": wanted.State, "log_url": wanted.LogURL, "description": cut(message.Text, maxDescription), "environment": wanted.Environment,
		"environment_url": wanted.EnvironmentURL,
	}, nil)
}

// comment comments on the pull requests of the commit. A comment that has the marker is
// changed.
func (g *github) comment(ctx context.Context, at string, own *gitSection, message *Message) error {
	var pulls []struct {
		Number int64 `json:"number"`
	}
	if err := g.api.call(ctx, http.MethodGet, at+"/commits/"+own.Revision+"/pulls", nil, &pulls); err != nil {
		return err
	}
	body := map[string]string{"body": own.PullRequestComment.text(message)}
	for _, pull := range pulls {
		var comments []struct {
			ID   int64  `json:"id"`
			Body string `json:"body"`
		}
		if err := g.api.call(ctx, http.MethodGet, fmt.Sprintf("%s/issues/%d/comments?per_page=100", at, pull.Number), nil, &comments); err != nil {
			return err
		}
		method, path := http.MethodPost, fmt.Sprintf("%s/issues/%d/comments", at, pull.Number)
		for _, one := range comments {
			if strings.Contains(one.Body, own.PullRequestComment.marker(message)) {
				method, path = http.MethodPatch, fmt.Sprintf("%s/issues/comments/%d", at, one.ID)
			}
		}
		if err := g.api.call(ctx, method, path, body, nil); err != nil {
			return err
		}
	}
	return nil
}
