package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// TestNoCredentialPasses: nothing with which the caller showed who they are reaches
// the runtime, nor what it must not believe, and the token is for this runtime
// only.
func TestNoCredentialPasses(t *testing.T) {
	w := newWorld(t)
	canaries := map[string]string{
		"Cookie": "slipway=canary-cookie", wire.CSRFHeader: "canary-csrf", "Proxy-Authorization": "Basic canary", "Referer": "https://x/canary",
		"X-Forwarded-For": "canary", "X-Forwarded-Host": "canary", "Forwarded": "for=canary", "X-Real-Ip": "canary",
		"X-Forwarded-Client-Cert": "canary", "X-Forwarded-User": "canary", "Connection": "X-Canary", "X-Canary": "canary", "Via": "canary",
	}
	for _, name := range []string{"prod", "tunnelled"} {
		response, body := w.call(t, http.MethodPost, "/runtimes/"+name+list+"?a=b", bearer(w.admin), func(r *http.Request) {
			for name, value := range canaries {
				r.Header.Set(name, value)
			}
			r.Header.Set("X-Kept", "yes")
		})
		if response.StatusCode != http.StatusOK || body != "{}" {
			t.Fatalf("%s: %d %s", name, response.StatusCode, body)
		}
		got := w.received()[0]
		if seen := fmt.Sprint(got.Header, got.Host, got.URL); strings.Contains(seen, "canary") || strings.Contains(seen, w.admin) {
			t.Errorf("%s: the runtime sees %s", name, seen)
		}
		if !strings.HasSuffix(got.URL.Path, list) || got.URL.RawQuery != "a=b" || got.Header.Get("X-Kept") != "yes" {
			t.Errorf("%s: got %s %v", name, got.URL, got.Header)
		}
		runtime := must.Get(w.store.RuntimeByName(t.Context(), w.account.ID, name))(t)
		claims := w.claimsOf(t, got.Header.Get("Authorization"))
		if claims.RuntimeID != runtime.ID || claims.AccountID != w.account.ID || claims.Role != "admin" || claims.Prefix != wire.AppProxyPath ||
			claims.Issuer != w.url || claims.UserID == "" || !strings.HasSuffix(claims.Email, "@example.com") {
			t.Errorf("%s: claims %+v", name, claims)
		}
	}
}

// TestAnswerIsTamed: a runtime sets no cookie on the platform's origin and runs no
// script there.
func TestAnswerIsTamed(t *testing.T) {
	w := newWorld(t)
	w.reply(func(rw http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{
			"Set-Cookie", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials",
			"Service-Worker-Allowed", "Refresh", "Www-Authenticate", "Location", "Link", "Report-To", "Speculation-Rules",
		} {
			rw.Header().Set(name, "canary=1")
		}
		rw.Header().Set("Content-Security-Policy", "default-src canary")
		rw.Header().Set("Content-Type", "text/html")
		rw.Header().Set("X-Kept", "yes")
		_, _ = io.WriteString(rw, "<script>")
	})
	for _, path := range []string{list, "/workflows/index.html"} {
		method := http.MethodPost
		if strings.HasPrefix(path, "/workflows/") {
			method = http.MethodGet
		}
		response, _ := w.call(t, method, "/runtimes/prod"+path, bearer(w.admin))
		if seen := fmt.Sprint(response.Header); strings.Contains(seen, "canary") || response.Header.Get("X-Kept") != "yes" {
			t.Errorf("%s: the browser sees %s", path, seen)
		}
		policy := response.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "sandbox") || strings.Contains(policy, "allow-same-origin") || response.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: a script of the runtime could run as the platform: %v", path, response.Header)
		}
	}
	w.reply(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Location", "/workflows/login")
		rw.WriteHeader(http.StatusFound)
	})
	if response, _ := w.call(t, http.MethodGet, "/runtimes/prod/workflows/", bearer(w.admin)); response.Header.Get("Location") != "/runtimes/prod/workflows/login" {
		t.Errorf("a redirect of the workflow server leads to %q", response.Header.Get("Location"))
	}
	w.reply(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusUnauthorized) })
	if response, _ := w.call(t, http.MethodPost, "/runtimes/prod"+list, bearer(w.admin)); response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a runtime that does not know the platform signs its user out: %d", response.StatusCode)
	}
}

// TestWhoMay: callers are known and allowed before anything reaches a runtime.
func TestWhoMay(t *testing.T) {
	w := newWorld(t)
	user := w.key(t, store.RoleOperator, identity.ScopeAll)
	viewer := w.key(t, store.RoleViewer, identity.ScopeAll)
	reader := w.key(t, store.RoleAdmin, identity.ScopeRead)
	installer := w.key(t, store.RoleAdmin, identity.ScopeRuntimeRegister)
	agent, _, err := w.signer.RuntimeAccess(w.runtime, 1)
	must.Do(t, err)
	must.Do(t, w.store.PutCredential(t.Context(), store.RuntimeCredential{RuntimeID: w.runtime.ID, Generation: 1, RefreshHash: []byte("x")}))
	const (
		sync       = "/app-proxy/slipway.runtime.v1.ApplicationService/Sync"
		remove     = "/app-proxy/slipway.runtime.v1.ApplicationService/DeleteApplication"
		addCluster = "/app-proxy/slipway.runtime.v1.ClusterService/AddCluster"
	)
	for _, c := range []struct {
		name, method, path, token string
		want                      int
	}{
		{"user lists", "POST", list, user, 200},
		{"user syncs", "POST", sync, user, 200},
		{"user adds a cluster", "POST", addCluster, user, 403},
		{"admin adds a cluster", "POST", addCluster, w.admin, 200},
		{"viewer lists", "POST", list, viewer, 200},
		{"viewer syncs", "POST", sync, viewer, 403},
		{"viewer reads logs", "POST", "/app-proxy/slipway.runtime.v1.ApplicationService/Logs", viewer, 403},
		{"user deletes", "POST", remove, user, 403},
		{"admin deletes", "POST", remove, w.admin, 200},
		{"reader lists", "POST", list, reader, 200},
		{"reader syncs", "POST", sync, reader, 403},
		{"installer lists", "POST", list, installer, 403},
		{"agent lists", "POST", list, agent, 403},
		{"nobody lists", "POST", list, "", 401},
		{"wrong key", "POST", list, w.admin + "x", 401},
		{"a procedure by GET", "GET", list, w.admin, 405},
		{"no procedure", "POST", "/app-proxy/slipway.runtime.v1.ApplicationService/Nope", w.admin, 403},
		{"a procedure of the platform", "POST", "/app-proxy/slipway.platform.v1.AuthService/Methods", w.admin, 403},
		{"workflows", "GET", "/workflows/x", user, 200},
		{"workflows, viewer", "GET", "/workflows/x", viewer, 200},
		{"workflows, viewer changes", "POST", "/workflows/x", viewer, 403},
		{"workflows, user changes", "POST", "/workflows/x", user, 200},
		{"workflows, reader", "POST", "/workflows/x", reader, 403},
		{"workflows, nobody", "GET", "/workflows/x", "", 401},
		{"webhooks without a host", "POST", "/webhooks/prod/github", w.admin, 404},
		{"another path", "GET", "/metrics", w.admin, 404},
		{"another account's or none", "POST", "/../other" + list, w.admin, 400},
	} {
		w.received()
		response, body := w.call(t, c.method, "/runtimes/prod"+c.path, func(r *http.Request) {
			if c.token != "" {
				bearer(c.token)(r)
			}
		})
		if response.StatusCode != c.want {
			t.Errorf("%s: got %d %s, want %d", c.name, response.StatusCode, body, c.want)
		}
		if got := w.received(); (c.want == 200) != (len(got) == 1) {
			t.Errorf("%s: the runtime got %d requests", c.name, len(got))
		}
	}
}

// TestOtherAccount: the runtime of another account is not there, by path or host.
func TestOtherAccount(t *testing.T) {
	w := newWorld(t)
	mine := w.account
	other := must.Get(w.store.CreateAccount(t.Context(), store.Account{Name: "other"}))(t)
	w.account = other
	stranger := w.key(t, store.RoleAdmin, identity.ScopeAll)
	if response, _ := w.call(t, http.MethodPost, "/runtimes/prod"+list, bearer(stranger)); response.StatusCode != http.StatusNotFound {
		t.Errorf("by path: %d", response.StatusCode)
	}
	name := wire.TunnelLabel(mine.ID, "tunnelled") + ".tunnels.example.com"
	w.addRuntime(t, "tunnelled", platformv1.AccessMode_ACCESS_MODE_TUNNEL, "") // the stranger has one of that name
	if response, _ := w.call(t, http.MethodPost, list, bearer(stranger), host(name)); response.StatusCode != http.StatusNotFound {
		t.Errorf("by host: %d", response.StatusCode)
	}
	if response, body := w.call(t, http.MethodPost, list, bearer(w.admin), host(strings.ToUpper(name)+":443")); response.StatusCode != http.StatusOK {
		t.Errorf("the owner by host: %d %s", response.StatusCode, body)
	}
	if len(w.received()) != 1 {
		t.Error("more than the owner's request reached the runtime")
	}
}

// TestPathsHaveOneSpelling: what is checked and what is forwarded cannot differ.
func TestPathsHaveOneSpelling(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]int{
		"/runtimes/prod/app-proxy/../webhooks/x":                       400,
		"/runtimes/prod/app-proxy//slipway.runtime.v1.X/Y":             400,
		"/runtimes/prod/app-proxy/%2e%2e/x":                            400,
		"/runtimes/prod/app-proxy%2fslipway.runtime.v1.X/Y":            400,
		"/runtimes/prod/workflows/a;b":                                 400,
		"/runtimes/prod/workflows/a%5cb":                               400,
		"/runtimes/PROD" + list:                                        404,
		"/runtimes//app-proxy/x":                                       400,
		"/runtimes/nope" + list:                                        404,
		"/runtimes/prod/":                                              404,
		"/runtimes/prod/app-proxy/slipway.runtime.v1.X/Sync/../../../": 400,
	} {
		method := http.MethodPost
		if response, body := w.call(t, method, path, bearer(w.admin)); response.StatusCode != want {
			t.Errorf("%s: got %d %s, want %d", path, response.StatusCode, body, want)
		}
	}
	if got := w.received(); len(got) != 0 {
		t.Errorf("%d requests reached the runtime", len(got))
	}
}

// TestOffline: the caller gets the last heartbeat, as a Connect error, and a
// response of another server is not forwarded.
func TestOffline(t *testing.T) {
	w := newWorld(t)
	for name, part := range map[string]string{
		"gone":     `"the runtime \"gone\" is offline; its last heartbeat was at 2030-01-02T03:04:05Z`,
		"stranger": "does not lead to its router",
	} {
		response, body := w.call(t, http.MethodPost, "/runtimes/"+name+list, bearer(w.admin))
		if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, part) || !strings.Contains(body, `"code":"unavailable"`) {
			t.Errorf("%s: got %d %s", name, response.StatusCode, body)
		}
	}
	w.router.Close()
	response, body := w.call(t, http.MethodPost, "/runtimes/prod"+list, bearer(w.admin))
	if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "is unreachable") || strings.Contains(body, "127.0.0.1") {
		t.Errorf("down: got %d %s", response.StatusCode, body)
	}
}

// TestStreams: both directions go on as they come, and end with the caller's key.
func TestStreams(t *testing.T) {
	w := newWorld(t)
	ended := make(chan error, 1)
	w.reply(func(rw http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(rw)
		_ = control.EnableFullDuplex()
		piece := make([]byte, 5)
		for {
			if _, err := io.ReadFull(r.Body, piece); err != nil {
				ended <- err
				return
			}
			_, _ = rw.Write(piece)
			_ = control.Flush()
		}
	})
	reader, writer := io.Pipe()
	defer writer.CloseWithError(errors.New("over"))
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/runtimes/prod/app-proxy/slipway.runtime.v1.ApplicationService/Logs", reader))(t)
	request.Header.Set("Content-Type", "application/connect+json")
	bearer(w.admin)(request)
	go func() { _, _ = io.WriteString(writer, "first") }()
	response := must.Get(http.DefaultTransport.RoundTrip(request))(t)
	defer response.Body.Close()
	piece := make([]byte, 5)
	for _, want := range []string{"first", "again"} {
		if _, err := io.ReadFull(response.Body, piece); err != nil || string(piece) != want {
			t.Fatalf("got %q, %v", piece, err)
		}
		if want == "first" {
			must.Get(io.WriteString(writer, "again"))(t)
		}
	}
	id := strings.Split(w.admin, "_")[1]
	must.Do(t, w.store.RevokeKey(t.Context(), w.account.ID, id))
	revoked := time.Now()
	select {
	case <-ended:
	case <-ctx.Done():
		t.Fatal("the stream goes on")
	}
	if took := time.Since(revoked); took > 30*time.Second {
		t.Errorf("the stream ended after %v", took)
	}
}

// TestWebhooks: they are unauthenticated, so they are bounded, and only they pass.
func TestWebhooks(t *testing.T) {
	w := newWorld(t)
	tunnelled := wire.TunnelLabel(w.account.ID, "tunnelled") + ".tunnels.example.com"
	for _, c := range []struct {
		name, method, path, host string
		change                   func(*http.Request)
		want                     int
	}{
		{"push", "POST", "/webhooks/tunnelled/github", tunnelled, header("X-Hub-Signature-256", "sha256=00"), 200},
		{"GET", "GET", "/webhooks/tunnelled/github", tunnelled, nil, 405},
		{"large", "POST", "/webhooks/tunnelled/github", tunnelled, func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", 2000))), 2000
		}, 413},
		{"unknown runtime", "POST", "/webhooks/x/github", wire.TunnelLabel(w.account.ID, "x") + ".tunnels.example.com", nil, 404},
		{"not in tunnel mode", "POST", "/webhooks/prod/github", wire.TunnelLabel(w.account.ID, "prod") + ".tunnels.example.com", nil, 404},
		{"the API", "POST", list, tunnelled, nil, 401},
		{"workflows", "GET", "/workflows/", tunnelled, nil, 401},
		{"the platform", "POST", "/slipway.platform.v1.AuthService/SignIn", tunnelled, nil, 404},
		{"offline", "POST", "/webhooks/gone/github", wire.TunnelLabel(w.account.ID, "gone") + ".tunnels.example.com", nil, 503},
	} {
		w.received()
		w.reply(func(rw http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				rw.WriteHeader(http.StatusBadRequest)
			}
		})
		response, body := w.call(t, c.method, c.path, host(c.host), header("Authorization", "Basic canary"), header("Cookie", "canary=1"), func(r *http.Request) {
			if c.path == list || c.path == "/workflows/" {
				r.Header.Del("Authorization")
			}
			if c.change != nil {
				c.change(r)
			}
		})
		if response.StatusCode != c.want {
			t.Errorf("%s: got %d %s, want %d", c.name, response.StatusCode, body, c.want)
		}
		for _, got := range w.received() {
			if strings.Contains(fmt.Sprint(got.Header), "canary") {
				t.Errorf("%s: the runtime sees %v", c.name, got.Header)
			}
			if c.want == 200 && got.Header.Get("X-Hub-Signature-256") == "" {
				t.Errorf("%s: the signature is gone: %v", c.name, got.Header)
			}
		}
	}
}

// TestWebhooksAreBounded: so many at a time, and the rest comes again.
func TestWebhooksAreBounded(t *testing.T) {
	w := newWorld(t)
	tunnelled := wire.TunnelLabel(w.account.ID, "tunnelled") + ".tunnels.example.com"
	inside, release := make(chan struct{}), make(chan struct{})
	w.reply(func(http.ResponseWriter, *http.Request) { inside <- struct{}{}; <-release })
	done := make(chan int, 2)
	for range 2 {
		go func() {
			response, _ := w.call(t, http.MethodPost, "/webhooks/tunnelled/github", host(tunnelled))
			done <- response.StatusCode
		}()
		<-inside
	}
	response, _ := w.call(t, http.MethodPost, "/webhooks/tunnelled/github", host(tunnelled))
	if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") == "" {
		t.Errorf("the third: %d %v", response.StatusCode, response.Header)
	}
	close(release)
	for range 2 {
		if status := <-done; status != http.StatusOK {
			t.Errorf("one that was taken: %d", status)
		}
	}
}

// TestWebSocketsOfOthers: a page of another site cannot open a WebSocket with its
// visitor's session.
func TestWebSocketsOfOthers(t *testing.T) {
	w := newWorld(t)
	for origin, want := range map[string]int{"https://evil.example.com": 403, w.url: 200, "": 200} {
		response, _ := w.call(t, http.MethodGet, "/runtimes/prod/workflows/ws", bearer(w.admin), header("Upgrade", "websocket"), header("Connection", "Upgrade"), func(r *http.Request) {
			if origin != "" {
				r.Header.Set("Origin", origin)
			}
		})
		if response.StatusCode != want {
			t.Errorf("origin %q: got %d, want %d", origin, response.StatusCode, want)
		}
	}
}

// TestMatrix: every procedure of a runtime with every role and scope, through the
// platform. What is denied does not reach the runtime.
func TestMatrix(t *testing.T) {
	w := newWorld(t)
	calls := 0
	for _, role := range permission.Roles() {
		for _, scope := range []string{identity.ScopeAll, identity.ScopeRead} {
			key := w.key(t, store.Role(role), scope)
			for _, procedure := range permission.Procedures() {
				rule, _ := permission.Of(procedure)
				want := http.StatusForbidden
				if strings.HasPrefix(procedure, "/slipway.runtime.") && rule.Role(role) && (rule.Read || scope == identity.ScopeAll) {
					want = http.StatusOK
				}
				response, body := w.call(t, http.MethodPost, "/runtimes/prod/app-proxy"+procedure, bearer(key))
				if response.StatusCode != want {
					t.Errorf("%s as %s with a key to %s: %d %s", procedure, role, scope, response.StatusCode, body)
				}
				if got := len(w.received()); (got == 1) != (want == http.StatusOK) {
					t.Errorf("%s as %s with a key to %s: the runtime got %d requests", procedure, role, scope, got)
				}
				calls++
			}
		}
	}
	if calls < 400 {
		t.Errorf("only %d calls", calls)
	}
}
