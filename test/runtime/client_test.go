package runtime

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// caller is a client with a credential: the services of the platform, and what is
// behind the platform by the name of a runtime.
type caller struct {
	http *http.Client
	url  string

	auth         platformv1connect.AuthServiceClient
	accounts     platformv1connect.AccountServiceClient
	keys         platformv1connect.KeyServiceClient
	audit        platformv1connect.AuditServiceClient
	runtimes     platformv1connect.RuntimeServiceClient
	git          platformv1connect.GitServiceClient
	applications platformv1connect.ApplicationServiceClient
	agent        platformv1connect.AgentServiceClient
}

// remote is the services of a runtime, through the platform.
type remote struct {
	applications runtimev1connect.ApplicationServiceClient
	runtime      runtimev1connect.RuntimeServiceClient
	gitSources   runtimev1connect.GitSourceServiceClient
	clusters     runtimev1connect.ClusterServiceClient
	integrations runtimev1connect.IntegrationServiceClient
}

func newCaller(client *http.Client, url string) *caller {
	return &caller{
		http: client, url: url,
		auth: platformv1connect.NewAuthServiceClient(client, url), accounts: platformv1connect.NewAccountServiceClient(client, url),
		keys: platformv1connect.NewKeyServiceClient(client, url), audit: platformv1connect.NewAuditServiceClient(client, url),
		runtimes: platformv1connect.NewRuntimeServiceClient(client, url), git: platformv1connect.NewGitServiceClient(client, url),
		applications: platformv1connect.NewApplicationServiceClient(client, url), agent: platformv1connect.NewAgentServiceClient(client, url),
	}
}

// of is the services of a runtime.
func (c *caller) of(runtime string) remote {
	url := c.url + wire.RuntimesPath + runtime + strings.TrimSuffix(wire.AppProxyPath, "/")
	return remote{
		applications: runtimev1connect.NewApplicationServiceClient(c.http, url), runtime: runtimev1connect.NewRuntimeServiceClient(c.http, url),
		gitSources: runtimev1connect.NewGitSourceServiceClient(c.http, url), clusters: runtimev1connect.NewClusterServiceClient(c.http, url),
		integrations: runtimev1connect.NewIntegrationServiceClient(c.http, url),
	}
}

// recorder keeps every response that a caller gets, but for the few whose purpose is
// to show a secret once.
type recorder struct {
	next http.RoundTripper

	programs.Output
}

// showsASecret are the procedures that give a secret to the one who asks for it.
func showsASecret(path string) bool {
	return slices.ContainsFunc([]string{"/SignIn", "/CreateKey", "/CreateUser", "/ResetPassword", "/RegisterRuntime", "/RenewCredential"}, func(name string) bool { return strings.HasSuffix(path, name) })
}

// RoundTrip keeps the response while it is read. It asks for one that is not
// compressed: a secret could not be found in it.
func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Accept-Encoding", "identity")
	request.Header.Del("Connect-Accept-Encoding")
	response, err := r.next.RoundTrip(request)
	if err != nil || showsASecret(request.URL.Path) {
		return response, err
	}
	if response.Header.Get("Content-Encoding")+response.Header.Get("Connect-Content-Encoding") != "" {
		_ = response.Body.Close()
		return nil, errors.New("the answer is compressed, and nobody could look for secrets in it")
	}
	_ = response.Header.Write(r) // it takes everything
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(response.Body, r), response.Body}
	return response, nil
}

// newRecorder leads every host of the tunnels' domain to the platform.
func newRecorder(authority *pkitest.Files, platform string) *recorder {
	dialer := &net.Dialer{}
	return &recorder{next: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: authority.Roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if host, _, _ := net.SplitHostPort(address); strings.HasSuffix(host, "."+tunnelDomain) {
				address = platform
			}
			return dialer.DialContext(ctx, network, address)
		},
	}}
}

// with is a caller with a token; an empty one is anonymous.
func (g *stage) with(token string) *caller {
	return newCaller(&http.Client{Transport: programs.Bearer(token, g.answers)}, g.url)
}

// firstKey signs in with a one-time password, chooses another, and makes a key
// that may everything that its user may.
func (g *stage) firstKey(t *testing.T, email, once, chosen string) string {
	t.Helper()
	jar := must.Get(cookiejar.New(nil))(t)
	token := ""
	session := newCaller(&http.Client{Jar: jar, Transport: programs.Header{Name: wire.CSRFHeader, Value: &token, Next: g.answers}}, g.url)
	signIn := func(password string) {
		t.Helper()
		token = ""
		answer, err := session.auth.SignIn(t.Context(), connect.NewRequest(&platformv1.SignInRequest{Email: email, Password: password}))
		if err != nil {
			t.Fatalf("%s cannot sign in: %v", email, err)
		}
		token = answer.Msg.GetCsrfToken()
	}
	signIn(once)
	must.Get(session.auth.ChangePassword(t.Context(), connect.NewRequest(&platformv1.ChangePasswordRequest{OldPassword: once, NewPassword: chosen})))(t)
	signIn(chosen)
	address, err := url.Parse(g.url)
	if err != nil || len(jar.Cookies(address)) == 0 {
		t.Fatalf("there is no cookie: %v", err)
	}
	for _, cookie := range jar.Cookies(address) {
		g.canary("the session of "+email, cookie.Value)
	}
	return g.newKey(t, session, &platformv1.CreateKeyRequest{Name: "tests"}).GetSecret()
}

// newKey makes a key. Its secret must be seen nowhere.
func (g *stage) newKey(t *testing.T, as *caller, asked *platformv1.CreateKeyRequest) *platformv1.CreateKeyResponse {
	t.Helper()
	answer := must.Get(as.keys.CreateKey(t.Context(), connect.NewRequest(asked)))(t)
	g.canary("the API key "+asked.GetName(), strings.Split(answer.Msg.GetSecret(), "_")[2])
	return answer.Msg
}

// scoped makes a key of the admin with one scope.
func (g *stage) scoped(t *testing.T, name string, scope platformv1.Scope) string {
	t.Helper()
	return g.newKey(t, g.admin, &platformv1.CreateKeyRequest{
		Name: name, Scopes: []platformv1.Scope{scope}, Lifetime: durationpb.New(patience * 10),
	}).GetSecret()
}

// wantCode fails unless an error has a code.
func wantCode(t *testing.T, what string, err error, code connect.Code) {
	t.Helper()
	if err == nil || connect.CodeOf(err) != code {
		t.Errorf("%s: got %v, not %s", what, err, code)
	}
}

// message is the response without its envelope.
func message[T any](answer *connect.Response[T], err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	if answer.Msg == nil {
		return nil, errors.New("there is no message")
	}
	return answer.Msg, nil
}

// mustMessage is message for what has to work.
func mustMessage[T any](answer *connect.Response[T], err error) func(t *testing.T) *T {
	return func(t *testing.T) *T {
		t.Helper()
		return must.Get(message(answer, err))(t)
	}
}
