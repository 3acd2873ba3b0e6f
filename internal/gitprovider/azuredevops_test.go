package gitprovider_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// Repositories of Azure DevOps are those of its published API: with the names of
// projects that have spaces, without those that are disabled or empty.
func TestAzureRepositories(t *testing.T) {
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.URL.EscapedPath()+" "+r.URL.Query().Get("filter")+" "+r.URL.Query().Get("api-version"))
		switch r.URL.EscapedPath() {
		case "/acme/my%20team/_apis/git/repositories":
			_, _ = fmt.Fprint(w, `{"count": 3, "value": [
{"id": "5f", "name": "shop", "remoteUrl": "https://acme@dev.azure.com/acme/my%20team/_git/shop", "sshUrl": "git@ssh.dev.azure.com:v3/acme/my%20team/shop", "defaultBranch": "refs/heads/main"},
{"id": "60", "name": "empty"}, {"id": "61", "name": "old", "defaultBranch": "refs/heads/main", "isDisabled": true}]}`)
		case "/acme/my%20team/_apis/git/repositories/5f/refs":
			_, _ = fmt.Fprintf(w, `{"value": [{"name": "refs/heads/main", "objectId": "%s"}, {"name": "refs/heads/main-2", "objectId": "%s"}]}`, strings.Repeat("a", 40), strings.Repeat("b", 40))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	listing := must.Get(gitprovider.NewListing(gitprovider.Options{Kind: gitprovider.AzureDevOps, APIURL: server.URL + "/", Token: secret.New("canary")}))(t)
	found := must.Get(listing.Repositories(t.Context(), gitprovider.RepositoryQuery{Owner: "acme/my team"}))(t)
	if len(found) != 1 || found[0].Organization != "acme" || found[0].Name != "shop" || found[0].ID != "5f" || found[0].HTTPS != "https://dev.azure.com/acme/my%20team/_git/shop" ||
		found[0].SSH != "git@ssh.dev.azure.com:v3/acme/my%20team/shop" || found[0].Branch != "main" || found[0].SHA != strings.Repeat("a", 40) {
		t.Errorf("the repositories are %+v", found)
	}
	if len(requests) != 2 || !strings.HasSuffix(requests[1], "/refs heads/main 7.0") {
		t.Errorf("the requests are %q", requests)
	}
	all := must.Get(listing.Repositories(t.Context(), gitprovider.RepositoryQuery{Owner: "acme/my team", AllBranches: true}))(t)
	if len(all) != 2 || all[1].Branch != "main-2" {
		t.Errorf("all branches are %+v", all)
	}
	public := must.Get(gitprovider.NewListing(gitprovider.Options{Kind: gitprovider.AzureDevOps}))(t)
	if public.Server() != "https://dev.azure.com" {
		t.Errorf("the server is %s", public.Server())
	}
}
