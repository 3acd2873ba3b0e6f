package gateway_test

import (
	"crypto/sha256"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/argocd"
	"slipway.dev/slipway/internal/wire/permission"
)

const argo = "/runtimes/prod/app-proxy/argocd"

// TestArgoMatrix: every procedure of Argo CD's API with every role and scope. What
// is denied does not reach the runtime.
func TestArgoMatrix(t *testing.T) {
	w := newWorld(t)
	for _, role := range permission.Roles() {
		for _, scope := range []string{identity.ScopeAll, identity.ScopeRead} {
			key := w.key(t, store.Role(role), scope)
			for _, one := range argocd.Procedures() {
				want := http.StatusForbidden
				if one.Rule.Role(role) && (one.Rule.Read || scope == identity.ScopeAll) {
					want = http.StatusOK
				}
				response, body := w.call(t, http.MethodPost, argo+one.Name, bearer(key))
				if got := len(w.received()); response.StatusCode != want || (got == 1) != (want == http.StatusOK) {
					t.Errorf("%s as %s with a key to %s: %d %s, and the runtime got %d requests", one.Name, role, scope, response.StatusCode, body, got)
				}
			}
		}
	}
}

// TestArgoRequests: the key in the header of the argocd command, tokens for this
// path alone, refreshes that need more than reading, and what is not served.
func TestArgoRequests(t *testing.T) {
	w := newWorld(t)
	viewer := w.key(t, store.RoleViewer, identity.ScopeAll)
	reader := w.key(t, store.RoleAdmin, identity.ScopeRead)
	token := func(key string) func(*http.Request) { return header("Token", key) }
	for _, c := range []struct {
		name, method, path string
		change             func(*http.Request)
		want               int
		text               string
	}{
		{"a key of the argocd command", "GET", "/api/v1/applications", token(viewer), 200, ""},
		{"a bearer token", "GET", "/api/v1/applications", bearer(viewer), 200, ""},
		{"another path of REST", "POST", "/api/v1/applications/web/sync", token(w.admin), 200, ""},
		{"a reader", "GET", "/api/v1/applications/web", token(reader), 200, ""},
		{"a reader who refreshes", "GET", "/api/v1/applications/web?refresh=hard", token(reader), 403, "scope"},
		{"a viewer who refreshes", "GET", "/api/v1/applications/web?refresh=hard", token(viewer), 403, "sync"},
		{"a viewer who syncs", "POST", "/api/v1/applications/web/sync", token(viewer), 403, "sync"},
		{"an admin who refreshes", "GET", "/api/v1/applications/web?refresh=hard", token(w.admin), 200, ""},
		{"nobody", "GET", "/api/v1/applications", header("X-None", "x"), 401, "API key"},
		{"a password", "POST", "/api/v1/session", header("X-None", "x"), 501, "--auth-token"},
		{"a change of a spec", "PUT", "/api/v1/applications/web/spec", token(w.admin), 501, "in Git"},
		{"a WebSocket", "GET", "/api/v1/applications", func(r *http.Request) { token(w.admin)(r); r.Header.Set("Upgrade", "websocket") }, 405, "WebSockets"},
	} {
		w.received()
		response, body := w.call(t, c.method, argo+c.path, c.change)
		got := w.received()
		if response.StatusCode != c.want || !strings.Contains(body, c.text) || (len(got) == 1) != (c.want == 200) {
			t.Errorf("%s: %d %s, and the runtime got %d requests", c.name, response.StatusCode, body, len(got))
		}
		if len(got) == 0 {
			continue
		}
		if claims := w.claimsOf(t, got[0].Header.Get("Authorization")); claims.Prefix != wire.ArgoCDPath || got[0].Header.Get("Token") != "" {
			t.Errorf("%s: the runtime got %v for %s", c.name, got[0].Header, claims.Prefix)
		}
	}
}

// TestArgoTakesNoSession: a page of another site cannot send requests with the
// cookie of its visitor.
func TestArgoTakesNoSession(t *testing.T) {
	w := newWorld(t)
	user := must.Get(w.store.CreateUser(t.Context(), store.User{AccountID: w.account.ID, Email: "ada@example.com", Role: store.RoleAdmin}))(t)
	value := strings.Repeat("s", 43)
	hash, now := sha256.Sum256([]byte(value)), time.Now()
	must.Get(w.store.OpenSession(t.Context(), store.Session{
		Hash: hash[:], UserID: user.ID, AccountID: w.account.ID, CSRFHash: hash[:], CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(time.Hour),
	}, func(*store.User) (ending store.Ending, err error) { return ending, nil }))(t)
	cookie := header("Cookie", "slipway="+value)
	if response, body := w.call(t, http.MethodGet, "/runtimes/prod/workflows/x", cookie); response.StatusCode != http.StatusOK {
		t.Fatalf("the session is none: %d %s", response.StatusCode, body)
	}
	w.received()
	if response, body := w.call(t, http.MethodGet, argo+"/api/v1/applications", cookie); response.StatusCode != http.StatusUnauthorized || len(w.received()) > 0 {
		t.Errorf("%d %s", response.StatusCode, body)
	}
}

// TestArgoChangesAreAudited: an entry has the Application and the outcome, in both
// protocols; reading has none.
func TestArgoChangesAreAudited(t *testing.T) {
	w := newWorld(t)
	w.reports(t, "prod", "web", "shop", "main")
	w.reply(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.Path, "absent") {
			rw.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(rw, "{}")
	})
	for i, c := range []struct{ method, path, body, want string }{
		{"POST", "/api/v1/applications/web/sync", `{"prune":true,"revision":"v1"}`, "application.sync|application/prod/web|prod|shop|prod/web|v1|ok|ok|prune"},
		{"POST", "/application.ApplicationService/Rollback", `{"name":"web","id":"3"}`, "application.rollback|application/prod/web|prod|shop|prod/web|main|ok|ok|"},
		{"GET", "/api/v1/applications/web?refresh=normal", "", "application.refresh|application/prod/web|prod|shop|prod/web|main|ok|ok|"},
		{"DELETE", "/api/v1/applications/absent/operation?appNamespace=team", "", "application.terminate-operation|application/team/absent|prod||team/absent||failed|not_found|"},
	} {
		w.call(t, http.MethodGet, argo+"/api/v1/applications/web", bearer(w.admin))
		w.call(t, c.method, argo+c.path, bearer(w.admin), content(c.body))
		if got := line(w.awaitEntries(t, i+1)[i]); got != c.want {
			t.Errorf("%s %s: got  %s\nwant %s", c.method, c.path, got, c.want)
		}
	}
}
