package spelling

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/test/conformance/rawh2"
)

// identity are headers that identify a client. Ours is what the backend must
// get from the edge; empty means that it must get none.
func identity(port string) map[string]string {
	return map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "app.test", "X-Forwarded-Proto": "http", "X-Forwarded-Port": port, "X-Real-Ip": "127.0.0.1",
		"X-Forwarded-Server": "", "X-Forwarded-Prefix": "", "X-Forwarded-Scheme": "", "X-Forwarded-User": "", "X-Forwarded-Ssl": "", "X-Forwarded-Tls-Client-Cert": "", "X-Forwarded-Tls-Client-Cert-Info": "", "X-Forwarded-Method": "",
		"X-Forwarded-Uri": "", "X-Forwarded-By": "", "Forwarded": "", "X-Ssl-Client-Cert": "", "X-Ssl-Client-Verify": "", "X-Ssl-Client-Dn": "", "X-SSL-CERT": "",
	}
}

// spoof is the value that a client sends.
const spoof = "6.6.6.6"

// namesLike are the spellings of a header name that some backends read as it.
func namesLike(name string) []string {
	all := []string{name, strings.ToLower(name), strings.ToUpper(name), strings.ToUpper(name[:1]) + strings.ToLower(name[1:])}
	alternating := []byte(strings.ToLower(name))
	for i := 0; i < len(alternating); i += 2 {
		alternating[i] = strings.ToUpper(string(alternating[i]))[0]
	}
	all = append(all, string(alternating))
	for _, c := range "_.~!+'*|^$%&#`" {
		if strings.Contains(name, "-") {
			all = append(all, strings.ReplaceAll(name, "-", string(c)), strings.Replace(name, "-", string(c), 1), strings.ToLower(strings.ReplaceAll(name, "-", string(c))))
		}
	}
	return all
}

// carelessName is a name as CGI and its heirs read it.
func carelessName(name string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
}

// TestIdentity: no identity header of an untrusted client survives,
// and those of the edge always arrive.
func TestIdentity(t *testing.T) {
	edge := serveTable(t, &route.Rule{})
	address := edge.Address("web")
	ours := identity(address[strings.LastIndexByte(address, ':')+1:])
	c := newClient(t, address)
	asked := 0
	for name := range ours {
		for _, spelled := range namesLike(name) {
			for _, lines := range [][]string{
				{spelled + ": " + spoof},
				{spelled + ": " + spoof, spelled + ": " + spoof},
				{spelled + ":"},
				{spelled + ":", spelled + ": " + spoof},
				{spelled + ": " + spoof, name + ": " + spoof},
				{"Connection: " + spelled},
				{"Connection: " + spelled, spelled + ": " + spoof},
				{spelled + ": " + spoof, "Connection: keep-alive, " + spelled},
				{"Connection: " + strings.ToLower(spelled) + "," + name},
				{"Connection: x", "connection: " + spelled},
				{spelled + ": " + spoof + ", " + spoof + ", 10.0.0.1"},
			} {
				r := c.ask(t, append([]string{"GET / HTTP/1.1", "Host: app.test"}, lines...)...)
				checkIdentity(t, lines, r, ours)
				asked++
			}
			lower := strings.ToLower(spelled)
			for _, fields := range [][]rawh2.Field{
				{rawh2.F(lower, spoof)}, {rawh2.F(lower, ""), rawh2.F(lower, spoof)}, {rawh2.F(strings.ToLower(name), spoof), rawh2.F(lower, spoof)},
			} {
				checkIdentity(t, []string{"HTTP/2", lower}, askHTTP2(t, address, "app.test", "/", fields...), ours)
				asked++
			}
		}
	}
	t.Logf("%d requests", asked)
}

func checkIdentity(t *testing.T, lines []string, r result, ours map[string]string) {
	t.Helper()
	if r.status == 400 {
		return // a name that nobody uses in good faith
	}
	if r.status != 200 {
		t.Errorf("%q: status %d", lines, r.status)
		return
	}
	for name, want := range ours {
		got := r.values(name)
		switch {
		case want == "" && len(got) > 0:
			t.Errorf("%q: the backend got %s %q", lines, name, got)
		case want != "" && (len(got) != 1 || got[0] != want):
			t.Errorf("%q: the backend got %s %q, not %q", lines, name, got, want)
		}
	}
	for _, line := range r.head[1:] {
		name, value, _ := strings.Cut(line, ":")
		careless := carelessName(name)
		special := strings.HasPrefix(careless, "x-forwarded-") || strings.HasPrefix(careless, "x-ssl-") || careless == "x-real-ip" || careless == "forwarded"
		if special && (careless != strings.ToLower(name) || strings.Contains(value, spoof)) {
			t.Errorf("%q: the backend got %q", lines, line)
		}
		if careless == "connection" {
			t.Errorf("%q: the backend got %q", lines, line)
		}
	}
}

// TestConnectionKeeps: a client cannot have the edge remove what a policy set,
// or what others vouch for.
func TestConnectionKeeps(t *testing.T) {
	edge := serveTable(t, &route.Rule{Policies: []route.Policy{{
		RequestHeaders: &route.RequestHeaders{Set: []route.HeaderValue{{Name: "X-User", Value: "edge"}}},
	}}})
	c := newClient(t, edge.Address("web"))
	for _, spelled := range namesLike("X-User") {
		for _, lines := range [][]string{
			{"Connection: " + spelled}, {"Connection: " + spelled, "X-User: " + spoof}, {spelled + ": " + spoof}, {"Connection: close," + spelled, spelled + ": " + spoof}, {spelled + ":"},
		} {
			r := c.ask(t, append([]string{"GET / HTTP/1.1", "Host: app.test"}, lines...)...)
			if r.status == 400 {
				continue
			}
			if got := r.values("X-User"); len(got) != 1 || got[0] != "edge" {
				t.Errorf("%q: the backend got %q", lines, got)
			}
			for _, line := range r.head[1:] {
				if name, _, _ := strings.Cut(line, ":"); carelessName(name) == "x-user" && !strings.EqualFold(name, "X-User") {
					t.Errorf("%q: the backend got %q", lines, line)
				}
			}
		}
	}
}
