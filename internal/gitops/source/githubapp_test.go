package source_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
)

// gitHub is the part of GitHub's API that gives tokens to the App 7, for its
// installation 42.
type gitHub struct {
	*httptest.Server
	key      *rsa.PrivateKey
	requests atomic.Int32
	lifetime time.Duration
}

// serveGitHub starts it.
func serveGitHub(t *testing.T) *gitHub {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	g := &gitHub{key: key, lifetime: time.Hour}
	g.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.requests.Add(1)
		switch {
		case !g.isApp(r):
			w.WriteHeader(http.StatusUnauthorized)
		case r.Method != http.MethodPost || r.URL.Path != "/api/v3/app/installations/42/access_tokens":
			w.WriteHeader(http.StatusNotFound)
		default:
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(map[string]any{"token": password, "expires_at": time.Now().Add(g.lifetime)})
		}
	}))
	t.Cleanup(g.Close)
	return g
}

// isApp verifies the token of a request as GitHub does.
func (g *gitHub) isApp(r *http.Request) bool {
	text, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return false
	}
	signature, _ := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if rsa.VerifyPKCS1v15(&g.key.PublicKey, crypto.SHA256, sum[:], signature) != nil {
		return false
	}
	var claims struct {
		Issued  int64  `json:"iat"`
		Expires int64  `json:"exp"`
		Issuer  string `json:"iss"`
	}
	text, header := decoded(parts[1]), decoded(parts[0])
	now := time.Now().Unix()
	return json.Unmarshal([]byte(text), &claims) == nil && strings.Contains(header, `"RS256"`) && claims.Issuer == "7" &&
		claims.Issued <= now && claims.Expires > now && claims.Expires-claims.Issued <= 600
}

// decoded is a part of a token.
func decoded(part string) string {
	text, _ := base64.RawURLEncoding.DecodeString(part)
	return string(text)
}

// secretOf is the Secret of the App for a Git server, with changes.
func (g *gitHub) secretOf(url string, changes map[string]string) *corev1.Secret {
	data := map[string]string{
		"url": url, "githubAppID": "7", "githubAppInstallationID": "42", "githubAppEnterpriseBaseUrl": g.URL + "/api/v3",
		"githubAppPrivateKey": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(g.key)})),
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{credential.TypeLabel: "repo-creds"}}, Data: map[string][]byte{}}
	for _, fields := range []map[string]string{data, changes} {
		for name, text := range fields {
			s.Data[name] = []byte(text)
		}
	}
	return s
}

// sources are those with a Secret, which trust the API.
func (g *gitHub) sources(t *testing.T, s *corev1.Secret) *source.Sources {
	t.Helper()
	parsed, err := credential.Parse(s)
	must(t, err)
	book := &credential.Store{}
	book.Set(types.NamespacedName{Namespace: "argocd", Name: "app"}, parsed)
	book.SetCertificateAuthorities(map[string]string{"127.0.0.1": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw}))})
	return open(t, func(o *source.Options) { o.Credentials = book })
}

// The token of a GitHub App opens the repositories of its installation. It is
// requested once while it is good, and again when its end is near.
func TestGitHubApp(t *testing.T) {
	server, repository := demo(t, gittest.BasicAuth("x-access-token", password))
	second := server.Repository(t, "second", map[string]string{"README": "second"})
	host := strings.TrimSuffix(repository.URL(), "/demo.git")
	pkcs8 := func(g *gitHub) map[string]string {
		text, err := x509.MarshalPKCS8PrivateKey(g.key)
		must(t, err)
		return map[string]string{"githubAppPrivateKey": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))}
	}
	for _, tt := range []struct {
		name     string
		lifetime time.Duration
		changes  func(*gitHub) map[string]string
		least    int32
		most     int32
	}{
		{"an hour", time.Hour, func(*gitHub) map[string]string { return nil }, 1, 1},
		{"another form of key", time.Hour, pkcs8, 1, 1},
		{"near its end", 5 * time.Minute, func(*gitHub) map[string]string { return nil }, 2, 100},
	} {
		api := serveGitHub(t)
		api.lifetime = tt.lifetime
		s := api.sources(t, api.secretOf(host, tt.changes(api)))
		if got := read(t, resolve(t, s, repository.URL(), "main").Store, "README"); got != "hello" {
			t.Errorf("%s: read %q", tt.name, got)
		}
		if got := read(t, resolve(t, s, second.URL(), "main").Store, "README"); got != "second" {
			t.Errorf("%s: read %q", tt.name, got)
		}
		if n := api.requests.Load(); n < tt.least || n > tt.most {
			t.Errorf("%s: %d requests for tokens", tt.name, n)
		}
	}
}

// What GitHub refuses is an error with the field to check, and without the key. A
// password goes before the App.
func TestGitHubAppErrors(t *testing.T) {
	_, repository := demo(t, gittest.BasicAuth("x-access-token", password))
	api := serveGitHub(t)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	stranger := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(other)}))
	for _, tt := range []struct {
		field, value string
		kind         source.ErrorKind
		want         string
	}{
		{"githubAppID", "8", source.Denied, "githubAppID"},
		{"githubAppPrivateKey", stranger, source.Denied, "githubAppPrivateKey"},
		{"githubAppPrivateKey", "no key", source.Invalid, "githubAppPrivateKey"},
		{"githubAppInstallationID", "43", source.Denied, "githubAppInstallationID"},
		{"githubAppEnterpriseBaseUrl", "https://127.0.0.1:1", source.Unreachable, "refused"},
	} {
		s := api.sources(t, api.secretOf(repository.URL(), map[string]string{tt.field: tt.value}))
		_, err := s.Resolve(t.Context(), at(repository.URL(), "main"), 0)
		wantError(t, err, tt.kind, tt.want)
		if strings.Contains(fmt.Sprintf("%+v", err), "no key") {
			t.Errorf("%s is shown: %v", tt.field, err)
		}
	}
	before := api.requests.Load()
	s := api.sources(t, api.secretOf(repository.URL(), map[string]string{"password": password}))
	resolve(t, s, repository.URL(), "main")
	if api.requests.Load() != before {
		t.Error("a token was requested beside a password")
	}
}
