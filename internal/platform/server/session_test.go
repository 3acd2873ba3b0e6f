package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// browser is the console in a user's browser: a session cookie, the headers that
// browsers add, and the token of the session.
type browser struct {
	p    *platform
	http *http.Client
	csrf string
}

// signIn signs the first admin in with the password that was announced, and chooses
// another one, as the console requests.
func (p *platform) signIn() *browser {
	p.t.Helper()
	b := &browser{p: p, http: client(p.t, "", nil)}
	auth := platformv1connect.NewAuthServiceClient(b, p.url)
	_, once, _ := strings.Cut(p.announced.all()[0], " ")
	signedIn, err := auth.SignIn(p.t.Context(), connect.NewRequest(&platformv1.SignInRequest{Email: email, Password: once}))
	check(p.t, err)
	b.csrf = signedIn.Msg.GetCsrfToken()
	_, err = auth.ChangePassword(p.t.Context(), connect.NewRequest(&platformv1.ChangePasswordRequest{OldPassword: once, NewPassword: "correct horse battery"}))
	check(p.t, err)
	// The session is a new one. Its token comes with who is signed in.
	b.csrf = ""
	me, err := auth.Me(p.t.Context(), connect.NewRequest(&platformv1.MeRequest{}))
	check(p.t, err)
	b.csrf = me.Msg.GetCsrfToken()
	return b
}

// Do sends a request as a page of the console does.
func (b *browser) Do(request *http.Request) (*http.Response, error) {
	request.Header.Set("Origin", b.p.url)
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	request.Header.Set("Sec-Fetch-Mode", "cors")
	request.Header.Set("Referer", b.p.url+"/console/runtimes")
	if b.csrf != "" {
		request.Header.Set(wire.CSRFHeader, b.csrf)
	}
	return b.http.Do(request)
}

// post calls a procedure with an empty message. Only the beginning of a stream is
// read.
func (b *browser) post(path string) (status int, body string) {
	b.p.t.Helper()
	request, err := http.NewRequestWithContext(b.p.t.Context(), http.MethodPost, b.p.url+path, strings.NewReader("{}"))
	check(b.p.t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := b.Do(request)
	check(b.p.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	check(b.p.t, err)
	return response.StatusCode, string(text)
}

// TestConsoleSession: a session from the console reaches every procedure of the
// platform and, through the gateway, of a runtime; without the token of the session
// nothing is reached but who is signed in.
func TestConsoleSession(t *testing.T) {
	p := launch(t)
	b := p.signIn()
	var reached atomic.Int64
	p.joinRuntime(b, func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		_, _ = io.WriteString(w, "{}")
	})
	programs.Until(t, "a tunnel", func() bool {
		status, _ := b.post("/runtimes/prod/app-proxy/slipway.runtime.v1.RuntimeService/GetInfo")
		return status == http.StatusOK
	})
	for _, procedure := range permission.Procedures() {
		rule, _ := permission.Of(procedure)
		stream := strings.HasPrefix(procedure, "/slipway.platform.v1.") && strings.Contains(procedure, "/Watch")
		if rule.Permission == permission.Public || rule.Permission == permission.RuntimeOnly || stream || strings.HasSuffix(procedure, "/SignOut") {
			continue
		}
		path, runtime := procedure, strings.HasPrefix(procedure, "/slipway.runtime.")
		if runtime {
			path = "/runtimes/prod" + strings.TrimSuffix(wire.AppProxyPath, "/") + procedure
		}
		before := reached.Load()
		status, body := b.post(path)
		if status == http.StatusForbidden && !strings.Contains(body, "old password") || status == http.StatusUnauthorized {
			t.Errorf("%s with the token: %d %s", procedure, status, body)
		}
		if runtime && (status != http.StatusOK || reached.Load() != before+1) {
			t.Errorf("%s did not reach the runtime: %d %s", procedure, status, body)
		}
		before = reached.Load()
		stranger := &browser{p: p, http: b.http}
		status, body = stranger.post(path)
		me := procedure == platformv1connect.AuthServiceMeProcedure
		if me != (status == http.StatusOK) || !me && (status != http.StatusForbidden || !strings.Contains(body, wire.CSRFHeader)) {
			t.Errorf("%s without the token: %d %s", procedure, status, body)
		}
		if reached.Load() != before {
			t.Errorf("%s without the token reached the runtime", procedure)
		}
	}
	if err := b.watches(); err != nil {
		t.Errorf("watches with the token: %v", err)
	}
	if err := (&browser{p: p, http: b.http}).watches(); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("watches without the token: %v", err)
	}
	status, body := b.post("/slipway.platform.v1.AuthService/SignOut")
	if again, _ := b.post("/slipway.platform.v1.AuthService/Me"); status != http.StatusOK || again != http.StatusUnauthorized {
		t.Errorf("signed out: %d %s, and then %d", status, body, again)
	}
}

// watches begins what the console follows.
func (b *browser) watches() error {
	ctx, cancel := context.WithCancel(b.p.t.Context())
	defer cancel()
	runtimes, err := platformv1connect.NewRuntimeServiceClient(b, b.p.url).WatchRuntimes(ctx, connect.NewRequest(&platformv1.WatchRuntimesRequest{}))
	if err != nil {
		return err
	}
	defer runtimes.Close()
	applications, err := platformv1connect.NewApplicationServiceClient(b, b.p.url).WatchApplications(ctx, connect.NewRequest(&platformv1.WatchApplicationsRequest{}))
	if err != nil {
		return err
	}
	defer applications.Close()
	if !runtimes.Receive() {
		return runtimes.Err()
	}
	if !applications.Receive() {
		return applications.Err()
	}
	return nil
}

// joinRuntime registers the runtime prod in the session, and opens its tunnel.
func (p *platform) joinRuntime(b *browser, router http.HandlerFunc) {
	p.t.Helper()
	answer, err := platformv1connect.NewRuntimeServiceClient(b, p.url).RegisterRuntime(p.t.Context(), connect.NewRequest(&platformv1.RegisterRuntimeRequest{
		Name: "prod", Namespace: "slipway", ClusterUid: "uid", Version: "1.0.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL,
	}))
	check(p.t, err)
	agent(p.t, answer.Msg.GetCredential(), router)
}

// TestConsoleFromElsewhere: with the right cookie and token, a page of another
// origin still does nothing, on the platform and through the gateway.
func TestConsoleFromElsewhere(t *testing.T) {
	p := launch(t)
	b := p.signIn()
	for _, path := range []string{"/slipway.platform.v1.AccountService/GetAccount", "/runtimes/prod/app-proxy/slipway.runtime.v1.RuntimeService/GetInfo"} {
		for name, value := range map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+path, strings.NewReader("{}"))
			check(t, err)
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set(wire.CSRFHeader, b.csrf)
			request.Header.Set(name, value)
			response, err := b.http.Do(request)
			check(t, err)
			text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
			check(t, err)
			check(t, response.Body.Close())
			if response.StatusCode != http.StatusForbidden || !strings.Contains(string(text), "another site") {
				t.Errorf("%s with %s: %s", path, fmt.Sprint(name, " ", value), text)
			}
		}
	}
}
