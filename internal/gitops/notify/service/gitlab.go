package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// gitlabOptions are those of GitLab. Argo CD has no such service: the fields are those of
// GitHub.
type gitlabOptions struct {
	Token   string `json:"token"`
	BaseURL string `json:"baseURL"`
	httpOptions
}

// gitlab writes statuses, deployments and comments with a token.
type gitlab struct {
	options gitlabOptions
	hosts   []string
	api     *api
}

func newGitLab(options decoder, clients *Clients) (Service, error) {
	g := &gitlab{}
	if err := options(&g.options); err != nil {
		return nil, err
	}
	base := strings.TrimRight(cmp.Or(g.options.BaseURL, "https://gitlab.com"), "/")
	if err := checkAddress("baseURL", base); err != nil {
		return nil, err
	}
	if g.options.Token == "" {
		return nil, errors.New("the option token is missing: write an access token with the scope api")
	}
	parsed, err := url.Parse(base)
	if err != nil {
		return nil, errors.New("the option baseURL is no address")
	}
	g.hosts = []string{parsed.Hostname()}
	g.api = &api{address: base + "/api/v4", client: clients.of(g.options.httpOptions), authorize: func(_ context.Context, header http.Header) error {
		header.Set("PRIVATE-TOKEN", g.options.Token)
		return nil
	}}
	return g, nil
}

// Send writes what the section has: a status, a deployment, comments on merge requests.
func (g *gitlab) Send(ctx context.Context, message Message) error {
	own := gitSection{}
	path, err := own.target(&message, "gitlab", g.hosts)
	if err != nil {
		return err
	}
	at := "/projects/" + url.PathEscape(path)
	if own.Status != nil {
		if err := g.status(ctx, at, &own, &message); err != nil {
			return err
		}
	}
	if own.Deployment != nil {
		body := map[string]any{
			"environment": own.Deployment.Environment, "sha": own.Revision, "ref": cmp.Or(own.Deployment.Reference, own.Revision), "tag": false, "status": own.Deployment.State,
		}
		if err := g.api.call(ctx, http.MethodPost, at+"/deployments", body, nil); err != nil {
			return err
		}
	}
	if own.PullRequestComment != nil {
		return g.comment(ctx, at, &own, &message)
	}
	return nil
}

// status writes a status of the commit. GitLab refuses one that it has already, so that
// the statuses are read first.
func (g *gitlab) status(ctx context.Context, at string, own *gitSection, message *Message) error {
	var known []struct {
		Name   string `json:"name"`
		Status string `json:"status"`
	}
	if err := g.api.call(ctx, http.MethodGet, at+"/repository/commits/"+own.Revision+"/statuses?per_page=100", nil, &known); err != nil {
		return err
	}
	for _, one := range known {
		if one.Name == own.Status.Label && one.Status == own.Status.State {
			return nil
		}
	}
	return g.api.call(ctx, http.MethodPost, at+"/statuses/"+own.Revision, map[string]string{
		"state": own.Status.State, "name": own.Status.Label, "target_url": own.Status.TargetURL, "description": cut(message.Text, maxDescription),
	}, nil)
}

// comment comments on the merge requests of the commit. A comment that has the marker is
// changed.
func (g *gitlab) comment(ctx context.Context, at string, own *gitSection, message *Message) error {
	var requests []struct {
		IID int64 `json:"iid"`
	}
	if err := g.api.call(ctx, http.MethodGet, at+"/repository/commits/"+own.Revision+"/merge_requests", nil, &requests); err != nil {
		return err
	}
	body := map[string]string{"body": own.PullRequestComment.text(message)}
	for _, one := range requests {
		notes := fmt.Sprintf("%s/merge_requests/%d/notes", at, one.IID)
		var known []struct {
			ID   int64  `json:"id"`
			Body string `json:"body"`
		}
		if err := g.api.call(ctx, http.MethodGet, notes+"?per_page=100", nil, &known); err != nil {
			return err
		}
		method, path := http.MethodPost, notes
		for _, note := range known {
			if strings.Contains(note.Body, own.PullRequestComment.marker(message)) {
				method, path = http.MethodPut, fmt.Sprintf("%s/%d", notes, note.ID)
			}
		}
		if err := g.api.call(ctx, method, path, body, nil); err != nil {
			return err
		}
	}
	return nil
}
