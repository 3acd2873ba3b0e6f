package gitprovider_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// A list that did not change is not sent again: each of its pages, and only for
// the credential that has read it.
func TestResponses(t *testing.T) {
	version, requests := 1, []string{}
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, tag := r.URL.Query().Get("page"), fmt.Sprintf(`W/"%d"`, version)
		w.Header().Set("ETag", tag)
		known := r.Header.Get("If-None-Match")
		requests = append(requests, fmt.Sprintf("%s %s", r.Header.Get("Authorization"), known))
		if known == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		number := 10 * version
		if page == "" {
			w.Header().Set("Link", "<"+server.URL+r.URL.Path+`?page=2>; rel="next"`)
			number++
		}
		_, _ = fmt.Fprintf(w, `[{"number": %d}]`, number)
	}))
	defer server.Close()
	responses := gitprovider.NewResponses()
	list := func(token string) (numbers []int64) {
		t.Helper()
		listing := must.Get(gitprovider.NewListing(gitprovider.Options{Kind: gitprovider.GitHub, APIURL: server.URL, Token: secret.New(token), Responses: responses}))(t)
		for _, one := range must.Get(listing.PullRequests(t.Context(), gitprovider.PullRequestQuery{Owner: "acme", Repository: "shop"}))(t) {
			numbers = append(numbers, one.Number)
		}
		return numbers
	}
	for _, step := range []struct {
		token   string
		version int
		want    []int64
		known   string // what both requests have
	}{
		{"one", 1, []int64{11, 10}, ""}, {"one", 1, []int64{11, 10}, `W/"1"`}, {"two", 1, []int64{11, 10}, ""},
		{"one", 2, []int64{21, 20}, `W/"1"`}, {"one", 2, []int64{21, 20}, `W/"2"`}, {"", 2, []int64{21, 20}, ""},
	} {
		version, requests = step.version, nil
		authorization := ""
		if step.token != "" {
			authorization = "Bearer " + step.token
		}
		each := authorization + " " + step.known
		if got := list(step.token); !slices.Equal(got, step.want) || !slices.Equal(requests, []string{each, each}) {
			t.Errorf("%+v: listed %v with the requests %q", step, got, requests)
		}
	}
}
