package gitprovider_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// gitSuffix is at the end of an address to clone from that is not that of the page.
var gitSuffix = map[gitprovider.Kind]string{gitprovider.Gitea: ".git"}

// repositoriesServer serves an owner with the repositories shop and empty, which
// has no commit, and old, which is archived, as the published REST APIs do.
func repositoriesServer(t *testing.T, kind gitprovider.Kind) (*httptest.Server, *[]string) {
	t.Helper()
	requests := &[]string{}
	clone := func(name string) []any {
		return []any{map[string]any{"name": "https", "href": "https://ann@git.example.com/acme/" + name}, map[string]any{"name": "ssh", "href": "git@git.example.com:acme/" + name}}
	}
	one := func(id int, name, branch string, archived bool) map[string]any {
		return map[string]any{
			"id": id, "name": name, "path": name, "slug": name, "uuid": fmt.Sprintf("{%d}", id), "default_branch": branch, "archived": archived, "topics": []any{"web"},
			"clone_url": "https://git.example.com/acme/" + name + gitSuffix[kind], "html_url": "https://git.example.com/acme/" + name, "ssh_url": "git@git.example.com:acme/" + name,
			"http_url_to_repo": "https://git.example.com/acme/" + name, "ssh_url_to_repo": "git@git.example.com:acme/" + name,
			"mainbranch": map[string]any{"name": branch}, "links": map[string]any{"clone": clone(name)},
		}
	}
	branch := func(name string) map[string]any {
		sha := strings.Repeat(name[:1], 40)
		return map[string]any{"name": name, "displayId": name, "latestCommit": sha, "commit": map[string]any{"sha": sha, "id": sha}, "target": map[string]any{"hash": sha}}
	}
	base := map[gitprovider.Kind]string{
		gitprovider.GitHub: "/api/v3/repos/acme/shop", gitprovider.Gitea: "/api/v1/repos/acme/shop", gitprovider.GitLab: "/api/v4/projects/1/repository",
		gitprovider.Bitbucket: "/2.0/repositories/acme/shop/refs", gitprovider.BitbucketServer: "/rest/api/1.0/projects/acme/repos/shop",
	}[kind]
	list := func(elements ...any) any {
		if kind == gitprovider.Bitbucket || kind == gitprovider.BitbucketServer {
			return map[string]any{"values": elements, "isLastPage": true}
		}
		return elements
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requests = append(*requests, r.URL.String())
		var body any
		switch r.URL.Path {
		case "/api/v3/orgs/acme/repos", "/api/v1/orgs/acme/repos", "/api/v4/groups/acme/projects", "/2.0/repositories/acme", "/rest/api/1.0/projects/acme/repos":
			body = list(one(1, "shop", "main", false), one(2, "empty", "", false), one(3, "old", "main", true))
		case base + "/branches/main", base + "/default-branch":
			body = branch("main")
		case "/api/v1/repos/acme/shop/labels":
			body = list(map[string]any{"name": "bug"})
		case base + "/branches":
			body = list(branch("main"), branch("next"))
		default:
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(server.Close)
	return server, requests
}

// TestGitLabGroup: labels are topics, or the tags that GitLab had before version 14.5, and
// archived is sent only if archived projects are wanted, as Argo CD does.
func TestGitLabGroup(t *testing.T) {
	project := func(name string, topics, tags []string) map[string]any {
		return map[string]any{"id": len(name), "path": name, "default_branch": "main", "topics": topics, "tag_list": tags}
	}
	var archived []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/projects") {
			archived = append(archived, fmt.Sprint(r.URL.Query()["archived"]))
			_ = json.NewEncoder(w).Encode([]any{project("new", []string{"web"}, []string{"old"}), project("older", nil, []string{"old"})})
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "main", "commit": map[string]any{"id": strings.Repeat("m", 40)}})
	}))
	t.Cleanup(server.Close)
	listing := must.Get(gitprovider.NewListing(gitprovider.Options{Kind: gitprovider.GitLab, APIURL: server.URL, Token: secret.New("canary")}))(t)
	found := must.Get(listing.Repositories(t.Context(), gitprovider.RepositoryQuery{Owner: "acme"}))(t)
	if len(found) != 2 || fmt.Sprint(found[0].Labels, found[1].Labels) != "[web] [old]" {
		t.Errorf("found %+v", found)
	}
	must.Get(listing.Repositories(t.Context(), gitprovider.RepositoryQuery{Owner: "acme", Archived: true}))(t)
	if fmt.Sprint(archived) != "[[] [true]]" {
		t.Errorf("archived was %v", archived)
	}
}

func TestRepositories(t *testing.T) {
	for _, kind := range []gitprovider.Kind{gitprovider.GitHub, gitprovider.GitLab, gitprovider.Gitea, gitprovider.Bitbucket, gitprovider.BitbucketServer} {
		t.Run(string(kind), func(t *testing.T) {
			server, requests := repositoriesServer(t, kind)
			api := server.URL
			if kind == gitprovider.Bitbucket {
				api += "/2.0"
			}
			listing := must.Get(gitprovider.NewListing(gitprovider.Options{Kind: kind, APIURL: api, Token: secret.New("canary")}))(t)
			fits := func(one gitprovider.ListedRepository) bool { return one.Name != "left-out" }
			found := must.Get(listing.Repositories(t.Context(), gitprovider.RepositoryQuery{Owner: "acme", Fits: fits}))(t)
			if len(found) != 1 {
				t.Fatalf("%d repositories: %+v, requests %v", len(found), found, *requests)
			}
			shop := found[0]
			if shop.Organization != "acme" || shop.Name != "shop" || shop.ID != "1" || shop.HTTPS != "https://git.example.com/acme/shop" || shop.SSH != "git@git.example.com:acme/shop" ||
				shop.Branch != "main" || shop.SHA != strings.Repeat("m", 40) {
				t.Errorf("it is %+v", shop)
			}
			// Gitea has labels of issues instead, and one request for those of each of two.
			labels, listed := "[web]", 1
			switch kind {
			case gitprovider.Gitea:
				labels, listed = "[bug]", 3
			case gitprovider.Bitbucket, gitprovider.BitbucketServer:
				labels = "[]"
			}
			if got := fmt.Sprint(shop.Labels); got != labels {
				t.Errorf("the labels are %s, want %s", got, labels)
			}
			all := must.Get(listing.Repositories(t.Context(), gitprovider.RepositoryQuery{Owner: "acme", AllBranches: true, Fits: func(one gitprovider.ListedRepository) bool { return one.Name == "shop" }}))(t)
			if len(all) != 2 || all[1].Branch != "next" || all[1].SHA != strings.Repeat("n", 40) {
				t.Errorf("all branches are %+v", all)
			}
			before := len(*requests)
			none := must.Get(listing.Repositories(t.Context(), gitprovider.RepositoryQuery{Owner: "acme", Fits: func(gitprovider.ListedRepository) bool { return false }}))(t)
			if len(none) != 0 || len(*requests) != before+listed {
				t.Errorf("%d repositories in %d requests", len(none), len(*requests)-before)
			}
			if _, err := listing.Repositories(t.Context(), gitprovider.RepositoryQuery{Owner: "gone"}); failure(t, err).Kind != gitprovider.NotFound {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
