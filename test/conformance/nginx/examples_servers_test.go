package nginx

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// startDocumentedServers starts the servers of authentication that the documentation has in
// its examples.
func (g *ground) startDocumentedServers(t *testing.T) {
	t.Helper()
	g.ports["httpbin"] = startServer(t, http.HandlerFunc(httpbin))
	g.ports["demo-auth-service"] = startServer(t, http.HandlerFunc(demoAuth))
	g.ports["oauth2-proxy"] = startServer(t, http.HandlerFunc(oauth2Proxy))
}

// httpbin is https://httpbin.org of examples/auth/external-auth: /basic-auth/USER/PASSWORD
// admits that user.
func httpbin(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	if r.URL.Path == "/basic-auth/"+user+"/"+password {
		_, _ = io.WriteString(w, `{"authenticated": true}`)
		return
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="Fake Realm"`)
	w.WriteHeader(http.StatusUnauthorized)
}

// demoAuth is the server of examples/customization/external-auth-headers: requests with an
// internal user are authenticated, and with code=200 all are admitted.
func demoAuth(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.Contains(r.Header.Get("User"), "internal"):
		w.Header().Set("UserID", "1443635317331776148")
		w.Header().Set("UserRole", "admin")
	case r.URL.Query().Get("code") != "200":
		w.WriteHeader(http.StatusForbidden)
	}
}

// oauth2Proxy is that of examples/auth/oauth-external-auth: /oauth2/auth admits requests
// with its cookie, and other paths are its pages.
func oauth2Proxy(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/oauth2/auth" {
		echo("oauth2-proxy")(w, r)
		return
	}
	if cookie, err := r.Cookie("_oauth2_proxy"); err != nil || cookie.Value == "" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("X-Auth-Request-User", "anna")
	w.WriteHeader(http.StatusAccepted)
}
