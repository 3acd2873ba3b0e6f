package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
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
		header.Set("Authorization", "Bearer "+g.options.Token)
		header.Set("Accept", "application/json")
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
		if err := g.deploy(ctx, at, &own, &message); err != nil {
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
	exists := false
	type status struct {
		Name   string `json:"name"`
		Status string `json:"status"`
	}
	err := eachOf(ctx, g.api, at+"/repository/commits/"+own.Revision+"/statuses", url.Values{"name": {own.Status.Label}}, func(one status) bool {
		exists = one.Name == own.Status.Label && one.Status == own.Status.State
		return !exists
	})
	if err != nil || exists {
		return err
	}
	return g.api.call(ctx, http.MethodPost, at+"/statuses/"+own.Revision, map[string]string{
		"state": own.Status.State, "name": own.Status.Label, "target_url": own.Status.TargetURL, "description": cut(message.Text, maxDescription),
	}, nil)
}

// deploy writes a deployment, unless it is there: the newest one of the environment, or
// one since the message was due. An older one of the same commit is another deployment:
// that before a rollback.
func (g *gitlab) deploy(ctx context.Context, at string, own *gitSection, message *Message) error {
	wanted := own.Deployment
	newest, exists := true, false
	type deployment struct {
		SHA     string    `json:"sha"`
		Status  string    `json:"status"`
		Created time.Time `json:"created_at"`
	}
	query := url.Values{"environment": {wanted.Environment}, "order_by": {"id"}, "sort": {"desc"}}
	err := eachOf(ctx, g.api, at+"/deployments", query, func(one deployment) bool {
		since := newest || !one.Created.Before(message.At)
		exists = since && strings.HasPrefix(one.SHA, own.Revision) && one.Status == wanted.State
		newest = false
		return since && !exists
	})
	if err != nil || exists {
		return err
	}
	return g.api.call(ctx, http.MethodPost, at+"/deployments", map[string]any{
		"environment": wanted.Environment, "sha": own.Revision, "ref": cmp.Or(wanted.Reference, own.Revision), "tag": false, "status": wanted.State,
	}, nil)
}

// comment comments on the merge requests of the commit.
func (g *gitlab) comment(ctx context.Context, at string, own *gitSection, message *Message) error {
	var requests []struct {
		IID int64 `json:"iid"`
	}
	if err := g.api.call(ctx, http.MethodGet, at+"/repository/commits/"+own.Revision+"/merge_requests", nil, &requests); err != nil {
		return err
	}
	for _, one := range requests {
		notes := fmt.Sprintf("%s/merge_requests/%d/notes", at, one.IID)
		err := own.PullRequestComment.write(ctx, g.api, message, notes, func(id int64) (string, string) {
			return http.MethodPut, fmt.Sprintf("%s/%d", notes, id)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
