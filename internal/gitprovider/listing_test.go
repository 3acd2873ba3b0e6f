package gitprovider_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/outbound"
	"slipway.dev/slipway/internal/secret"
)

// pullsServer serves three pull requests, one on each page, as the published REST
// APIs of the providers do. It notes the credentials of requests.
type pullsServer struct {
	*httptest.Server
	credentials []string
	queries     []url.Values
}

func servePulls(t *testing.T) *pullsServer {
	t.Helper()
	s := &pullsServer{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP responds with one page.
func (s *pullsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.credentials = append(s.credentials, r.Header.Get("Authorization"))
	s.queries = append(s.queries, r.URL.Query())
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	start, _ := strconv.Atoi(r.URL.Query().Get("start"))
	token, _ := strconv.Atoi(r.URL.Query().Get("continuationToken"))
	page = max(page, start, token, 1)
	more := page < 3
	next := *r.URL
	query := next.Query()
	query.Set("page", strconv.Itoa(page+1))
	next.RawQuery = query.Encode()
	link := s.URL + next.String()
	branch, sha := fmt.Sprintf("feature/%d", page), strings.Repeat(strconv.Itoa(page), 40)
	label := []any{map[string]any{"name": "preview"}}
	if page == 2 {
		label = []any{}
	}
	var body any
	switch r.URL.EscapedPath() {
	case "/api/v3/repos/acme/shop/pulls", "/api/v1/repos/acme/shop/pulls":
		body = []any{map[string]any{"number": page, "title": "t", "head": map[string]any{"ref": branch, "sha": sha}, "base": map[string]any{"ref": "main"},
			"labels": label, "user": map[string]any{"login": "ann"}}}
	case "/api/v4/projects/acme%2Fteam%2Fshop/merge_requests":
		body = []any{map[string]any{"iid": page, "title": "t", "source_branch": branch, "target_branch": "main", "sha": sha, "labels": []any{"preview"}, "author": map[string]any{"username": "ann"}}}
	case "/2.0/repositories/acme/shop/pullrequests":
		body = map[string]any{"values": []any{map[string]any{"id": page, "title": "t", "source": map[string]any{"branch": map[string]any{"name": branch}, "commit": map[string]any{"hash": sha}},
			"destination": map[string]any{"branch": map[string]any{"name": "main"}}, "author": map[string]any{"nickname": "ann"}}}}
		if more {
			body.(map[string]any)["next"] = link
		}
	case "/rest/api/1.0/projects/ACME/repos/shop/pull-requests":
		body = map[string]any{"isLastPage": !more, "nextPageStart": page + 1, "values": []any{map[string]any{"id": page, "title": "t",
			"fromRef": map[string]any{"displayId": branch, "latestCommit": sha}, "toRef": map[string]any{"displayId": "main"}, "author": map[string]any{"user": map[string]any{"name": "ann"}}}}}
	case "/acme/my%20team/_apis/git/repositories/shop/pullrequests":
		if more {
			w.Header().Set("X-Ms-Continuationtoken", strconv.Itoa(page+1))
		}
		body = map[string]any{"value": []any{map[string]any{"pullRequestId": page, "title": "t", "sourceRefName": "refs/heads/" + branch, "targetRefName": "refs/heads/main",
			"lastMergeSourceCommit": map[string]any{"commitId": sha}, "createdBy": map[string]any{"uniqueName": "ann@example.com"}}}}
	default:
		http.Error(w, `{"message": "Not Found"}`, http.StatusNotFound)
		return
	}
	if more {
		w.Header().Set("Link", "<"+link+`>; rel="next"`)
	}
	_ = json.NewEncoder(w).Encode(body)
}

func TestPullRequests(t *testing.T) {
	for _, tt := range []struct {
		kind       gitprovider.Kind
		api        string
		query      gitprovider.PullRequestQuery
		username   string
		credential string
	}{
		{gitprovider.GitHub, "", gitprovider.PullRequestQuery{Owner: "acme", Repository: "shop"}, "", "Bearer canary"},
		{gitprovider.GitLab, "", gitprovider.PullRequestQuery{Repository: "acme/team/shop", State: "opened"}, "", "Bearer canary"},
		{gitprovider.Gitea, "/", gitprovider.PullRequestQuery{Owner: "acme", Repository: "shop"}, "", "token canary"},
		{gitprovider.Bitbucket, "/2.0", gitprovider.PullRequestQuery{Owner: "acme", Repository: "shop"}, "ann", "Basic YW5uOmNhbmFyeQ=="},
		{gitprovider.BitbucketServer, "", gitprovider.PullRequestQuery{Owner: "ACME", Repository: "shop"}, "ann", "Basic YW5uOmNhbmFyeQ=="},
		{gitprovider.AzureDevOps, "/", gitprovider.PullRequestQuery{Owner: "acme/my team", Repository: "shop"}, "", "Basic OmNhbmFyeQ=="},
	} {
		t.Run(string(tt.kind), func(t *testing.T) {
			server := servePulls(t)
			options := gitprovider.Options{Kind: tt.kind, APIURL: server.URL + tt.api, Token: secret.New("canary"), Username: tt.username}
			listing := must.Get(gitprovider.NewListing(options))(t)
			if listing.Server() != server.URL {
				t.Errorf("the server is %s", listing.Server())
			}
			found := must.Get(listing.PullRequests(t.Context(), tt.query))(t)
			if len(found) != 3 || len(server.queries) != 3 {
				t.Fatalf("%d pull requests in %d requests", len(found), len(server.queries))
			}
			third := found[2]
			if third.Number != 3 || third.Branch != "feature/3" || third.TargetBranch != "main" || third.HeadSHA != strings.Repeat("3", 40) || third.Author != "ann" || third.Title != "t" {
				t.Errorf("the third is %+v", third)
			}
			for _, credential := range server.credentials {
				if credential != tt.credential {
					t.Errorf("the credential is %q, want %q", credential, tt.credential)
				}
			}
			if state := server.queries[2].Get("state"); tt.query.State != "" && state != tt.query.State {
				t.Errorf("the state is %q", state)
			}
			// Without a token none is sent.
			options.Token, options.Username, server.credentials = secret.Text{}, "", nil
			must.Get(must.Get(gitprovider.NewListing(options))(t).PullRequests(t.Context(), tt.query))(t)
			if got := strings.Join(server.credentials, ""); got != "" {
				t.Errorf("the credential is %q", got)
			}
			missing := tt.query
			missing.Repository = "gone"
			_, err := listing.PullRequests(t.Context(), missing)
			if failure(t, err).Kind != gitprovider.NotFound || strings.Contains(err.Error(), "canary") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// Labels must all be there, also where the API does not filter them.
func TestPullRequestLabels(t *testing.T) {
	server := servePulls(t)
	listing := must.Get(gitprovider.NewListing(gitprovider.Options{Kind: gitprovider.GitHub, APIURL: server.URL}))(t)
	for labels, want := range map[string]int{"preview": 2, "preview,other": 0} {
		found := must.Get(listing.PullRequests(t.Context(), gitprovider.PullRequestQuery{Owner: "acme", Repository: "shop", Labels: strings.Split(labels, ",")}))(t)
		if len(found) != want {
			t.Errorf("%s: %d, want %d", labels, len(found), want)
		}
	}
}

// A listing follows the rules of the other clients.
func TestListingRefuses(t *testing.T) {
	for _, options := range []gitprovider.Options{
		{Kind: gitprovider.Gitea},
		{Kind: gitprovider.Gitea, APIURL: "http://git.example.com", Token: secret.New("canary")},
		{Kind: gitprovider.GitHub, APIURL: "ftp://git.example.com"},
		{Kind: gitprovider.BitbucketServer},
		{Kind: "unknown"},
	} {
		if _, err := gitprovider.NewListing(options); err == nil {
			t.Errorf("%+v is taken", options)
		}
	}
	server := servePulls(t)
	listing := must.Get(gitprovider.NewListing(gitprovider.Options{Kind: gitprovider.GitHub, APIURL: server.URL, Outbound: outbound.New()}))(t)
	if _, err := listing.PullRequests(t.Context(), gitprovider.PullRequestQuery{Owner: "acme", Repository: "shop"}); err == nil || len(server.queries) > 0 {
		t.Errorf("an address of this machine is connected to: %v", err)
	}
}

func FuzzListing(f *testing.F) {
	f.Add([]byte(`[{"number": 1, "head": {"ref": "a"}}]`))
	f.Add([]byte(`{"values": [{"id": 1}], "next": "http://127.0.0.1/"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
		defer server.Close()
		for _, kind := range []gitprovider.Kind{gitprovider.GitHub, gitprovider.GitLab, gitprovider.Gitea, gitprovider.Bitbucket, gitprovider.BitbucketServer, gitprovider.AzureDevOps} {
			listing, err := gitprovider.NewListing(gitprovider.Options{Kind: kind, APIURL: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = listing.PullRequests(t.Context(), gitprovider.PullRequestQuery{Owner: "a", Repository: "b"})
			_, _ = listing.Repositories(t.Context(), gitprovider.RepositoryQuery{Owner: "a"})
		}
	})
}
