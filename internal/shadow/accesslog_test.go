package shadow

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

const (
	// ingressLine is a line of ingress-nginx's default format.
	ingressLine = `192.0.2.1 - alice [17/Nov/2026:10:00:00 +0000] "GET /a%2Fb?q=\x22x\x22 HTTP/2.0" 200 612 "https://ref.example/" "Mozilla/5.0 (X11)" 430 0.002 [default-shop-80] [default-canary-80] 10.0.0.1:8080, 10.0.0.2:8080 612 0.001, 0.002 502, 200 1f2e`
	combined    = `192.0.2.1 - - [17/Nov/2026:10:00:00 +0000] "HEAD / HTTP/1.1" 301 0 "-" "curl/8"`
	traefikCLF  = combined + ` 17 "default-shop@kubernetes" "http://10.0.0.1:80" 3ms`
	nginxJSON   = `{"time": "2026-11-17T10:00:00+00:00", "remote_addr": "192.0.2.1", "request_id": "1", "bytes_sent": 10, "status": 404, "vhost": "shop.example", "request_proto": "HTTP/1.1", "path": "/a b", "request_query": "q=1", "method": "GET", "http_referrer": "", "http_user_agent": "a \"b\"" }`
	traefikJSON = `{"ClientHost":"192.0.2.1","DownstreamStatus":200,"RequestHost":"shop.example","RequestMethod":"GET","RequestPath":"/a?q=1","RequestScheme":"https","RouterName":"r@kubernetes","ServiceName":"default-shop-80@kubernetes","request_User-Agent":"curl/8","request_X-Tenant":"blue","level":"info"}`
)

// TestParse: every form of a line is recognised.
func TestParse(t *testing.T) {
	for _, test := range []struct{ name, format, line, want string }{
		{"ingress-nginx", "", ingressLine, `GET  DEFAULT /a%2Fb?q="x" 192.0.2.1 200 default-canary-80 Referer=https://ref.example/ User-Agent=Mozilla/5.0 (X11)`},
		{"ingress-nginx without a canary", "", strings.Replace(ingressLine, "default-canary-80", "", 1), `GET  DEFAULT /a%2Fb?q="x" 192.0.2.1 200 default-shop-80 Referer=https://ref.example/ User-Agent=Mozilla/5.0 (X11)`},
		{"combined", "", combined, `HEAD  DEFAULT / 192.0.2.1 301  User-Agent=curl/8`},
		{"common", "", strings.TrimSuffix(combined, ` "-" "curl/8"`), `HEAD  DEFAULT / 192.0.2.1 301 `},
		{"host before", "", "shop.example:443 " + combined, `HEAD  shop.example:443 / 192.0.2.1 301  User-Agent=curl/8`},
		{"host behind", "", combined + ` "shop.example"`, `HEAD  shop.example / 192.0.2.1 301  User-Agent=curl/8`},
		{"forwarded behind", "", combined + ` "198.51.100.1, 192.0.2.3"`, `HEAD  DEFAULT / 192.0.2.1 301  User-Agent=curl/8`},
		{"Traefik", "", traefikCLF, `HEAD  DEFAULT / 192.0.2.1 301  User-Agent=curl/8`},
		{"absolute", "", strings.Replace(combined, "HEAD /", "GET https://shop.example/x", 1), `GET https shop.example /x 192.0.2.1 301  User-Agent=curl/8`},
		{"JSON", "", nginxJSON, `GET  shop.example /a%20b?q=1 192.0.2.1 404  User-Agent=a "b"`},
		{"JSON with a request", "", `{"request":"GET /x HTTP/1.1","host":"a.example","scheme":"https","status":"200"}`, `GET https a.example /x  200 `},
		{"JSON with nginx's escapes", "", `{"request":"GET /\x22 HTTP/1.1","host":"a.example"}`, `GET  a.example /"  0 `},
		{"Traefik JSON", "", traefikJSON, `GET https shop.example /a?q=1 192.0.2.1 200 default-shop-80@kubernetes User-Agent=curl/8 X-Tenant=blue`},
		{"format", `$host|$request_method|$request_uri|$http_x_tenant`, "a.example|GET|/x?y|blue", `GET  a.example /x?y  0  X-Tenant=blue`},
		{"JSON format", `{"h":"$host","r":"$request","a":"$http_user_agent"}`, `{"h":"a.example","r":"GET /\"x HTTP/1.1","a":"b"}`, `GET  a.example /"x  0  User-Agent=b`},

		{"broken request", "", strings.Replace(combined, "HEAD / HTTP/1.1", `\x16\x03\x01`, 1), "error"},
		{"no request", "", strings.Replace(combined, "HEAD / HTTP/1.1", "-", 1), "error"},
		{"blanks", "", strings.Replace(combined, "HEAD /", "GET /a b", 1), "error"},
		{"text", "", "W1117 10:00:00.000000 7 controller.go:1] message", "error"},
		{"broken JSON", "", `{"request":`, "error"},
		{"another format", `$host|$request`, "no bar", "error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			parser := &LogParser{Host: "DEFAULT"}
			if test.format != "" {
				parser.Format = must.Get(CompileLogFormat(test.format))(t)
			}
			r, err := parser.Parse(test.line)
			got := "error"
			if err == nil {
				got = fmt.Sprintf("%s %s %s %s %s %d %s", r.Method, r.Scheme, r.Host, r.Target, r.Client, r.Recorded.Status, r.Recorded.Backend)
				for _, name := range []string{"Referer", "User-Agent", "X-Tenant"} {
					if value := r.Header.Get(name); value != "" {
						got += " " + name + "=" + value
					}
				}
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestLogFormat: a format that cannot be read is refused.
func TestLogFormat(t *testing.T) {
	for _, text := range []string{"", "$host", "$request$host", "$ $request", "${request"} {
		if _, err := CompileLogFormat(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// FuzzTextLine: no line of text is more than a request that can be sent.
func FuzzTextLine(f *testing.F) {
	for _, line := range []string{ingressLine, combined, traefikCLF, "shop.example " + combined, combined + ` "shop.example"`, `"\`, `[`, ``} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) { checkParsed(t, &LogParser{Host: "a.example"}, line) })
}

// FuzzJSONLine is the same for lines of JSON.
func FuzzJSONLine(f *testing.F) {
	for _, line := range []string{nginxJSON, traefikJSON, `{"request":"GET /\x22 HTTP/1.1","host":"a"}`, `{"host":1,"path":[]}`} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) { checkParsed(t, &LogParser{}, "{"+line) })
}

// FuzzLogFormat is the same for formats and lines.
func FuzzLogFormat(f *testing.F) {
	f.Add(`$host|$request_method|$request_uri`, "a|GET|/")
	f.Add(`{"h":"$host","r":"$request"}`, `{"h":"a","r":"GET /\" HTTP/1.1"}`)
	f.Add(`${request} $status`, "GET / HTTP/1.1 200")
	f.Fuzz(func(t *testing.T, text, line string) {
		if format, err := CompileLogFormat(text); err == nil {
			checkParsed(t, &LogParser{Format: format}, line)
		}
	})
}

// checkParsed checks what the rest relies on.
func checkParsed(t *testing.T, parser *LogParser, line string) {
	r, err := parser.Parse(line)
	if err != nil {
		return
	}
	if !isMethod(r.Method) || r.Method == "" || r.Target == "" || strings.Contains(r.Target, " ") {
		t.Errorf("%q is %+v", line, r)
	}
	r.clean()
	if r.unfit() != "" {
		return
	}
	target := &Target{scheme: "http", address: "192.0.2.1:80"}
	sent, err := target.request(t.Context(), r)
	if err != nil {
		return
	}
	if sent.URL.RequestURI() != r.Target || strings.ContainsAny(sent.URL.RequestURI(), "\r\n ") || sent.Header.Get(Marker) == "" {
		t.Errorf("%q is sent as %q", r.Target, sent.URL.RequestURI())
	}
	must.Get(json.Marshal(shownHeaders(r.Header)))(t)
}

// TestClean: the headers that the old controller has added are not sent on.
func TestClean(t *testing.T) {
	r := &Request{Header: http.Header{
		"X-Forwarded-For": {"192.0.2.9, 10.0.0.1"}, "X-Forwarded-Proto": {"https"}, "Connection": {"close, X-Hop"}, "X-Hop": {"1"},
		"X-Request-Id": {"1"}, "Authorization": {"Basic x"}, "Cookie": {"a=b"},
	}}
	if r.clean(); r.Scheme != "https" || r.Client != "192.0.2.9" || len(r.Header) != 2 || r.Header.Get("Authorization") == "" {
		t.Errorf("cleaned to %+v", r)
	}
}
