package router_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/access/router"
	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
)

const (
	listProcedure = "/slipway.runtime.v1.ApplicationService/ListApplications"
	addProcedure  = "/slipway.runtime.v1.ClusterService/AddCluster"
)

// verify accepts a role, and a role with the suffix -workflows, as a token;
// package token has the real verification.
func verify(_ context.Context, bearer string) (wire.RuntimeClaims, error) {
	role, ofWorkflows := strings.CutSuffix(strings.TrimPrefix(bearer, "Bearer "), "-workflows")
	role, ofArgoCD := strings.CutSuffix(role, "-argocd")
	if !slices.Contains(permission.Roles(), role) {
		return wire.RuntimeClaims{}, refusal.New("", token.ReasonSignature, "the token is not signed by the platform of this runtime")
	}
	claims := wire.RuntimeClaims{Email: "ada@example.com", Role: role, Prefix: wire.AppProxyPath}
	if ofWorkflows {
		claims.Prefix = wire.WorkflowsPath
	}
	if ofArgoCD {
		claims.Prefix = wire.ArgoCDPath
	}
	return claims, nil
}

// unreadBody fails the test when it is read.
type unreadBody struct{ t *testing.T }

func (b unreadBody) Read([]byte) (int, error) {
	b.t.Error("the body was read before the token was verified")
	return 0, io.EOF
}

func (b unreadBody) Close() error { return nil }

// echo responds with the received request.
func echo(w http.ResponseWriter, r *http.Request) {
	claims, _ := token.ClaimsFrom(r.Context())
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	_, _ = io.WriteString(w, strings.Join([]string{r.URL.Path, claims.Email, r.PathValue("source"), r.Header.Get("Authorization"), string(body)}, "|"))
}

func newRouter(change func(*router.Options)) http.Handler {
	options := router.Options{Runtime: "prod", AppProxy: http.HandlerFunc(echo), ArgoCD: http.HandlerFunc(echo), Webhooks: http.HandlerFunc(echo), Verify: verify}
	if change != nil {
		change(&options)
	}
	return router.New(options)
}

func ask(handler http.Handler, method, target, bearer string, body io.Reader) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, target, body)
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer
}

// TestRouter: the response of each path, by token.
func TestRouter(t *testing.T) {
	handler := newRouter(nil)
	for _, c := range []struct {
		name, method, target, bearer string
		status                       int
		want                         string
	}{
		{"API", "POST", "/app-proxy" + listProcedure, "operator", 200, listProcedure + "|ada@example.com|||{}"},
		{"API without a token", "POST", "/app-proxy" + listProcedure, "", 401, `"code":"unauthenticated"`},
		{"API with a wrong token", "POST", "/app-proxy" + listProcedure, "forged", 401, "not signed by the platform"},
		{"API with a token for another path", "POST", "/app-proxy" + listProcedure, "operator-workflows", 401, "for another path"},
		{"API for admins, as an operator", "POST", "/app-proxy" + addProcedure, "operator", 403, `"code":"permission_denied"`},
		{"API for admins, as an admin", "POST", "/app-proxy" + addProcedure, "admin", 200, addProcedure},
		{"API that is not there", "POST", "/app-proxy/slipway.runtime.v1.ApplicationService/Nothing", "admin", 501, `"code":"unimplemented"`},
		{"API of the platform", "POST", "/app-proxy/slipway.platform.v1.AuthService/Me", "admin", 501, `"code":"unimplemented"`},
		{"API with GET", "GET", "/app-proxy" + listProcedure, "", 401, "not signed"},
		{"Argo CD's API", "GET", "/app-proxy/argocd/api/v1/applications", "viewer-argocd", 200, "/api/v1/applications|ada@example.com||"},
		{"Argo CD's API by gRPC", "POST", "/app-proxy/argocd/application.ApplicationService/Sync", "viewer-argocd", 200, "/application.ApplicationService/Sync|ada@example.com||"},
		{"Argo CD's API with a token for another path", "GET", "/app-proxy/argocd/api/v1/applications", "admin", 401, "for another path"},
		{"API with a token for Argo CD's", "POST", "/app-proxy" + listProcedure, "admin-argocd", 401, "for another path"},
		{"Argo CD's API without a token", "GET", "/app-proxy/argocd/api/version", "", 401, "not signed"},
		{"Argo CD's API that is not there", "POST", "/app-proxy/argocd/application.ApplicationService/UpdateSpec", "admin-argocd", 501, "in Git or with kubectl"},
		{"path with a second form", "POST", "/app-proxy/x/..%2f" + listProcedure, "operator", 400, "ambiguous"},
		{"path with dots", "POST", "/webhooks/../app-proxy" + listProcedure, "operator", 400, "ambiguous"},
		{"path with an empty segment", "POST", "/app-proxy/" + listProcedure, "operator", 400, "ambiguous"},
		{"webhook", "POST", "/webhooks/prod/shop", "", 200, "/webhooks/prod/shop||shop||{}"},
		{"webhook of another runtime", "POST", "/webhooks/other/shop", "", 404, "/webhooks/prod/<source>"},
		{"webhook of a longer name", "POST", "/webhooks/prod2/shop", "", 404, "/webhooks/prod/<source>"},
		{"webhook without a source", "POST", "/webhooks/prod/", "", 404, "/webhooks/prod/<source>"},
		{"webhook below a source", "POST", "/webhooks/prod/shop/more", "", 404, "/webhooks/prod/<source>"},
		{"no workflows", "GET", "/workflows/x", "operator-workflows", 404, "no workflow server"},
		{"workflows without a token", "GET", "/workflows/x", "", 401, "not signed"},
		{"workflows with a token for the API", "GET", "/workflows/x", "admin", 401, "for another path"},
		{"health", "GET", "/healthz", "", 200, "ok"},
		{"ready", "GET", "/readyz", "", 200, "ok"},
		{"metrics are elsewhere", "GET", "/metrics", "admin", 404, "a runtime serves"},
		{"root", "GET", "/", "", 404, "a runtime serves"},
		{"prefix only", "GET", "/app-proxy", "admin", 404, "a runtime serves"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ask(handler, c.method, c.target, c.bearer, strings.NewReader("{}"))
			if got.Code != c.status || !strings.Contains(got.Body.String(), c.want) {
				t.Errorf("got %d %s", got.Code, got.Body)
			}
			if got.Header().Get(wire.RouterHeader) != "prod" {
				t.Errorf("the answer does not name the runtime: %v", got.Header())
			}
		})
	}
}

// TestTokenBeforeBody: who has no token does not have a byte of the body read.
func TestTokenBeforeBody(t *testing.T) {
	for _, target := range []string{"/app-proxy" + listProcedure, "/workflows/x"} {
		request := httptest.NewRequest(http.MethodPost, target, unreadBody{t})
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		newRouter(nil).ServeHTTP(answer, request)
		if answer.Code != http.StatusUnauthorized {
			t.Errorf("%s: got %d", target, answer.Code)
		}
	}
}

// TestTwoTokens: a request with two tokens is not guessed about.
func TestTwoTokens(t *testing.T) {
	request := httptest.NewRequest(http.MethodPost, "/app-proxy"+listProcedure, strings.NewReader("{}"))
	request.Header["Authorization"] = []string{"Bearer admin", "Bearer forged"}
	answer := httptest.NewRecorder()
	newRouter(nil).ServeHTTP(answer, request)
	if answer.Code != http.StatusUnauthorized {
		t.Errorf("got %d", answer.Code)
	}
}

// TestBodyIsBounded: a request to the API has an end.
func TestBodyIsBounded(t *testing.T) {
	got := ask(newRouter(nil), http.MethodPost, "/app-proxy"+listProcedure, "operator", strings.NewReader(strings.Repeat("a", 5<<20)))
	if got.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d", got.Code)
	}
}

// TestReady: the reason of not being ready is not public.
func TestReady(t *testing.T) {
	handler := newRouter(func(o *router.Options) {
		o.Ready = func() error { return errors.New("the secret reason") }
	})
	got := ask(handler, http.MethodGet, "/readyz", "", nil)
	if got.Code != http.StatusServiceUnavailable || strings.Contains(got.Body.String(), "secret") {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
}

// TestOverload: more requests than there are places are refused, and places come
// back.
func TestOverload(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics := router.NewMetrics(registry)
	acquired, release := make(chan struct{}), make(chan struct{})
	handler := newRouter(func(o *router.Options) {
		o.Metrics = metrics
		o.AppProxy = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			acquired <- struct{}{}
			<-release
		})
	})
	const places = 512
	done := make(chan int, places)
	for range places {
		go func() {
			done <- ask(handler, http.MethodPost, "/app-proxy"+listProcedure, "operator", strings.NewReader("{}")).Code
		}()
		<-acquired
	}
	if got := ask(handler, http.MethodPost, "/app-proxy"+listProcedure, "operator", strings.NewReader("{}")); got.Code != http.StatusTooManyRequests {
		t.Errorf("one more: got %d %s", got.Code, got.Body)
	}
	close(release)
	for range places {
		if code := <-done; code != http.StatusOK {
			t.Errorf("one of them: got %d", code)
		}
	}
	counted := map[string]float64{}
	families := must.Get(registry.Gather())(t)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			counted[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
		}
	}
	if counted["overloaded"] != 1 || counted["served"] != places {
		t.Errorf("it was counted as %v", counted)
	}
}

// workflowServer is a server for workflows: an echo over a WebSocket, a stream, and
// what reached it.
func workflowServer(t *testing.T, goOn chan struct{}) *url.URL {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/workflows/socket", func(w http.ResponseWriter, r *http.Request) {
		connection, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		kind, message, err := connection.Read(r.Context())
		if err == nil {
			err = connection.Write(r.Context(), kind, append([]byte("echo "), message...))
		}
		if err != nil {
			t.Error(err)
		}
		_ = connection.Close(websocket.StatusNormalClosure, "")
	})
	mux.HandleFunc("/workflows/stream", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-goOn
		_, _ = io.WriteString(w, "second")
	})
	mux.HandleFunc("/workflows/seen", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(wire.RouterHeader, "liar")
		_, _ = io.WriteString(w, r.Header.Get("Authorization")+r.Header.Get("Cookie")+"|"+r.URL.RawQuery)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return must.Get(url.Parse(server.URL))(t)
}

// TestWorkflows: upgrades and streams go through with their path, and the token
// does not.
func TestWorkflows(t *testing.T) {
	goOn := make(chan struct{})
	address := workflowServer(t, goOn)
	server := httptest.NewServer(newRouter(func(o *router.Options) { o.Workflows = address }))
	defer server.Close()
	header := http.Header{"Authorization": {"Bearer operator-workflows"}, "Cookie": {"session=1"}}

	connection, _, err := websocket.Dial(t.Context(), server.URL+"/workflows/socket", &websocket.DialOptions{HTTPHeader: header})
	must.Do(t, err)
	must.Do(t, connection.Write(t.Context(), websocket.MessageText, []byte("hello")))
	if _, message, err := connection.Read(t.Context()); err != nil || string(message) != "echo hello" {
		t.Errorf("the socket said %q, %v", message, err)
	}
	_ = connection.CloseNow()
	if _, _, err := websocket.Dial(t.Context(), server.URL+"/workflows/socket", nil); err == nil {
		t.Error("a socket was opened without a token")
	}

	get := func(path string) *http.Response {
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil))(t)
		request.Header = header.Clone()
		answer := must.Get(http.DefaultClient.Do(request))(t)
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer
	}
	stream := get("/workflows/stream")
	first := make([]byte, len("first"))
	if _, err := io.ReadFull(stream.Body, first); err != nil || string(first) != "first" {
		t.Errorf("before the end of the stream: %q, %v", first, err)
	}
	close(goOn)
	if rest, err := io.ReadAll(stream.Body); err != nil || string(rest) != "second" {
		t.Errorf("the rest: %q, %v", rest, err)
	}
	seen := get("/workflows/seen?a=b")
	if text, err := io.ReadAll(seen.Body); err != nil || string(text) != "|a=b" || seen.Header.Get(wire.RouterHeader) != "prod" {
		t.Errorf("the server saw %q, %v; the answer had %v", text, err, seen.Header)
	}
}

// TestWorkflowsAway: a server that is away is not the runtime's failure.
func TestWorkflowsAway(t *testing.T) {
	handler := newRouter(func(o *router.Options) { o.Workflows = &url.URL{Scheme: "http", Host: "127.0.0.1:1"} })
	if got := ask(handler, http.MethodGet, "/workflows/x", "operator-workflows", nil); got.Code != http.StatusBadGateway {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
}

// FuzzPath: no path that a handler gets is ambiguous.
func FuzzPath(f *testing.F) {
	for _, path := range []string{"/app-proxy" + listProcedure, "/webhooks/prod/shop", "/webhooks/prod/../../app-proxy/x", "/app-proxy/%2e%2e/x", "//x"} {
		f.Add(path)
	}
	seen := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "..") && strings.Contains("/"+r.URL.Path+"/", "/../") || strings.Contains(r.URL.Path, "//") {
			f.Errorf("a handler got %q", r.URL.Path)
		}
	})
	handler := newRouter(func(o *router.Options) { o.AppProxy, o.Webhooks = seen, seen })
	f.Fuzz(func(t *testing.T, path string) {
		address, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		request := &http.Request{Method: http.MethodPost, URL: address, Header: http.Header{"Authorization": {"Bearer admin"}}, Body: http.NoBody}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if answer.Header().Get(wire.RouterHeader) != "prod" {
			t.Errorf("%q: the answer does not name the runtime", path)
		}
	})
}
