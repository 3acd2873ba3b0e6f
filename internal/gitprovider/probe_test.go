package gitprovider_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitprovider"
)

// R21, R58, R59: a server with a neutral name is detected by its responses, and no
// token is sent to find out.
func TestProbe(t *testing.T) {
	for _, test := range []struct {
		name, path string
		status     int
		header     map[string]string
		body       string
		kind       gitprovider.Kind
		api        string
	}{
		{name: "GitLab", path: "/api/v4/version", status: 401, body: `{"message":"401 Unauthorized"}`, kind: gitprovider.GitLab, api: "/api/v4"},
		{name: "GitHub Enterprise", path: "/api/v3/meta", status: 200, body: `{"verifiable_password_authentication":true,"installed_version":"3.18.0"}`, kind: gitprovider.GitHub, api: "/api/v3"},
		{name: "GitHub Enterprise in private mode", path: "/api/v3/meta", status: 401, header: map[string]string{"X-GitHub-Enterprise-Version": "3.18.0"}, body: `{"message":"Must authenticate to access this API."}`, kind: gitprovider.GitHub, api: "/api/v3"},
		{name: "Bitbucket Data Center", path: "/rest/api/1.0/application-properties", status: 200, body: `{"version":"9.4.0","buildNumber":"9004000","displayName":"Bitbucket"}`, kind: gitprovider.BitbucketServer},
		{name: "Jira, also of Atlassian", path: "/rest/api/1.0/application-properties", status: 200, body: `{"version":"9.4.0","buildNumber":"1","displayName":"Jira"}`},
		{name: "a page for signing in", path: "/", status: 200, body: "<html>sign in</html>"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
					t.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
				}
				if r.URL.Path != test.path && test.path != "/" {
					http.NotFound(w, r)
					return
				}
				for name, value := range test.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			}))
			t.Cleanup(server.Close)
			authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			kind, api, err := gitprovider.Probe(t.Context(), server.URL+"/acme/config.git", nil, authority)
			if test.kind == "" {
				if responseError := failure(t, err); responseError.Kind != gitprovider.NotFound || !strings.Contains(err.Error(), "API URL") {
					t.Errorf("%s: %v", responseError.Kind, err)
				}
				return
			}
			if err != nil || kind != test.kind || api != server.URL+test.api {
				t.Errorf("%s %s: %v", kind, api, err)
			}
		})
	}
}
