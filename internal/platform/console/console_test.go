package console

import (
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"slipway.dev/slipway/internal/must"
)

func built(t *testing.T) *Console {
	t.Helper()
	return must.Get(load(fstest.MapFS{
		"index.html":        {Data: []byte(`<meta property="csp-nonce" nonce="__NONCE__" />`)},
		"icon.svg":          {Data: []byte("<svg/>")},
		"assets/main-1a.js": {Data: []byte(strings.Repeat("console.log(1);\n", 100))},
	}))(t)
}

func ask(c *Console, method, path string, header http.Header) *http.Response {
	request := httptest.NewRequest(method, path, nil)
	maps.Copy(request.Header, header)
	recorder := httptest.NewRecorder()
	c.ServeHTTP(recorder, request)
	return recorder.Result()
}

// Every address of the console is the page, and each page has its own nonce.
func TestPage(t *testing.T) {
	c := built(t)
	nonces := map[string]bool{}
	for _, path := range []string{"/console/", "/console/runtimes", "/console/applications/a/b/c.d", "/console/index.html"} {
		response := ask(c, "GET", path, nil)
		body, _ := io.ReadAll(response.Body)
		nonce := regexp.MustCompile(`nonce="([^"_]+)"`).FindStringSubmatch(string(body))
		policy := response.Header.Get("Content-Security-Policy")
		if nonce == nil || !strings.Contains(policy, "style-src 'self' 'nonce-"+nonce[1]+"'") {
			t.Fatalf("%s: %s\n%s", path, policy, body)
		}
		if strings.Contains(policy, "unsafe") || !strings.Contains(policy, "script-src 'self';") {
			t.Errorf("%s: %s", path, policy)
		}
		if response.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: a page with a nonce is kept", path)
		}
		nonces[nonce[1]] = true
	}
	if len(nonces) != 4 {
		t.Errorf("%d nonces for 4 pages", len(nonces))
	}
}

// Files are compressed for clients that accept it, and cached.
func TestFile(t *testing.T) {
	c := built(t)
	response := ask(c, "GET", "/console/assets/main-1a.js", http.Header{"Accept-Encoding": {"br, gzip"}})
	reader := must.Get(gzip.NewReader(response.Body))(t)
	if body, err := io.ReadAll(reader); err != nil || !strings.HasPrefix(string(body), "console.log") {
		t.Errorf("%.20q, %v", body, err)
	}
	if kept := response.Header.Get("Cache-Control"); !strings.Contains(kept, "immutable") {
		t.Errorf("Cache-Control: %s", kept)
	}
	for encoding, want := range map[string]string{"": "", "gzip;q=0": "", "gzip": "gzip"} {
		if got := ask(c, "GET", "/console/assets/main-1a.js", http.Header{"Accept-Encoding": {encoding}}).Header.Get("Content-Encoding"); got != want {
			t.Errorf("Accept-Encoding %q gives %q", encoding, got)
		}
	}
	icon := ask(c, "GET", "/console/icon.svg", nil)
	if again := ask(c, "GET", "/console/icon.svg", http.Header{"If-None-Match": {icon.Header.Get("Etag")}}); again.StatusCode != http.StatusNotModified {
		t.Errorf("%d for what the browser has", again.StatusCode)
	}
}

// Other addresses and methods.
func TestRefusals(t *testing.T) {
	c := built(t)
	for _, test := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/", http.StatusFound},
		{"GET", "/console", http.StatusFound},
		{"HEAD", "/console/", http.StatusOK},
		{"POST", "/console/", http.StatusMethodNotAllowed},
		{"GET", "/console/assets/main-old.js", http.StatusNotFound},
		{"GET", "/console/assets/../../etc/passwd", http.StatusNotFound},
	} {
		if got := ask(c, test.method, test.path, nil).StatusCode; got != test.status {
			t.Errorf("%s %s: %d, want %d", test.method, test.path, got, test.status)
		}
	}
}

// Addresses of Argo CD's console lead into the console, at its own host.
func TestArgoLinks(t *testing.T) {
	c := built(t)
	c.public = url.URL{Scheme: "https", Host: "slipway.example.com"}
	for path, want := range map[string]string{
		"/applications":                                    "/console/applications",
		"/applications?sync=OutOfSync":                     "/console/applications?sync=OutOfSync",
		"/applications/shop":                               "/console/applications/shop",
		"/applications/argocd/shop?resource=kind%3APod":    "/console/applications/argocd/shop?resource=kind%3APod",
		"/applications//evil.example.com/a":                "/console/applications//evil.example.com/a",
		"/applications/argocd/shop%0d%0aSet-Cookie:%20a=b": "/console/applications/argocd/shop%0D%0ASet-Cookie:%20a=b",
	} {
		response := ask(c, "GET", path, nil)
		if got := response.Header.Get("Location"); response.StatusCode != http.StatusFound || got != "https://slipway.example.com"+want {
			t.Errorf("%s leads to %d %s", path, response.StatusCode, got)
		}
	}
}

// A binary without the console shows how to build it.
func TestUnbuilt(t *testing.T) {
	c := must.Get(load(fstest.MapFS{}))(t)
	response := ask(c, "GET", "/console/", nil)
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "make build") {
		t.Errorf("%d: %s", response.StatusCode, body)
	}
}
