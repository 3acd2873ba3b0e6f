package gitprovider_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// pullRequests returns a client of the test's repository, and its path.
func pullRequests(t *testing.T, kind gitprovider.Kind) (*gitprovider.PullRequests, *providertest.Server, string) {
	t.Helper()
	token := admin(kind)
	token.Scopes = append(token.Scopes, "read:pullrequest:bitbucket", "write:pullrequest:bitbucket")
	server := start(t, kind, token)
	address, path := repositoryAt(server, kind)
	return must.Get(gitprovider.NewPullRequests(gitprovider.Options{
		Kind: kind, APIURL: server.APIURL, Token: secret.New(token.Value), Username: token.Username, Repository: address, CAs: server.CA, Now: noon,
	}))(t), server, path
}

// pullKinds are the providers that the test server has.
func pullKinds() []gitprovider.Kind { return append(gitprovider.Kinds(), gitprovider.Gitea) }

// A pull request between two branches exists once, whatever forks have; one that
// was closed is found and does not stop the next.
func TestOpenPullRequest(t *testing.T) {
	for _, kind := range pullKinds() {
		t.Run(string(kind), func(t *testing.T) {
			pulls, server, path := pullRequests(t, kind)
			server.ChangePulls(path, func([]providertest.Pull) []providertest.Pull {
				return []providertest.Pull{
					{Number: 1, Title: "of a fork", Head: "update/one", Base: "main", State: gitprovider.PullRequestOpen, Fork: "mallory/config"},
					{Number: 2, Title: "another branch", Head: "update", Base: "main", State: gitprovider.PullRequestOpen},
				}
			})
			wanted := gitprovider.NewPullRequest{Head: "update/one", Base: "main", Title: "Update\n web", Body: "what changes"}
			opened := must.Get(pulls.Open(t.Context(), wanted))(t)
			if opened.Number != 3 || opened.State != gitprovider.PullRequestOpen || !strings.HasPrefix(opened.URL, server.URL) || !strings.HasSuffix(opened.URL, "/3") || opened.HeadSHA == "" {
				t.Errorf("opened is %+v", opened)
			}
			again := must.Get(pulls.Open(t.Context(), wanted))(t)
			if again != opened || len(server.Pulls(path)) != 3 {
				t.Errorf("the second one is %+v of %d", again, len(server.Pulls(path)))
			}
			if got := server.Pulls(path)[2]; got.Title != "Update web" || got.Body != "what changes" || got.Base != "main" {
				t.Errorf("the request was %+v", got)
			}
			for _, state := range []gitprovider.PullRequestState{gitprovider.PullRequestMerged, gitprovider.PullRequestClosed} {
				server.ChangePulls(path, func(all []providertest.Pull) []providertest.Pull {
					all[2].State, all[2].MergeSHA = state, strings.Repeat("b", 40)
					return all
				})
				got := must.Get(pulls.Get(t.Context(), 3))(t)
				if merged := state == gitprovider.PullRequestMerged; got.State != state || (got.MergeSHA == strings.Repeat("b", 40)) != merged {
					t.Errorf("%s: it is %+v", state, got)
				}
				if found, ok, err := pulls.Find(t.Context(), "update/one", "main"); err != nil || !ok || found.Number != 3 || found.State != state {
					t.Errorf("%s: found %+v %v %v", state, found, ok, err)
				}
			}
			if next := must.Get(pulls.Open(t.Context(), wanted))(t); next.Number != 4 {
				t.Errorf("the next one is %+v", next)
			}
			if found, _, err := pulls.Find(t.Context(), "update/one", "main"); err != nil || found.Number != 4 {
				t.Errorf("found %+v %v", found, err)
			}
			if _, ok, err := pulls.Find(t.Context(), "update/two", "main"); ok || err != nil {
				t.Errorf("a branch without a pull request has one: %v", err)
			}
			_, err := pulls.Get(t.Context(), 99)
			if failure(t, err).Kind != gitprovider.NotFound || strings.Contains(err.Error(), "canary") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// A list has which pull requests are of forks, also of one that was deleted.
func TestForks(t *testing.T) {
	for _, kind := range pullKinds() {
		_, server, path := pullRequests(t, kind)
		server.ChangePulls(path, func([]providertest.Pull) []providertest.Pull {
			return []providertest.Pull{
				{Number: 1, Head: "a", Base: "main", State: gitprovider.PullRequestOpen},
				{Number: 2, Head: "a", Base: "main", State: gitprovider.PullRequestOpen, Fork: "mallory/config"},
			}
		})
		token := admin(kind)
		token.Scopes = append(token.Scopes, "read:pullrequest:bitbucket")
		server.SetToken(token)
		owner, name, _ := strings.Cut(path, "/")
		query := gitprovider.PullRequestQuery{Owner: owner, Repository: name}
		if kind == gitprovider.GitLab {
			query = gitprovider.PullRequestQuery{Repository: path}
		}
		listing := must.Get(gitprovider.NewListing(gitprovider.Options{Kind: kind, APIURL: server.APIURL, Token: secret.New(token.Value), Username: token.Username, CAs: server.CA}))(t)
		found := must.Get(listing.PullRequests(t.Context(), query))(t)
		if len(found) != 2 || !found[0].Fork || found[1].Fork {
			t.Errorf("%s: the list is %+v", kind, found)
		}
	}
	// The repository of a deleted fork is null.
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `[{"number": 1, "head": {"ref": "a", "repo": null}, "base": {"ref": "main", "repo": {"full_name": "acme/shop"}}}]`)
	}))
	t.Cleanup(gone.Close)
	listing := must.Get(gitprovider.NewListing(gitprovider.Options{Kind: gitprovider.GitHub, APIURL: gone.URL}))(t)
	if found := must.Get(listing.PullRequests(t.Context(), gitprovider.PullRequestQuery{Owner: "acme", Repository: "shop"}))(t); !found[0].Fork {
		t.Errorf("it is %+v", found)
	}
}

// A pull request that another process opens meanwhile is returned.
func TestOpenPullRequestRace(t *testing.T) {
	pulls, server, path := pullRequests(t, gitprovider.GitHub)
	wanted := gitprovider.NewPullRequest{Head: "update", Base: "main", Title: "t"}
	opened := must.Get(pulls.Open(t.Context(), wanted))(t)
	server.Respond(providertest.Canned{Status: http.StatusOK, Body: "[]"})
	if again := must.Get(pulls.Open(t.Context(), wanted))(t); again != opened || len(server.Pulls(path)) != 1 {
		t.Errorf("it is %+v of %d", again, len(server.Pulls(path)))
	}
	// The response to the request was lost.
	server.Respond(providertest.Canned{Status: http.StatusOK, Body: "[]"}, providertest.Canned{Status: http.StatusBadGateway})
	if again := must.Get(pulls.Open(t.Context(), wanted))(t); again != opened {
		t.Errorf("it is %+v", again)
	}
	server.Respond(providertest.Canned{Status: http.StatusOK, Body: "[]"}, providertest.Canned{Status: http.StatusForbidden, Body: `{"message": "no"}`})
	if _, err := pulls.Open(t.Context(), wanted); failure(t, err).Kind != gitprovider.Denied {
		t.Errorf("the error is %v", err)
	}
}

// There is one comment for a key. It is changed when its text changes; comments of
// others that quote or copy it are left alone.
func TestCommentPullRequest(t *testing.T) {
	for _, kind := range pullKinds() {
		t.Run(string(kind), func(t *testing.T) {
			pulls, server, path := pullRequests(t, kind)
			const marker = "[//]: # (slipway:preview/shop)"
			server.ChangePulls(path, func([]providertest.Pull) []providertest.Pull {
				return []providertest.Pull{{Number: 1, Head: "a", Base: "main", State: gitprovider.PullRequestOpen, Comments: []providertest.PullComment{
					{ID: 1, Text: "hello\r\n> " + marker}, {ID: 2, Text: "copied\n\n" + marker, Foreign: true},
				}}}
			})
			comments := func() []providertest.PullComment { return server.Pulls(path)[0].Comments }
			for _, text := range []string{"The preview is at https://one.example.com", "The preview is at https://two.example.com"} {
				must.Do(t, pulls.Comment(t.Context(), 1, "preview/shop", text))
				writes := len(server.Writes())
				must.Do(t, pulls.Comment(t.Context(), 1, "preview/shop", text))
				got := comments()
				if len(got) != 3 || got[2].Text != text+"\n\n"+marker {
					t.Errorf("the comments are %+v", got)
				}
				// The copy is tried, and refused by the provider.
				if more := server.Writes()[writes:]; len(more) > 1 {
					t.Errorf("the same text was written again: %q", more)
				}
			}
			must.Do(t, pulls.Comment(t.Context(), 1, "preview/bank", "another"))
			if got := comments(); len(got) != 4 || strings.Contains(got[0].Text+got[1].Text, "example.com") {
				t.Errorf("the comments are %+v", got)
			}
			if err := pulls.Comment(t.Context(), 1, "a) [x](", "text"); failure(t, err).Kind != gitprovider.Invalid {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// azureServer has the pull requests of Azure DevOps that its documentation describes.
type azureServer struct {
	*httptest.Server
	pulls   []map[string]any
	threads []map[string]any
	writes  int
}

func (s *azureServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const at = "/acme/web/_apis/git/repositories/shop/pullrequests"
	_, password, _ := r.BasicAuth()
	body := map[string]any{}
	if text, _ := io.ReadAll(r.Body); len(text) > 0 {
		_ = json.Unmarshal(text, &body)
	}
	if r.Method != http.MethodGet {
		s.writes++
	}
	var result any
	switch query := r.URL.Query(); {
	case password != "canary" || query.Get("api-version") == "":
		http.Error(w, `{"message": "denied"}`, http.StatusUnauthorized)
		return
	case r.Method == http.MethodGet && r.URL.Path == at:
		found := []any{}
		for _, pull := range s.pulls {
			status := query.Get("searchCriteria.status")
			if pull["sourceRefName"] == query.Get("searchCriteria.sourceRefName") && (status == "all" || pull["status"] == status) {
				found = append(found, pull)
			}
		}
		result = map[string]any{"value": found}
	case r.Method == http.MethodPost && r.URL.Path == at:
		body["pullRequestId"], body["status"] = len(s.pulls)+1, "active"
		body["repository"] = map[string]any{"webUrl": s.URL + "/acme/web/_git/shop"}
		s.pulls, result = append(s.pulls, body), body
	case r.Method == http.MethodGet && r.URL.Path == at+"/1":
		result = s.pulls[0]
	case r.Method == http.MethodGet && r.URL.Path == at+"/1/threads":
		result = map[string]any{"value": s.threads}
	case r.Method == http.MethodPost && r.URL.Path == at+"/1/threads":
		body["id"] = len(s.threads) + 1
		body["comments"].([]any)[0].(map[string]any)["id"] = 1
		s.threads, result = append(s.threads, body), body
	case r.Method == http.MethodPatch && r.URL.Path == at+"/1/threads/1/comments/1":
		s.threads[0]["comments"].([]any)[0].(map[string]any)["content"] = body["content"]
		result = body
	default:
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(result)
}

func TestAzurePullRequests(t *testing.T) {
	server := &azureServer{}
	server.Server = httptest.NewServer(server)
	t.Cleanup(server.Close)
	pulls := must.Get(gitprovider.NewPullRequests(gitprovider.Options{
		Kind: gitprovider.AzureDevOps, APIURL: server.URL, Token: secret.New("canary"), Repository: server.URL + "/acme/web/_git/shop",
	}))(t)
	wanted := gitprovider.NewPullRequest{Head: "update", Base: "main", Title: "t", Body: strings.Repeat("é", 3000)}
	opened := must.Get(pulls.Open(t.Context(), wanted))(t)
	if opened.URL != server.URL+"/acme/web/_git/shop/pullrequest/1" || opened.Head != "update" || opened.Base != "main" || opened.State != gitprovider.PullRequestOpen {
		t.Errorf("opened is %+v", opened)
	}
	if body := server.pulls[0]["description"].(string); len(body) > 4000 || !strings.HasSuffix(body, "é…") {
		t.Errorf("the description has %d bytes", len(body))
	}
	if again := must.Get(pulls.Open(t.Context(), wanted))(t); again != opened || len(server.pulls) != 1 {
		t.Errorf("it is %+v of %d", again, len(server.pulls))
	}
	for _, text := range []string{"one", "one", "two"} {
		must.Do(t, pulls.Comment(t.Context(), 1, "k", text))
	}
	if got := fmt.Sprint(server.threads); len(server.threads) != 1 || !strings.Contains(got, "two\n\n[//]: # (slipway:k)") || server.writes != 3 {
		t.Errorf("%d writes, the threads are %s", server.writes, got)
	}
	server.pulls[0]["status"], server.pulls[0]["lastMergeCommit"] = "completed", map[string]any{"commitId": "abc"}
	if got := must.Get(pulls.Get(t.Context(), 1))(t); got.State != gitprovider.PullRequestMerged || got.MergeSHA != "abc" {
		t.Errorf("it is %+v", got)
	}
	server.pulls[0]["status"], server.pulls[0]["forkSource"] = "active", map[string]any{"name": "refs/heads/update"}
	if _, found, err := pulls.Find(t.Context(), "update", "main"); found || err != nil {
		t.Errorf("that of a fork is found: %v", err)
	}
}

func TestPullRequestsRefuse(t *testing.T) {
	for name, options := range map[string]gitprovider.Options{
		"no token":       {Kind: gitprovider.GitHub, Repository: "https://github.com/acme/shop"},
		"no repository":  {Kind: gitprovider.GitHub, Token: secret.New("canary")},
		"another host":   {Kind: gitprovider.GitHub, Token: secret.New("canary"), Repository: "https://gitlab.com/acme/shop"},
		"no name":        {Kind: gitprovider.GitHub, Token: secret.New("canary"), Repository: "https://github.com/acme"},
		"plain Git":      {Kind: gitprovider.PlainGit, APIURL: "https://git.example.com", Token: secret.New("canary"), Repository: "https://git.example.com/a/b"},
		"no Azure path":  {Kind: gitprovider.AzureDevOps, Token: secret.New("canary"), Repository: "https://dev.azure.com/acme/shop"},
		"over plain way": {Kind: gitprovider.Gitea, APIURL: "http://git.example.com", Token: secret.New("canary"), Repository: "http://git.example.com/a/b"},
	} {
		if _, err := gitprovider.NewPullRequests(options); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// The provider follows from the name of the host, or from what it responds without a
// token.
func TestDetect(t *testing.T) {
	for address, want := range map[string]string{
		"https://github.com/acme/shop": "github https://api.github.com", "git@ssh.dev.azure.com:v3/acme/web/shop": "azure-devops https://dev.azure.com",
		"https://codeberg.org/acme/shop": "gitea https://codeberg.org/api/v1", "http://gitea.svc:3000/acme/shop.git": "gitea http://gitea.svc:3000/api/v1",
	} {
		if kind, api, err := gitprovider.Detect(t.Context(), address, nil); err != nil || string(kind)+" "+api != want {
			t.Errorf("%s: %s %s %v", address, kind, api, err)
		}
	}
	version := `{"version": "1.27.3"}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a token was sent")
		}
		if version == "" || r.URL.Path != "/git/api/v1/version" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, version)
	}))
	t.Cleanup(server.Close)
	kind, api, err := gitprovider.Detect(t.Context(), server.URL+"/git/acme/shop.git", server.Client().Transport)
	if err != nil || kind != gitprovider.Gitea || api != server.URL+"/git/api/v1" {
		t.Errorf("%s %s %v", kind, api, err)
	}
	version = ""
	if _, _, err := gitprovider.Detect(t.Context(), server.URL+"/git/acme/shop.git", server.Client().Transport); failure(t, err).Kind != gitprovider.NotFound {
		t.Errorf("the error is %v", err)
	}
}

func FuzzPullRequests(f *testing.F) {
	f.Add([]byte(`[{"number": 1, "head": {"ref": "a"}, "base": {"ref": "main"}, "body": "x"}]`))
	f.Add([]byte(`{"values": [{"id": 1, "source": {"repository": null}}], "next": "http://127.0.0.1/"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
		defer server.Close()
		for kind, path := range map[gitprovider.Kind]string{
			gitprovider.GitHub: "/a/b", gitprovider.GitLab: "/a/b", gitprovider.Gitea: "/a/b", gitprovider.Bitbucket: "/a/b",
			gitprovider.BitbucketServer: "/scm/a/b", gitprovider.AzureDevOps: "/a/b/_git/c",
		} {
			pulls, err := gitprovider.NewPullRequests(gitprovider.Options{Kind: kind, APIURL: server.URL, Token: secret.New("x"), Repository: server.URL + path})
			if err != nil {
				t.Fatal(err)
			}
			_, _, _ = pulls.Find(t.Context(), "a", "main")
			_ = pulls.Comment(t.Context(), 1, "k", "text")
			_, _ = pulls.Get(t.Context(), 1)
		}
	})
}
