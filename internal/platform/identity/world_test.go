package identity_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

const (
	adminEmail    = "ann@example.com"
	adminPassword = "correct horse battery"
	userEmail     = "bob@example.com"
	userPassword  = "staple staple correct"
)

// testKey is the text of the key file.
var testKey = secret.New("0123456789abcdef0123456789abcdef")

// clock is the time of a world. It goes on by itself unless it is stopped, and
// can jump.
type clock struct {
	mu      sync.Mutex
	jump    time.Duration
	stopped time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped.IsZero() {
		return c.stopped.Add(c.jump)
	}
	return time.Now().Add(c.jump)
}

// stop lets the clock jump only, for tests that count what happens within an
// interval.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = time.Now()
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jump += d
}

// world is a platform with its store, on a real socket.
type world struct {
	t        *testing.T
	file     string
	clock    *clock
	store    *store.Store
	signer   *signing.Signer
	identity *identity.Identity
	options  identity.Options
	url      string
	logs     *programs.Output
	once     secret.Text
}

// newWorld starts a platform with the first admin, who has a one-time password.
func newWorld(t *testing.T, change ...func(*identity.Options)) *world {
	t.Helper()
	w := &world{t: t, file: filepath.Join(t.TempDir(), "platform.db"), clock: &clock{}, logs: &programs.Output{}}
	ctx := t.Context()
	var err error
	w.store, err = store.Open(ctx, store.Options{URL: "sqlite://" + w.file, Now: w.clock.now})
	must(t, err)
	t.Cleanup(func() { _ = w.store.Close() })
	var created bool
	w.once, created, err = identity.Bootstrap(ctx, w.store, "Example", adminEmail, identity.SignInPolicy{})
	must(t, err)
	if !created {
		t.Fatal("nothing was made")
	}
	w.signer, err = signing.New(ctx, w.store, testKey, w.clock.now)
	must(t, err)
	w.listen(change...)
	return w
}

// listen serves the world's store on a new port, as a restart with other
// options does.
func (w *world) listen(change ...func(*identity.Options)) {
	w.t.Helper()
	t := w.t
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w.url = "http://" + listener.Addr().String()
	public, err := url.Parse(w.url)
	must(t, err)
	options := identity.Options{
		Store: w.store, Key: testKey, Runtimes: w.signer, PublicURL: public, Now: w.clock.now, Version: "v1.2.3",
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Log:            slog.New(slog.NewTextHandler(w.logs, nil)),
	}
	for _, f := range change {
		f(&options)
	}
	w.options = options
	w.identity, err = identity.New(t.Context(), options)
	must(t, err)
	w.serve(listener)
}

// serve serves the services of identity, and the fleet's services as stubs behind
// the same guard.
func (w *world) serve(listener net.Listener) {
	mux := http.NewServeMux()
	for path, handler := range w.identity.Handlers() {
		mux.Handle(path, handler)
	}
	guard := w.identity.HandlerOptions(1 << 20)
	mux.Handle(platformv1connect.NewRuntimeServiceHandler(endlessRuntimes{}, guard))
	mux.Handle(platformv1connect.NewGitServiceHandler(platformv1connect.UnimplementedGitServiceHandler{}, guard))
	mux.Handle(platformv1connect.NewApplicationServiceHandler(platformv1connect.UnimplementedApplicationServiceHandler{}, guard))
	mux.Handle(platformv1connect.NewHistoryServiceHandler(platformv1connect.UnimplementedHistoryServiceHandler{}, guard))
	// The interceptor alone must be enough.
	mux.Handle(platformv1connect.NewAgentServiceHandler(platformv1connect.UnimplementedAgentServiceHandler{}, connect.WithInterceptors(w.identity.Interceptor())))
	mux.HandleFunc("/gateway/", func(rw http.ResponseWriter, r *http.Request) {
		if _, err := w.identity.Authenticate(r); err != nil {
			http.Error(rw, err.Error(), http.StatusForbidden)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	w.t.Cleanup(func() { _ = server.Close() })
}

// endlessRuntimes watches until it is stopped.
type endlessRuntimes struct {
	platformv1connect.UnimplementedRuntimeServiceHandler
}

// WatchRuntimes sends one message and waits.
func (endlessRuntimes) WatchRuntimes(ctx context.Context, _ *connect.Request[platformv1.WatchRuntimesRequest], stream *connect.ServerStream[platformv1.WatchRuntimesResponse]) error {
	if err := stream.Send(&platformv1.WatchRuntimesResponse{Synced: true}); err != nil {
		return err
	}
	<-ctx.Done()
	return stream.Send(&platformv1.WatchRuntimesResponse{Deleted: "must not arrive"})
}

// person calls the platform with a cookie jar, or a bearer, and headers.
type person struct {
	w      *world
	jar    http.CookieJar
	header http.Header
	http   *http.Client
}

// RoundTrip adds the headers of the person.
func (p *person) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	for name, values := range p.header {
		request.Header[name] = values
	}
	return http.DefaultTransport.RoundTrip(request)
}

func (w *world) nobody() *person {
	jar, err := cookiejar.New(nil)
	must(w.t, err)
	p := &person{w: w, jar: jar, header: http.Header{}}
	p.http = &http.Client{Transport: p, Jar: jar, Timeout: time.Minute}
	return p
}

func (w *world) bearer(token string) *person {
	p := w.nobody()
	p.header.Set("Authorization", "Bearer "+token)
	return p
}

// from sets the client's address, through a trusted proxy.
func (p *person) from(address string) *person {
	p.header.Set("X-Forwarded-For", address)
	return p
}

func (p *person) auth() platformv1connect.AuthServiceClient {
	return platformv1connect.NewAuthServiceClient(p.http, p.w.url)
}

func (p *person) accounts() platformv1connect.AccountServiceClient {
	return platformv1connect.NewAccountServiceClient(p.http, p.w.url)
}

func (p *person) keys() platformv1connect.KeyServiceClient {
	return platformv1connect.NewKeyServiceClient(p.http, p.w.url)
}

func (p *person) runtimes() platformv1connect.RuntimeServiceClient {
	return platformv1connect.NewRuntimeServiceClient(p.http, p.w.url)
}

// signIn signs in and keeps the CSRF token for what follows.
func (p *person) signIn(email, password string) (*platformv1.SignInResponse, error) {
	response, err := p.auth().SignIn(p.w.t.Context(), connect.NewRequest(&platformv1.SignInRequest{Email: email, Password: password}))
	if err != nil {
		return nil, err
	}
	p.header.Set(wire.CSRFHeader, response.Msg.GetCsrfToken())
	return response.Msg, nil
}

// cookie is the value of the session's cookie.
func (p *person) cookie() string {
	at, err := url.Parse(p.w.url)
	must(p.w.t, err)
	for _, cookie := range p.jar.Cookies(at) {
		if cookie.Name == "slipway" {
			return cookie.Value
		}
	}
	return ""
}

// admin signs in as the first admin, after choosing a password.
func (w *world) admin() *person {
	w.t.Helper()
	p := w.nobody()
	if _, err := p.signIn(adminEmail, adminPassword); err == nil {
		return p
	}
	_, err := p.signIn(adminEmail, w.once.Reveal())
	must(w.t, err)
	w.choose(p, w.once.Reveal(), adminPassword)
	return p
}

func (w *world) choose(p *person, old, chosen string) {
	w.t.Helper()
	_, err := p.auth().ChangePassword(w.t.Context(), connect.NewRequest(&platformv1.ChangePasswordRequest{OldPassword: old, NewPassword: chosen}))
	must(w.t, err)
	me, err := p.auth().Me(w.t.Context(), connect.NewRequest(&platformv1.MeRequest{}))
	must(w.t, err)
	p.header.Set(wire.CSRFHeader, me.Msg.GetCsrfToken())
}

// user makes a user and signs in.
func (w *world) user(admin *person) (*person, *platformv1.User) {
	w.t.Helper()
	made, err := admin.accounts().CreateUser(w.t.Context(), connect.NewRequest(&platformv1.CreateUserRequest{Email: userEmail, Name: "Bob", Role: platformv1.Role_ROLE_OPERATOR}))
	must(w.t, err)
	p := w.nobody()
	_, err = p.signIn(userEmail, made.Msg.GetOneTimePassword())
	must(w.t, err)
	w.choose(p, made.Msg.GetOneTimePassword(), userPassword)
	return p, made.Msg.GetUser()
}

// changeUser changes a user in the store, and ends nothing.
func (w *world) changeUser(email string, change func(*store.User)) {
	w.t.Helper()
	user, err := w.store.UserByEmail(w.t.Context(), email)
	must(w.t, err)
	_, err = w.store.ChangeUser(w.t.Context(), user.AccountID, user.ID, func(now *store.User) (store.Ending, error) {
		change(now)
		return store.EndNothing, nil
	})
	must(w.t, err)
}

// key makes an API key.
func (p *person) key(name string, life time.Duration, scopes ...platformv1.Scope) *platformv1.CreateKeyResponse {
	p.w.t.Helper()
	request := &platformv1.CreateKeyRequest{Name: name, Scopes: scopes}
	if life > 0 {
		request.Lifetime = durationpb.New(life)
	}
	made, err := p.keys().CreateKey(p.w.t.Context(), connect.NewRequest(request))
	must(p.w.t, err)
	return made.Msg
}

// may tries something small that needs a caller who has chosen a password.
func (p *person) may() error {
	_, err := p.accounts().GetAccount(p.w.t.Context(), connect.NewRequest(&platformv1.GetAccountRequest{}))
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want checks the code of an error; 0 is none.
func want(t *testing.T, what string, err error, code connect.Code) {
	t.Helper()
	switch {
	case err == nil && code != 0:
		t.Errorf("%s: went through, want %v", what, code)
	case err != nil && connect.CodeOf(err) != code:
		t.Errorf("%s: %v, want %v", what, err, code)
	}
}

func asConnect(err error, to **connect.Error) bool { return errors.As(err, to) }

// altered is a secret that differs in one character, near its end.
func altered(secret string) string {
	at := len(secret) - 5
	other := "a"
	if secret[at:at+1] == other {
		other = "b"
	}
	return secret[:at] + other + secret[at+1:]
}
