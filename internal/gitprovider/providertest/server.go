package providertest

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitprovider"
)

// Token is a credential that the server accepts.
type Token struct {
	Value string
	// Username is sent with it in Basic authentication (Bitbucket Cloud);
	// empty for a bearer token.
	Username string

	Login  string
	UserID int64

	// Scopes are reported in headers or in the token's record; nil for tokens
	// without scopes, such as fine-grained ones.
	Scopes []string
	// Permissions of fine-grained tokens and GitHub Apps, as GitHub spells
	// them in X-Accepted-GitHub-Permissions: repository_hooks, contents, ….
	Permissions []string
	// Roles are read, write or admin, by the path of a repository, or of a
	// group, project or organization whose repositories inherit it.
	Roles map[string]string

	// Limit is the maximum permission of a Bitbucket Server token, regardless
	// of its user's role: read, write or admin; empty for no limit.
	Limit string

	ExpiresAt time.Time
	Expired   bool
	Revoked   bool
	// OAuth is set for tokens of the OAuth flow.
	OAuth bool
}

// Repository is an existing repository.
type Repository struct {
	Path          string
	Private       bool
	Empty         bool
	DefaultBranch string
	Hooks         []Hook
	Pulls         []Pull
	Statuses      []CommitStatus
	Deployments   []Deployment
}

// Hook is a stored webhook, with everything that a test may verify.
type Hook struct {
	ID        int64
	URL       string
	Secret    string
	Events    []string
	JSON      bool
	VerifyTLS bool
	Active    bool
}

// Application is a registered OAuth application.
type Application struct {
	ClientID, ClientSecret, Redirect string
}

// World is the initial state of a server.
type World struct {
	Tokens       []Token
	Repositories []Repository
	// Owners are User, Organization, group or project, by name: the owners of
	// repositories.
	Owners      map[string]string
	Application Application
	// Context is the base path of a self-hosted installation, such as /git.
	Context string
}

// Canned is a response that replaces the server's next one.
type Canned struct {
	Status int
	Header map[string]string
	Body   string
}

// Server is one fake provider. mu guards its state; handlers hold it.
type Server struct {
	// URL is the server's base URL, APIURL that of the API.
	URL, APIURL string
	// CA is the certificate to trust, as PEM.
	CA []byte
	// Close ends the server before the end of the test.
	Close func()
	// Git serves requests outside of the API, if set before the first
	// request: the repositories themselves.
	Git http.Handler
	// Created is called with the path of each created repository, before the
	// response is sent. It must not call the server.
	Created func(path string)

	kind   gitprovider.Kind
	t      testing.TB
	origin string // URL without the base path

	mu       sync.Mutex
	world    World
	canned   []Canned
	requests []string
	nextID   int64
	codes    map[string]grant
	refresh  map[string]bool
}

// Start runs a server for the provider until the test ends.
func Start(t testing.TB, kind gitprovider.Kind, world World) *Server {
	t.Helper()
	s := &Server{kind: kind, t: t, world: world, nextID: 1000, codes: map[string]grant{}, refresh: map[string]bool{}}
	// Every endpoint is registered with its method, so that an undocumented
	// method reaches unknown.
	mux := http.NewServeMux()
	prefix := ""
	var endpoints []endpoint
	switch kind {
	case gitprovider.GitHub:
		prefix, endpoints = "/api/v3", slices.Concat(gitHubEndpoints(), gitHubPullEndpoints(kind), gitHubDeliveryEndpoints())
	case gitprovider.GitLab:
		prefix, endpoints = "/api/v4", slices.Concat(gitLabEndpoints(), gitLabPullEndpoints(), gitLabDeliveryEndpoints())
	case gitprovider.Bitbucket:
		prefix, endpoints = "/2.0", append(bitbucketEndpoints(), bitbucketPullEndpoints()...)
	case gitprovider.BitbucketServer:
		endpoints = append(bitbucketServerEndpoints(), serverPullEndpoints()...)
	case gitprovider.Gitea:
		prefix, endpoints = "/api/v1", giteaEndpoints()
	default:
		t.Fatalf("unknown provider %q", kind)
	}
	for _, e := range endpoints {
		mux.Handle(e.method+" "+world.Context+prefix+e.path, s.serve(e))
	}
	// OAuth endpoints are not below the API's prefix.
	for _, e := range oauthEndpoints(kind) {
		mux.Handle(e.method+" "+world.Context+e.path, s.serve(e))
	}
	mux.HandleFunc("/", s.unknown)
	// TLS is always on: the client must not send a token over plain HTTP.
	listener := httptest.NewUnstartedServer(mux)
	listener.Config.ErrorLog = log.New(io.Discard, "", 0) // tests include clients that do not trust the CA
	listener.StartTLS()
	s.Close = listener.Close
	t.Cleanup(s.Close)
	s.origin, s.URL = listener.URL, listener.URL+world.Context
	s.APIURL = s.URL + prefix
	s.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: listener.Certificate().Raw})
	return s
}

// Respond queues responses for the next requests.
func (s *Server) Respond(canned ...Canned) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.canned = append(s.canned, canned...)
}

// Requests returns the requests to the API, as "GET /path?query".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Writes returns the requests other than GET and HEAD.
func (s *Server) Writes() []string {
	return slices.DeleteFunc(s.Requests(), func(r string) bool { return strings.HasPrefix(r, "GET ") || strings.HasPrefix(r, "HEAD ") })
}

// Hooks returns the webhooks of a repository.
func (s *Server) Hooks(path string) []Hook {
	s.mu.Lock()
	defer s.mu.Unlock()
	if repository := s.find(path); repository != nil {
		return slices.Clone(repository.Hooks)
	}
	return nil
}

// Repository returns a repository.
func (s *Server) Repository(path string) (Repository, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if repository := s.find(path); repository != nil {
		return *repository, true
	}
	return Repository{}, false
}

// SetToken replaces the token with the same value, or adds it.
func (s *Server) SetToken(token Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.world.Tokens {
		if s.world.Tokens[i].Value == token.Value {
			s.world.Tokens[i] = token
			return
		}
	}
	s.world.Tokens = append(s.world.Tokens, token)
}

// find returns the stored repository with a path, or nil.
func (s *Server) find(path string) *Repository {
	for i := range s.world.Repositories {
		// Paths of all providers are case-insensitive.
		if strings.EqualFold(s.world.Repositories[i].Path, path) {
			return &s.world.Repositories[i]
		}
	}
	return nil
}

// unknown handles undocumented paths: it fails the test, unless Git serves
// them.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	if s.Git != nil {
		s.Git.ServeHTTP(w, r)
		return
	}
	s.t.Errorf("%s does not document %s %s", s.kind.Title(), r.Method, r.URL.EscapedPath())
	http.NotFound(w, r)
}

// endpoint is one documented call.
type endpoint struct {
	method, path string
	page         string   // its documentation
	query        []string // accepted parameters
	repeated     []string // those that may be given several times
	// fields of a JSON body: string, bool, number, array or object; ! marks
	// required ones.
	fields map[string]string
	open   bool // no token needed
	form   bool // the body is a form
	handle func(*exchange)
}

// exchange is one request with its response.
type exchange struct {
	*Server
	w     http.ResponseWriter
	r     *http.Request
	token *Token
	body  map[string]any
	page  string
}

// serve returns the handler of an endpoint: it records and validates the
// request, then runs the endpoint under the lock.
func (s *Server) serve(e endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		// Requests are recorded before validation, so that tests see rejected
		// ones too.
		s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
		// Queued responses take precedence over everything: they simulate
		// outages and proxies.
		if len(s.canned) > 0 {
			writeCanned(w, s.canned[0])
			s.canned = s.canned[1:]
			return
		}
		x := &exchange{Server: s, w: w, r: r, page: e.page}
		x.checkQuery(e)
		// The order is that of a real server: a request without a valid token
		// never reaches validation of its body.
		if !x.checkHeaders(e) || !x.authenticate(e) || !x.readBody(e) {
			return
		}
		e.handle(x)
	})
}

// writeCanned writes a queued response.
func writeCanned(w http.ResponseWriter, canned Canned) {
	for name, value := range canned.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(canned.Status)
	_, _ = io.WriteString(w, canned.Body)
}

// undocumented fails the test.
func (x *exchange) undocumented(format string, args ...any) {
	x.t.Errorf("%s %s: %s (see %s)", x.r.Method, x.r.URL.RequestURI(), fmt.Sprintf(format, args...), x.page)
}

// checkQuery fails the test on undocumented query parameters.
func (x *exchange) checkQuery(e endpoint) {
	for name, values := range x.r.URL.Query() {
		if !slices.Contains(e.repeated, name) && (!slices.Contains(e.query, name) || len(values) != 1) {
			x.undocumented("the parameter %s=%v", name, values)
		}
	}
}

// checkHeaders fails the test on missing or wrong headers.
func (x *exchange) checkHeaders(e endpoint) bool {
	// GitHub rejects requests without a User-Agent.
	if x.r.Header.Get("User-Agent") == "" {
		x.undocumented("no User-Agent")
	}
	if x.r.TLS == nil {
		x.undocumented("plain HTTP")
	}
	// Only the API has GitHub's media type; the OAuth endpoints return plain
	// JSON.
	accept := "application/json"
	if x.kind == gitprovider.GitHub && strings.HasPrefix(x.r.URL.Path, x.world.Context+"/api/") {
		accept = "application/vnd.github+json"
		if !e.open && x.r.Header.Get("X-GitHub-Api-Version") != "2022-11-28" {
			x.undocumented("X-GitHub-Api-Version is %q", x.r.Header.Get("X-GitHub-Api-Version"))
		}
	}
	if got := x.r.Header.Get("Accept"); got != accept && !e.open {
		x.undocumented("Accept is %q, not %q", got, accept)
	}
	return true
}

// authenticate finds the token, and fails the test if it is sent in the wrong
// way.
func (x *exchange) authenticate(e endpoint) bool {
	// The same token must not work in both forms: Bitbucket's API tokens need
	// Basic authentication, its access tokens a bearer header.
	user, password, basic := x.r.BasicAuth()
	value := password
	if !basic {
		scheme := "Bearer "
		if x.kind == gitprovider.Gitea {
			scheme = "token "
		}
		value = strings.TrimPrefix(x.r.Header.Get("Authorization"), scheme)
	}
	for i := range x.world.Tokens {
		token := &x.world.Tokens[i]
		if token.Value != value || value == "" {
			continue
		}
		if (token.Username != "") != basic || token.Username != user {
			x.undocumented("the token is sent in the wrong way (basic %v, user %q)", basic, user)
			break
		}
		x.token = token
		break
	}
	// Public endpoints accept requests without a token.
	if e.open {
		return true
	}
	if x.token == nil || x.token.Expired || x.token.Revoked {
		unauthorized(x)
		return false
	}
	return true
}

// readBody decodes the body and validates its fields.
func (x *exchange) readBody(e endpoint) bool {
	raw, err := io.ReadAll(x.r.Body)
	if err != nil {
		x.undocumented("the body cannot be read: %v", err)
		return false
	}
	// Forms are validated by their handlers, which need the body again.
	if e.form {
		x.r.Body = io.NopCloser(strings.NewReader(string(raw)))
		return true
	}
	// Endpoints without documented fields accept no body.
	if e.fields == nil {
		if len(raw) > 0 {
			x.undocumented("a body")
		}
		return true
	}
	if got := x.r.Header.Get("Content-Type"); got != "application/json" {
		x.undocumented("Content-Type is %q", got)
	}
	if err := json.Unmarshal(raw, &x.body); err != nil {
		x.undocumented("the body is no JSON: %v", err)
		return false
	}
	return x.checkFields("", e.fields, x.body)
}

// checkFields validates names and types of the fields, recursively.
func (x *exchange) checkFields(prefix string, fields map[string]string, body map[string]any) bool {
	ok := true
	for name, value := range body {
		// An undocumented field has no type and is reported like a wrong one.
		want := strings.TrimSuffix(fields[prefix+name], "!")
		if want == "" || want != typeOf(value) {
			x.undocumented("the field %s%s is a %s, and documented is %q", prefix, name, typeOf(value), want)
			ok = false
		}
		if object, isObject := value.(map[string]any); isObject && want == "object" {
			ok = x.checkFields(prefix+name+".", fields, object) && ok
		}
	}
	for name, want := range fields {
		// Only the fields of this level are required here; nested objects are
		// checked by the recursion.
		rest, here := strings.CutPrefix(name, prefix)
		if _, found := body[rest]; strings.HasSuffix(want, "!") && here && !strings.Contains(rest, ".") && !found {
			x.undocumented("the field %s is missing", name)
			ok = false
		}
	}
	if !ok {
		x.respond(http.StatusUnprocessableEntity, map[string]any{"message": "Validation Failed"})
	}
	return ok
}

// typeOf returns the JSON type of a value.
func typeOf(value any) string {
	switch value.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case float64:
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}

// respond writes JSON.
func (x *exchange) respond(status int, body any) {
	if body == nil {
		x.w.WriteHeader(status)
		return
	}
	x.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	x.w.WriteHeader(status)
	_ = json.NewEncoder(x.w).Encode(body)
}
