package providertest_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
)

// recorder keeps what a server finds instead of failing the test with it.
type recorder struct {
	testing.TB
	findings []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.findings = append(r.findings, fmt.Sprintf(format, args...))
}

// The servers fail a test on what the provider does not document, and accept
// what it does.
func TestStrict(t *testing.T) {
	const json = "application/json"
	for _, test := range []struct {
		name, method, path, body string
		header                   map[string]string
		finding                  string // empty: the request is documented
	}{
		{name: "documented", method: "GET", path: "/projects/acme%2Fconfig"},
		{name: "path", method: "GET", path: "/projects/acme%2Fconfig/secrets", finding: "does not document"},
		{name: "path that is not escaped", method: "GET", path: "/projects/acme/config", finding: "does not document"},
		{name: "method", method: "PATCH", path: "/projects/acme%2Fconfig", finding: "does not document"},
		{name: "parameter", method: "GET", path: "/projects/acme%2Fconfig/hooks?limit=5", finding: "the parameter limit"},
		{name: "documented hook", method: "POST", path: "/projects/acme%2Fconfig/hooks", body: `{"url":"https://x.example","push_events":true}`},
		{name: "field", method: "POST", path: "/projects/acme%2Fconfig/hooks", body: `{"url":"https://x.example","secret":"x"}`, finding: "the field secret"},
		{name: "type", method: "POST", path: "/projects/acme%2Fconfig/hooks", body: `{"url":"https://x.example","push_events":"yes"}`, finding: "the field push_events"},
		{name: "missing field", method: "POST", path: "/projects/acme%2Fconfig/hooks", body: `{"push_events":true}`, finding: "the field url is missing"},
		{name: "body of a GET", method: "GET", path: "/projects/acme%2Fconfig", body: `{}`, finding: "a body"},
		{name: "content type", method: "POST", path: "/projects/acme%2Fconfig/hooks", body: `{"url":"https://x.example"}`, header: map[string]string{"Content-Type": "text/plain"}, finding: "Content-Type"},
		{name: "accept", method: "GET", path: "/user", header: map[string]string{"Accept": "text/html"}, finding: "Accept"},
		{name: "user agent", method: "GET", path: "/user", header: map[string]string{"User-Agent": ""}, finding: "User-Agent"},
		{name: "basic authentication", method: "GET", path: "/user", header: map[string]string{"Authorization": "Basic cm9ib3Q6Z2xwYXQtMQ=="}, finding: "the wrong way"},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := &recorder{TB: t}
			server := providertest.Start(found, gitprovider.GitLab, providertest.World{
				Tokens:       []providertest.Token{{Value: "glpat-1", Login: "robot", Scopes: []string{"api"}, Roles: map[string]string{"acme": "admin"}}},
				Repositories: []providertest.Repository{{Path: "acme/config", Private: true}},
			})
			request := must.Get(http.NewRequest(test.method, server.APIURL+test.path, strings.NewReader(test.body)))(t)
			for name, value := range map[string]string{"Accept": json, "Content-Type": json, "User-Agent": "test", "Authorization": "Bearer glpat-1"} {
				request.Header.Set(name, value)
			}
			for name, value := range test.header {
				request.Header.Set(name, value)
			}
			send(t, server, request)
			if test.finding == "" && len(found.findings) > 0 {
				t.Errorf("findings %q", found.findings)
			}
			if test.finding != "" && !strings.Contains(strings.Join(found.findings, "\n"), test.finding) {
				t.Errorf("findings %q, want one with %q", found.findings, test.finding)
			}
		})
	}
}

func send(t *testing.T, server *providertest.Server, request *http.Request) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(server.CA)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	response := must.Get(client.Do(request))(t)
	_ = response.Body.Close()
}
