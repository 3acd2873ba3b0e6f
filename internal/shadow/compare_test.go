package shadow

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"slipway.dev/slipway/internal/must"
)

// response returns a response with headers, written as Name: value.
func response(status int, lines ...string) *Response {
	r := &Response{Status: status, Header: http.Header{}}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// TestSame: responses that mean the same are the same.
func TestSame(t *testing.T) {
	request := &Request{Method: "GET", Host: "shop.example", Target: "/a/b"}
	for name, pair := range map[string][2]*Response{
		"values of one response": {response(200, "Date: a", "X-Request-Id: 1", "Server: nginx"), response(200, "Date: b", "X-Request-Id: 2")},
		"entity tags":            {response(200, `ETag: W/"1"`), response(200, `ETag: "1"`)},
		"lists":                  {response(200, "Vary: Origin, Accept-Encoding"), response(200, "Vary: accept-encoding", "Vary: Origin")},
		"media types":            {response(200, "Content-Type: text/html;charset=UTF-8"), response(200, "Content-Type: text/html; charset=utf-8")},
		"cookies":                {response(200, "Set-Cookie: a=1; Path=/; Secure"), response(200, "Set-Cookie: a=2; secure; path=/")},
		"nonces":                 {response(200, "Content-Security-Policy: script-src 'nonce-1'"), response(200, "Content-Security-Policy: script-src 'nonce-2'")},
		"challenges":             {response(401, `WWW-Authenticate: Basic realm="a"`), response(401, `WWW-Authenticate: Basic realm="a", charset="UTF-8"`)},
		"relative redirects":     {response(301, "Location: https://shop.example/a/c"), response(301, "Location: c")},
		"ports of redirects":     {response(301, "Location: https://shop.example:443/"), response(301, "Location: https://shop.example")},
		"expiry": {
			response(200, "Date: Tue, 17 Nov 2026 10:00:00 GMT", "Expires: Tue, 17 Nov 2026 11:00:00 GMT"),
			response(200, "Date: Tue, 17 Nov 2026 10:00:01 GMT", "Expires: Tue, 17 Nov 2026 11:00:01 GMT"),
		},
	} {
		if found := NewComparer(nil, nil).Compare(request, "https", pair[0], pair[1]); len(found) > 0 {
			t.Errorf("%s: found %v", name, found)
		}
	}
}

// TestIgnored: what is ignored is not reported.
func TestIgnored(t *testing.T) {
	request := &Request{Method: "GET", Host: "shop.example", Target: "/"}
	before, after := response(200, "X-One: 1", "X-Two: 1"), response(200, "X-One: 2")
	if found := NewComparer([]string{"x-one"}, nil).Compare(request, "http", before, after); len(found) != 1 || found[0].Name != "X-Two" {
		t.Errorf("found %v", found)
	}
	if found := NewComparer(nil, []string{CauseHeaderMissing}).Compare(request, "http", before, after); len(found) != 1 || found[0].Name != "X-One" {
		t.Errorf("found %v", found)
	}
}

// TestDecode: an encoded body is compared by its content, and a small one cannot become a
// large one.
func TestDecode(t *testing.T) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	must.Get(writer.Write(bytes.Repeat([]byte("0"), 1<<20)))(t)
	must.Do(t, writer.Close())
	body, ok := decode("gzip", packed.Bytes(), 1<<10)
	if !ok || len(body) != 1<<10+1 {
		t.Errorf("decoded %d bytes", len(body))
	}
	for _, encoding := range []string{"gzip", "br", "zstd"} {
		if body, ok := decode(encoding, []byte("plain"), 100); ok || string(body) != "plain" {
			t.Errorf("%s: a body that is not encoded is %q", encoding, body)
		}
	}
	if body, ok := decode("unknown", []byte("plain"), 100); !ok || string(body) != "plain" {
		t.Errorf("a body in an unknown encoding is %q", body)
	}
}

// TestBackendNames: backends in the words of ingress-nginx and Traefik.
func TestBackendNames(t *testing.T) {
	backend := Backend{Namespace: "default", Name: "shop", Port: 80}
	for name, want := range map[string]bool{
		"default-shop-80": true, "default-shop-http": true, "default-shop-80@kubernetes": true, "default-shop-http-web": true,
		"default-shop-81": false, "default-shop-api-80": false, "other-shop-80": false, "default-shop": false, "upstream-default-backend": false,
	} {
		if got := backend.Is(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestRedact: credentials are not in a report.
func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.example/x?q=1&access_token=t#id_token=u": "https://a.example/x?q=1&access_token=[redacted]#id_token=[redacted]",
		"https://user:pass@a.example/":                      "https://[redacted]@a.example/",
		"/plain?page=2":                                     "/plain?page=2",
	} {
		if got := redactURL(text); got != want {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
	shown := shownHeaders(http.Header{
		"Authorization": {"Basic hunter2"}, "X-Api-Key": {"hunter2"}, "Cookie": {"a=hunter2"}, "Referer": {"https://a.example/?code=hunter2"}, "Accept": {"text/html"},
	})
	for name, value := range shown {
		if strings.Contains(value, "hunter2") || name == "Accept" && value != "text/html" {
			t.Errorf("%s is shown as %s", name, value)
		}
	}
}

// TestRulesDocumented: the page lists each header that is not compared as it is.
func TestRulesDocumented(t *testing.T) {
	page := strings.ToLower(string(must.Get(os.ReadFile("../../docs/migration-nginx.md"))(t)))
	for name := range headerRules {
		if !strings.Contains(page, "`"+strings.ToLower(name)+"`") {
			t.Errorf("docs/migration-nginx.md does not list %s", name)
		}
	}
	for _, cause := range Causes() {
		if !strings.Contains(page, "`"+strings.ToLower(cause)+"`") {
			t.Errorf("docs/migration-nginx.md does not list the cause %s", cause)
		}
	}
}
