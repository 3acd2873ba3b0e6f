package gateway_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/apprights"
	"slipway.dev/slipway/internal/platform/fleet"
	"slipway.dev/slipway/internal/platform/gateway"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const list = "/app-proxy/slipway.runtime.v1.ApplicationService/ListApplications"

// world is a gateway behind a real server, and a runtime that is one more: what it
// gets is recorded, and it responds as the test configures.
type world struct {
	store    *store.Store
	signer   *signing.Signer
	url      string
	account  store.Account
	admin    string // API key
	runtime  store.Runtime
	router   *httptest.Server
	unary    time.Duration // 0 is the default
	policies *apprights.Policies

	mu       sync.Mutex
	response http.HandlerFunc
	got      []*http.Request
}

// tunnels are connections that the hub would have: a request goes to a server of
// the test, or nowhere.
type tunnels struct{ w *world }

func (h tunnels) Transport(runtimeID string) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		runtime, err := h.w.store.RuntimeByID(r.Context(), runtimeID)
		if err != nil || runtime.Name != "tunnelled" {
			return nil, &hub.OfflineError{RuntimeID: runtimeID}
		}
		r.URL.Host = h.w.router.Listener.Addr().String()
		return http.DefaultTransport.RoundTrip(r)
	})
}

// WaitingTransport does not wait: no connection comes later here.
func (h tunnels) WaitingTransport(runtimeID string) http.RoundTripper { return h.Transport(runtimeID) }

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func newWorld(t *testing.T, change ...func(*world)) *world {
	t.Helper()
	w := &world{response: func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "{}") }}
	for _, f := range change {
		f(w)
	}
	opened, err := store.Open(t.Context(), store.Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "p.db")})
	must.Do(t, err)
	w.store = opened
	if w.signer, err = signing.New(t.Context(), opened, secret.New(strings.Repeat("k", 32)), time.Now); err != nil {
		t.Fatal(err)
	}
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	public := &url.URL{Scheme: "http", Host: listener.Addr().String()}
	callers := must.Get(identity.New(t.Context(), identity.Options{Store: opened, Key: secret.New(strings.Repeat("k", 32)), Runtimes: fleet.NewVerifier(opened, w.signer), PublicURL: public}))(t)
	direct := &http.Transport{}
	gate := must.Get(gateway.New(gateway.Options{
		Store: opened, Identity: callers, Signer: w.signer, Hub: tunnels{w}, Direct: direct, PublicURL: public,
		Policies: w.policies, TunnelDomain: "tunnels.example.com", Limits: gateway.Limits{WebhooksPerRuntime: 2, WebhookBytes: 1000, BodyBytes: 1 << 20, Unary: w.unary},
	}))(t)
	protocols := new(http.Protocols) // gRPC needs HTTP/2
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: gate, Protocols: protocols}}
	server.Start()
	w.url = server.URL
	w.router = httptest.NewServer(http.HandlerFunc(w.serveRouter))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		w.router.CloseClientConnections()
		w.router.Close()
		direct.CloseIdleConnections()
		http.DefaultClient.CloseIdleConnections()
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	w.fill(t)
	return w
}

// fill makes the account, its admin and its runtimes.
func (w *world) fill(t *testing.T) {
	t.Helper()
	w.account = must.Get(w.store.CreateAccount(t.Context(), store.Account{Name: "acme"}))(t)
	w.admin = w.key(t, store.RoleAdmin, identity.ScopeAll)
	w.runtime = w.addRuntime(t, "prod", platformv1.AccessMode_ACCESS_MODE_INGRESS, w.router.URL+"/base/")
	w.addRuntime(t, "tunnelled", platformv1.AccessMode_ACCESS_MODE_TUNNEL, "")
	w.addRuntime(t, "gone", platformv1.AccessMode_ACCESS_MODE_TUNNEL, "")
	w.addRuntime(t, "stranger", platformv1.AccessMode_ACCESS_MODE_MESH, w.router.URL)
}

func (w *world) addRuntime(t *testing.T, name string, mode platformv1.AccessMode, access string) store.Runtime {
	t.Helper()
	return must.Get(w.store.CreateRuntime(t.Context(), store.Runtime{
		AccountID: w.account.ID, Name: name, Namespace: name, Cluster: "c", ClusterUID: "u",
		AccessMode: int32(mode), AccessURL: access, HeartbeatAt: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
	}))(t)
}

func (w *world) key(t *testing.T, role store.Role, scope string) string {
	t.Helper()
	user := must.Get(w.store.CreateUser(t.Context(), store.User{AccountID: w.account.ID, Email: rand.Text() + "@example.com", Role: role}))(t)
	value := strings.ToLower(rand.Text() + rand.Text())
	hash := sha256.Sum256([]byte(value))
	key := must.Get(w.store.CreateKey(t.Context(), store.Key{AccountID: w.account.ID, UserID: user.ID, Name: "k", Prefix: "slw_", Hash: hash[:], Scopes: []string{scope}}))(t)
	return "slw_" + key.ID + "_" + value
}

// serveRouter is the runtime: it sets the router's header.
func (w *world) serveRouter(rw http.ResponseWriter, r *http.Request) {
	name := "prod"
	if !strings.HasPrefix(r.URL.Path, "/base/") {
		name = "tunnelled"
	}
	rw.Header().Set(wire.RouterHeader, name)
	w.mu.Lock()
	w.got = append(w.got, r.Clone(context.Background()))
	response := w.response
	w.mu.Unlock()
	response(rw, r)
}

// reply sets the runtime's response.
func (w *world) reply(response http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.response = response
}

// received returns the requests since the last call.
func (w *world) received() []*http.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	got := w.got
	w.got = nil
	return got
}

// call sends a request to the platform and reads the response.
func (w *world) call(t *testing.T, method, path string, change ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), method, w.url+path, strings.NewReader("{}")))(t)
	request.Header.Set("Content-Type", "application/json")
	for _, c := range change {
		c(request)
	}
	response := must.Get(http.DefaultTransport.RoundTrip(request))(t)
	defer response.Body.Close()
	body := must.Get(io.ReadAll(io.LimitReader(response.Body, 1<<20)))(t)
	return response, string(body)
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// content sets the body.
func content(body string) func(*http.Request) {
	return func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

// claimsOf checks a token with the published keys, as a runtime does.
func (w *world) claimsOf(t *testing.T, authorization string) wire.RuntimeClaims {
	t.Helper()
	var keys jose.JSONWebKeySet
	must.Do(t, json.Unmarshal([]byte(w.signer.PublicKeys()), &keys))
	parsed, err := jose.ParseSignedCompact(strings.TrimPrefix(authorization, "Bearer "), []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		t.Fatalf("the runtime got %q: %v", authorization, err)
	}
	payload := must.Get(parsed.Verify(keys.Keys[0]))(t)
	var claims wire.RuntimeClaims
	must.Do(t, json.Unmarshal(payload, &claims))
	return claims
}
