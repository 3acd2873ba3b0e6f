package address_test

import (
	"net/url"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/source/address"
)

// TestParse: the spellings that Argo CD has, and what is made of them.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"https://example.com/a/b.git":              "https://example.com/a/b.git",
		"HTTPS://Example.COM:443/a/":               "https://example.com/a",
		"http://example.com:80/a":                  "http://example.com/a",
		"http://example.com:8080/a":                "http://example.com:8080/a",
		"https://charts.example.com":               "https://charts.example.com",
		"https://charts.example.com/":              "https://charts.example.com",
		"https://example.com/with%20space/c%23":    "https://example.com/with%20space/c%23",
		"https://example.com/%c3%a4":               "https://example.com/%C3%A4",
		"https://[2001:DB8::1]:8443/a":             "https://[2001:db8::1]:8443/a",
		"https://[2001:db8:0:0:0:0:0:1]/a":         "https://[2001:db8::1]/a",
		"https://192.0.2.1/a":                      "https://192.0.2.1/a",
		"https://example.com/a@b/c:d":              "https://example.com/a@b/c:d",
		"ssh://git@example.com:2222/a/b":           "ssh://git@example.com:2222/a/b",
		"ssh://example.com:22/a":                   "ssh://git@example.com/a",
		"git+ssh://git@example.com/a":              "ssh://git@example.com/a",
		"ssh://git@example.com/~/a":                "git@example.com:a",
		"ssh://git@example.com:7999/~/a":           "ssh://git@example.com:7999/~/a",
		"ssh://git@example.com:7999/~john/app.git": "ssh://git@example.com:7999/~john/app.git",
		"git@example.com:a/b.git":                  "git@example.com:a/b.git",
		"git@example.com:/a/b.git":                 "ssh://git@example.com/a/b.git",
		"git@example.com:~/a":                      "git@example.com:a",
		"git@example.com:2222/a":                   "git@example.com:2222/a",
		"git@[::1]:a":                              "git@[::1]:a",
		"git@example.com:v3/org/My%20Project/a":    "git@example.com:v3/org/My%20Project/a",
		"example.com:a/b":                          "git@example.com:a/b",
		"oci://registry.example.com/charts":        "oci://registry.example.com/charts",
		"registry.example.com/charts":              "oci://registry.example.com/charts",
		"registry.example.com:5000/charts":         "oci://registry.example.com:5000/charts",
		"localhost:5000":                           "oci://localhost:5000",
	} {
		got, err := address.Parse(text)
		if err != nil || got.String() != want {
			t.Errorf("%q is %q, %v, want %q", text, got, err, want)
			continue
		}
		if shown := address.Redact(text); shown != text {
			t.Errorf("%q is shown as %q", text, shown)
		}
	}
}

// hostile are spellings that a client, a server or a rule could read in another
// way than a person does, and such that have credentials in them.
var hostile = []string{
	"", "/", "://", "https://", "https:///a", "https://:443/a", "ftp://example.com/x", "git://example.com/a", "file:///etc/passwd", "/etc/passwd", "./a", "c:/x",
	"ext::sh -c id", "javascript://example.com/a",
	// Credentials.
	"https://canary@example.com/a", "https://user:canary@example.com/a", "https://canary:x-oauth-basic@example.com/a", "https://:canary@example.com/a",
	"https://@example.com/a", "https://a@b@example.com/a", "ssh://git:canary@example.com/a", "oci://user:canary@example.com/a", "user@example.com/a",
	"canary:x-oauth-basic@example.com/a", "https://example.com/a?private_token=canary", "https://example.com/a#canary", "https://user:can/ary@example.com/a",
	"git@example.com:a?canary",
	// Another host than it looks like.
	"https://evil.test?.corp.example/x", "https://evil.test#.corp.example/x", `https://evil.test\.corp.example/x`, `https:\\evil.test\x`, "https://evil.test%2f.corp.example/x",
	"https://evil.test%00.corp.example/x", "https://evil%2etest/x", "https://example.com./a", "https://.example.com/a", "https://example..com/a", "https://-example.com/a",
	"https://exa mple.com/a", "https://example.com\t/a", "https://ex\u00e4mple.com/a", "https://github\u3002com/a", "https://\uff47ithub.com/a", "https://example.com\u200b/a",
	// Odd IP addresses and ports.
	"https://0x7f.1/a", "https://2130706433/a", "https://127.1/a", "https://127.0.0.01/a", "https://1.2.3.4.5/a", "https://0x7f000001/a",
	"https://[::ffff:127.0.0.1]/a", "https://[fe80::1%25eth0]/a", "https://[::1/a", "https://[127.0.0.1]/a", "https://[::1]x/a", "https://::1/a",
	"https://example.com:/a", "https://example.com:0/a", "https://example.com:0443/a", "https://example.com:+443/a", "https://example.com:65536/a", "https://example.com:443:443/a", "https://example.com:x/a",
	// Other spellings of a path.
	"https://example.com//a", "https://example.com/a//b", "https://example.com/a/b//", "https://example.com/./a", "https://example.com/a/../b", "https://example.com/a/..",
	"https://example.com/%2e%2e/a", "https://example.com/a/%2E./b", "https://example.com/%73ecret", "https://example.com/a%2fb", "https://example.com/a%2Fb", "https://example.com/a%5cb",
	`https://example.com/a\b`, "https://example.com/a%00", "https://example.com/a%0a", "https://example.com/a\nb", "https://example.com/a\x7fb", "https://example.com/a%7f", "https://example.com/%zz", "https://example.com/a%2",
	"https://example.com/a%", "https://example.com/%2573ecret", "https://example.com/a%c0%afb", "https://example.com/a%ff", "https://example.com/a%3ab", "https://example.com/a%40b", "https://example.com/\u00e4", "https://example.com/a|b",
	"https://example.com/.git", "https://example.com/a/.git", "https://example.com/a.git/.git/", " https://example.com/a", "https://example.com/a ",
	// SSH.
	"git@-oProxyCommand=id:x", "ssh://-oProxyCommand=id/x", "-oProxyCommand=id@example.com:x", "git@example.com:-x", "ssh://git@example.com/~/-x", "git@example.com:../a", "git@example.com:a/../b", "git@example.com::a",
	"git@example.com:~git/a", "ssh://git@example.com/~git/a", "ssh://example.com/~git/a", "git@example.com:~", "git@example.com:~/~/a", "git@example.com:%61", "git@example.com:a%2fb", "git@example.com:a//b", "git@:a", "@example.com:a", "ssh://git@/a",
	"ssh://git@example.com:path/a", "ssh://a b@example.com/a", "git@example.com:a@b",
}

// TestParseRefuses: no hostile spelling is an address, and no error has a
// credential in it.
func TestParseRefuses(t *testing.T) {
	if len(hostile) < 100 {
		t.Errorf("only %d spellings", len(hostile))
	}
	for _, text := range append(hostile, "https://example.com/"+strings.Repeat("a", 2048)) {
		got, err := address.Parse(text)
		if err == nil {
			t.Errorf("%q is %+v", text, got)
			continue
		}
		if strings.Contains(err.Error(), "canary") || !got.IsZero() {
			t.Errorf("%q: %v, %+v", text, err, got)
		}
		if shown := address.Redact(text); strings.Contains(shown, "canary") {
			t.Errorf("%q is shown as %q", text, shown)
		}
	}
}

// TestParseSaysWhatToWrite: credentials belong into a Secret.
func TestParseSaysWhatToWrite(t *testing.T) {
	for text, want := range map[string]string{
		"https://user:canary@example.com/a": "Secret", "https://example.com/a?token=canary": "Secret", "https://example.com/a#canary": "fragment",
		"ftp://example.com/a": "https", "https://example.com./a": "dot", "https://example.com/%73": "percent-encode", "https://example.com//a": "single slashes",
		"git@example.com:~git/a": "git@example.com:team/app.git",
	} {
		if _, err := address.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want it to name %q", text, err, want)
		}
	}
	for _, text := range []string{"oci://example.com/a", "example.com/a", "https://example.com", "ssh://git@example.com"} {
		if got, err := address.ParseGit(text); err == nil {
			t.Errorf("%q is the Git repository %+v", text, got)
		}
	}
}

// TestCanonical: each group is one repository, and no other one.
func TestCanonical(t *testing.T) {
	groups := [][]string{
		{"https://example.com/a/b", "https://example.com/a/b.git", "https://Example.com:443/a/b/", "https://example.com/a/b.git/"},
		{"git@example.com:a/b", "git@EXAMPLE.com:a/b.git", "example.com:a/b", "ssh://git@example.com/~/a/b", "ssh://example.com:22/~/a/b.git"},
		{"ssh://git@example.com/a/b", "ssh://git@example.com:22/a/b.git", "ssh+git://example.com/a/b/", "git@example.com:/a/b"},
		{"http://example.com/a/b"},
		{"ssh://other@example.com/a/b"},
		{"https://example.com/A/b"},
		{"https://example.com:8443/a/b"},
		{"oci://example.com/a/b", "example.com/a/b", "example.com:443/a/b"},
	}
	owner := map[address.Address]int{}
	for group, texts := range groups {
		for _, text := range texts {
			at, err := address.Parse(text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if other, found := owner[at.Canonical()]; found && other != group {
				t.Errorf("%s has the key of another", text)
			}
			owner[at.Canonical()] = group
		}
	}
	if len(owner) != len(groups) {
		t.Errorf("%d keys for %d repositories", len(owner), len(groups))
	}
}

// TestRedact: what is shown of addresses that are refused.
func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"https://canary@example.com/a": "https://example.com/a",
		"https://canary:x-oauth-basic@example.com/a.git": "https://example.com/a.git",
		"https://u:c@n@ry@example.com/a":                 "https://example.com/a",
		"https://example.com/a?private_token=canary":     "https://example.com/a",
		"https://u:p@example.com/a?x=canary#canary":      "https://example.com/a",
		"https://example.com:8443/a#canary":              "https://example.com:8443/a",
		"git@example.com:a?canary":                       "git@example.com:a",
		"ssh://git:canary@example.com/a":                 "(not a valid address)",
		"canary:x-oauth-basic@example.com/a":             "(not a valid address)",
		"https://user:can/ary@example.com/a":             "(not a valid address)",
	} {
		if got := address.Redact(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// FuzzParse: what is accepted has one meaning. Its text is accepted again as the
// same address, Go's client goes to the same host, and no user, password or
// query is left.
func FuzzParse(f *testing.F) {
	for _, seed := range hostile {
		f.Add(seed)
	}
	for _, seed := range []string{"https://example.com/a.git", "git@example.com:a", "ssh://git@example.com:22/~/a", "oci://[::1]:5000/a", "registry:5000/a", "https://h/%20%C3%A4"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		redacted := address.Redact(text)
		if strings.ContainsAny(redacted, "\n\x00?#") {
			t.Errorf("%q is shown as %q", text, redacted)
		}
		a, err := address.Parse(text)
		if err != nil {
			return
		}
		again, err := address.Parse(a.String())
		if err != nil || again.Canonical() != a.Canonical() || again.String() != a.String() {
			t.Fatalf("%q is %+v, and its text %q is %+v, %v", text, a, a.String(), again, err)
		}
		if strings.Contains("/"+a.PlainPath()+"/", "/../") || strings.Contains("/"+a.PlainPath(), "//") || strings.ContainsAny(a.PlainPath(), "\\\x00\n") {
			t.Errorf("%q has the path %q", text, a.PlainPath())
		}
		if a.Scheme == address.SSH {
			return
		}
		parsed, err := url.Parse(a.String())
		if err != nil || parsed.Hostname() != a.Host || parsed.Port() != a.Port || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
			t.Errorf("%q is %+v, and Go reads %+v, %v", text, a, parsed, err)
		}
		if at := a.URL(); strings.TrimSuffix(at.String(), "/") != a.String() {
			t.Errorf("%q is %q, and its URL %q", text, a, at)
		}
	})
}
