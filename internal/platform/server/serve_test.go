package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/access/tunnel"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/identity/oidctest"
	"slipway.dev/slipway/internal/platform/server"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// certificateFiles are the files of a pair.
type certificateFiles struct{ cert, key string }

func newCertificateFiles(t *testing.T, pair pkitest.Pair) certificateFiles {
	t.Helper()
	dir := t.TempDir()
	files := certificateFiles{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
	files.write(t, pair)
	return files
}

func (f certificateFiles) write(t *testing.T, pair pkitest.Pair) {
	t.Helper()
	check(t, os.WriteFile(f.cert, []byte(pair.Chain), 0o600))
	check(t, os.WriteFile(f.key, []byte(pair.Key), 0o600))
}

// TestTLS: the API, with HTTP/2 and HTTP/1.1, behind a certificate that is replaced
// while the platform runs.
func TestTLS(t *testing.T) {
	authority := pkitest.NewAuthority(t)
	files := newCertificateFiles(t, authority.Issue(t, "127.0.0.1", "first.example.com"))
	p := launch(t, func(o *server.Options) {
		certificate, err := server.LoadCertificate(files.cert, files.key, slog.New(slog.DiscardHandler))
		check(t, err)
		o.Certificate, o.PublicURL.Scheme = certificate, "https"
	})
	shown := func(config *tls.Config) (string, error) {
		config.RootCAs = authority.Pool
		connection, err := tls.Dial("tcp", strings.TrimPrefix(p.url, "https://"), config)
		if err != nil {
			return "", err
		}
		defer connection.Close()
		return connection.ConnectionState().PeerCertificates[0].DNSNames[0], nil
	}
	if name, err := shown(&tls.Config{}); err != nil || name != "first.example.com" {
		t.Errorf("shown %q, %v", name, err)
	}
	if _, err := shown(&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool}, ForceAttemptHTTP2: protocol == "HTTP/2.0"}
		response, err := client(t, "", transport).Post(p.url+"/slipway.platform.v1.AuthService/Methods", "application/json", strings.NewReader("{}"))
		check(t, err)
		check(t, response.Body.Close())
		if response.StatusCode != http.StatusOK || response.Proto != protocol || response.Header.Get("Strict-Transport-Security") == "" {
			t.Errorf("%s: %s %s %v", protocol, response.Proto, response.Status, response.Header)
		}
	}
	files.write(t, authority.Issue(t, "127.0.0.1", "second.example.com"))
	programs.Until(t, "the second certificate", func() bool {
		name, err := shown(&tls.Config{})
		check(t, err)
		return name == "second.example.com"
	})
	if _, err := server.LoadCertificate(files.cert, filepath.Join(t.TempDir(), "none"), nil); err == nil || !strings.Contains(err.Error(), files.cert) {
		t.Errorf("files that are not there: %v", err)
	}
}

// TestOIDCThroughServer: a user signs in through the identity provider, with the
// server, its cookies and its redirects as they are.
func TestOIDCThroughServer(t *testing.T) {
	provider := oidctest.New(t)
	p := launch(t, func(o *server.Options) {
		o.OIDC = &identity.OIDCOptions{
			Name: "Example SSO", Issuer: provider.URL, ClientID: oidctest.ClientID, ClientSecret: secret.New(oidctest.ClientSecret),
			AllowedDomains: []string{"example.com"}, CreateUsers: true,
			RoleClaim: "groups", Roles: map[string]store.Role{"ops": store.RoleAdmin},
		}
		provider.Public = o.PublicURL.String()
	})
	signIn := func() (*http.Client, *platformv1.MeResponse, error) {
		browser := client(t, "", nil)
		response, err := browser.Get(p.url + "/auth/oidc/login?return=" + url.QueryEscape("/runtimes-page"))
		check(t, err)
		check(t, response.Body.Close())
		me, err := platformv1connect.NewAuthServiceClient(browser, p.url).Me(t.Context(), connect.NewRequest(&platformv1.MeRequest{}))
		if err != nil {
			return browser, nil, err
		}
		if response.Request.URL.Path != "/runtimes-page" {
			t.Errorf("came back to %s", response.Request.URL)
		}
		return browser, me.Msg, nil
	}
	provider.Next(map[string]any{"groups": []string{"ops"}}, nil)
	browser, me, err := signIn()
	check(t, err)
	if me.GetUser().GetEmail() != "carol@example.com" || me.GetUser().GetRole() != platformv1.Role_ROLE_ADMIN {
		t.Errorf("signed in as %v", me.GetUser())
	}
	runtimes := platformv1connect.NewRuntimeServiceClient(browser, p.url)
	create := func(csrf string) error {
		request := connect.NewRequest(&platformv1.RegisterRuntimeRequest{Name: "prod", Namespace: "n", ClusterUid: "u", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL})
		request.Header().Set(wire.CSRFHeader, csrf)
		_, err := runtimes.RegisterRuntime(t.Context(), request)
		return err
	}
	if err := create(""); connect.CodeOf(err) != connect.CodePermissionDenied && connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("a change without the CSRF token: %v", err)
	}
	check(t, create(me.GetCsrfToken()))
	provider.Next(map[string]any{"email": "eve@evil.example", "sub": "eve"}, nil)
	if _, _, err := signIn(); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("somebody of another domain: %v", err)
	}
	if strings.Contains(p.logs.String(), oidctest.ClientSecret) {
		t.Error("the client's secret is in the log")
	}
}

// TestStopWithStreams: what runs when the platform stops is finished, watches end
// with a reason, and nothing new is taken.
func TestStopWithStreams(t *testing.T) {
	p := launch(t)
	key := p.key(identity.ScopeAll)
	services := platformv1connect.NewRuntimeServiceClient(client(t, key, nil), p.url)
	answer, err := services.RegisterRuntime(t.Context(), connect.NewRequest(&platformv1.RegisterRuntimeRequest{
		Name: "prod", Namespace: "slipway", ClusterUid: "uid", Version: "1.0.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL,
	}))
	check(t, err)
	release := make(chan struct{})
	agent(t, answer.Msg.GetCredential(), func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintln(w, "first")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Query().Has("wait") {
			<-release
		}
		_, _ = fmt.Fprintln(w, "second")
	})
	ask := func(query string) (*http.Response, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/runtimes/prod/app-proxy/slipway.runtime.v1.RuntimeService/GetInfo"+query, strings.NewReader("{}"))
		check(t, err)
		request.Header.Set("Content-Type", "application/json")
		return client(t, key, nil).Do(request)
	}
	programs.Until(t, "a tunnel", func() bool {
		response, err := ask("")
		check(t, err)
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
	running, err := ask("?wait=1")
	check(t, err)
	defer running.Body.Close()
	lines := bufio.NewReader(running.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "first\n" {
		t.Fatalf("%q, %v", line, err)
	}
	watch, err := services.WatchRuntimes(t.Context(), connect.NewRequest(&platformv1.WatchRuntimesRequest{}))
	check(t, err)
	defer watch.Close()
	for watch.Receive() && !watch.Msg().GetSynced() {
	}
	p.cancel()
	for watch.Receive() {
	}
	if err := watch.Err(); connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "shutting down") {
		t.Errorf("the watch ended with %v", err)
	}
	programs.Until(t, "a closed door", func() bool { response, err := ask(""); return err != nil || response.Body.Close() != nil })
	close(release)
	if rest, err := io.ReadAll(lines); err != nil || string(rest) != "second\n" {
		t.Errorf("the running request was cut: %q, %v", rest, err)
	}
	p.over()
}

// agent opens a tunnel with a router.
func agent(t *testing.T, credential *platformv1.Credential, router http.HandlerFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- tunnel.Run(ctx, tunnel.Options{
			URLs:  credential.GetTunnelUrls,
			Token: func(context.Context) (string, error) { return credential.GetAccessToken(), nil },
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set(wire.RouterHeader, "prod")
				router(w, r)
			}),
		})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("the tunnel does not end")
		}
	})
}

// TestAddresses: every address has one spelling, unknown ones get an error in the form
// of the API, and responses cannot be framed, sniffed or cached.
func TestAddresses(t *testing.T) {
	p := launch(t)
	key := p.key(identity.ScopeRead)
	for path, want := range map[string]int{
		"/slipway.platform.v1.RuntimeService/ListRuntimes":      http.StatusOK,
		"/slipway.platform.v1.AuthService/Methods":              http.StatusOK,
		"/slipway.platform.v1.RuntimeService%2FListRuntimes":    http.StatusNotFound,
		"/slipway.platform.v1.RuntimeService/ListRuntimes/":     http.StatusNotFound,
		"//slipway.platform.v1.RuntimeService/ListRuntimes":     http.StatusNotFound,
		"/x/../slipway.platform.v1.RuntimeService/ListRuntimes": http.StatusNotFound,
		"/slipway.platform.v1.NoService/List":                   http.StatusNotFound,
		"/":                                                     http.StatusMethodNotAllowed, // the console's, as all below it
		"/console/settings":                                     http.StatusMethodNotAllowed,
		"/metrics":                                              http.StatusNotFound,
		"/debug/pprof/":                                         http.StatusNotFound,
		"/users/reset-password":                                 http.StatusNotFound,
		wire.PeerPath + "r/app":                                 http.StatusUnauthorized,
		wire.RuntimesPath + "none/app-proxy/slipway.runtime.v1.RuntimeService/GetInfo": http.StatusNotFound,
	} {
		response, err := client(t, key, nil).Post(p.url+path, "application/json", strings.NewReader("{}"))
		check(t, err)
		body, err := io.ReadAll(response.Body)
		check(t, err)
		check(t, response.Body.Close())
		if response.StatusCode != want {
			t.Errorf("%s: %s %s", path, response.Status, body)
		}
		if strings.HasPrefix(path, wire.PeerPath) {
			continue
		}
		framed := !strings.HasPrefix(path, wire.RuntimesPath) && !strings.Contains(response.Header.Get("Content-Security-Policy"), "'none'")
		if response.Header.Get("X-Content-Type-Options") != "nosniff" || framed {
			t.Errorf("%s: %v", path, response.Header)
		}
		if response.StatusCode == http.StatusOK && response.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s may be kept: %v", path, response.Header)
		}
		if text := (struct{ Code string }{}); response.StatusCode == http.StatusNotFound && json.Unmarshal(body, &text) != nil {
			t.Errorf("%s: %s", path, body)
		}
	}
}
