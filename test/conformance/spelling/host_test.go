package spelling

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/route"
)

// plainHost is a host as careless programs read it: without case, dots at its
// end, port and white space.
func plainHost(host string) string {
	host = strings.ToLower(strings.TrimSpace(host))
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	return strings.TrimRight(host, ".")
}

// TestHosts: whatever a host is spelled like, it belongs to its own rules. The
// rules for named hosts are guarded, the rule for all others is open.
func TestHosts(t *testing.T) {
	guard := []route.Policy{guarded()}
	edge := serveTable(t,
		&route.Rule{Host: "app.test", Policies: guard},
		&route.Rule{Host: "*.wild.test", Policies: guard},
		&route.Rule{Host: "xn--bcher-kva.test", Policies: guard},
		&route.Rule{Host: "under_score.test", Policies: guard},
		&route.Rule{Host: "127.0.0.1", Policies: guard},
		&route.Rule{},
	)
	tests := []struct {
		want   int
		spoken []string
	}{
		{401, []string{
			"app.test", "APP.TEST", "App.Test", "aPP.tEST", "app.test.", "APP.TEST.", "app.test:80", "app.test:8080", "app.test:65535", "app.test.:80", "APP.test.:1", "x.wild.test", "X.WILD.TEST", "x.wild.test.", "x.wild.test:80", "-.wild.test",
			"xn--bcher-kva.test", "XN--BCHER-KVA.TEST", "xn--bcher-kva.test.", "under_score.test", "UNDER_SCORE.test", "127.0.0.1", "127.0.0.1:80", "127.0.0.1.",
		}},
		{200, []string{
			"other.test", "wild.test", "x.y.wild.test", "app.test.evil.test", "xapp.test", "app.testx", "app-test", "bcher.test", "[::1]", "[::1]:80", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]", "127.1", "127.0.0.01", "2130706433", "0x7f.0.0.1", "xn--app-test",
		}},
		{400, []string{
			"", " ", ".", "..", ".app.test", "app..test", "app.test..", "app.test:", "app.test:0", "app.test:00080", "app.test:65536", "app.test:x", "app.test:-1", "app.test:80:80", "app.test: 80", "app .test", "app.test/", "app.test/x", "x@app.test", "app.test@evil.test",
			"app.test#", "app.test?", `app.test\`, "app.test,evil.test", "app.test;", "app.test%00", "%61pp.test", "app%2etest", "b\u00fccher.test", "\uff41pp.test", "app\u3002test", "app\u00ad.test", "app.test\x00", "app.test\x0b", "app.test\xa0", "*.wild.test", "*", "[::1", "::1", "[127.0.0.1]",
			"[::1%25eth0]", "[::1]x", "[::1]:", "[app.test]", "\"app.test\"", "<app.test>", "app.test|", strings.Repeat("a", 64) + ".test", strings.Repeat("a.", 127) + "test",
		}},
	}
	c := newClient(t, edge.Address("web"))
	for _, test := range tests {
		for _, host := range test.spoken {
			r := c.ask(t, "GET / HTTP/1.1", "Host: "+host)
			if r.status != test.want {
				t.Errorf("%.40q: status %d, want %d", host, r.status, test.want)
			}
			checkHost(t, host, r)
			if host == "" || strings.ContainsAny(host, " \x00\x0b") || strings.HasSuffix(host, "\xa0") {
				continue // it cannot stand in a target
			}
			absolute := c.ask(t, "GET http://"+host+"/ HTTP/1.1", "Host: "+host)
			if absolute.status != r.status {
				t.Errorf("%.40q: status %d, absolute form %d", host, r.status, absolute.status)
			}
			checkHost(t, host, absolute)
			same(t, host, "HTTP/2", r, askHTTP2(t, edge.Address("web"), host, "/"))
		}
	}
}

// checkHost: no backend takes what the open rule forwards for a guarded host.
func checkHost(t *testing.T, host string, r result) {
	t.Helper()
	if r.status != 200 {
		return
	}
	for _, value := range append(r.values("Host"), r.values("X-Forwarded-Host")...) {
		plain := plainHost(value)
		label, rest, _ := strings.Cut(plain, ".")
		if plain == "app.test" || plain == "xn--bcher-kva.test" || plain == "127.0.0.1" || rest == "wild.test" && label != "" {
			t.Errorf("%q was forwarded as %q without a password", host, value)
		}
		if value != strings.ToLower(value) || strings.HasSuffix(plain, ".") {
			t.Errorf("%q was forwarded in a spelling of its own: %q", host, value)
		}
	}
	if n := len(r.values("Host")); n != 1 {
		t.Errorf("%q: the backend got %d Hosts", host, n)
	}
}
