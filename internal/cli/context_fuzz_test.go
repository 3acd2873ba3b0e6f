package cli_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli"
)

// FuzzContexts: what was read is written as it was, and an error shows nothing of
// the file.
func FuzzContexts(f *testing.F) {
	f.Add([]byte("currentContext: a\ncontexts:\n- {name: a, url: 'https://a.example', key: canary, keyExpires: '2026-12-01T00:00:00Z'}\n"))
	f.Add([]byte("contexts: [{name: a, url: 'http://a.example', key: canary}]"))
	f.Add([]byte("contexts: [{name: a, url: 'https://canary@a.example'}]"))
	f.Add([]byte("- canary"))
	f.Fuzz(func(t *testing.T, text []byte) {
		once, err := cli.RewriteContexts(text)
		if err != nil {
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error shows a key: %v", err)
			}
			return
		}
		twice, err := cli.RewriteContexts(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%q becomes %q: %v", once, twice, err)
		}
	})
}

// FuzzRedaction: a secret that is known is nowhere in what is left.
func FuzzRedaction(f *testing.F) {
	f.Add("slw_abc_def", "key slw_abc_def of https://a:b@c")
	f.Add("hunter22", "password=hunter22; Bearer hunter22hunter22")
	f.Fuzz(func(t *testing.T, known, text string) {
		known = strings.TrimSpace(known)
		if len(known) < 4 || strings.ContainsAny(known, "[]@") || strings.Contains("[redacted]", known) {
			t.Skip()
		}
		if left := cli.Redact(known, text); strings.Contains(left, known) {
			t.Errorf("%q is in %q", known, left)
		}
	})
}

// TestRedaction: what looks like a secret is taken out, and the rest stays.
func TestRedaction(t *testing.T) {
	for text, want := range map[string]string{
		"clone https://bot:pa55@git.example/x.git":                    "clone https://[redacted]@git.example/x.git",
		"Authorization: Bearer abcdef123456":                          "Authorization: [redacted]",
		"token eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2ln is wrong":    "token [redacted] is wrong",
		"glpat-0123456789abcdef and ghp_0123456789abcdef":             "[redacted] and [redacted]",
		"password: hunter2, user: ada":                                "[redacted], user: ada",
		"-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----": "[redacted]",
		"the runtime prod is offline at https://git.example:8443/x":   "the runtime prod is offline at https://git.example:8443/x",
	} {
		if got := cli.Redact("", text); got != want {
			t.Errorf("%q becomes %q, wanted %q", text, got, want)
		}
	}
}

// FuzzLifetime: what is shown reads as the same.
func FuzzLifetime(f *testing.F) {
	for _, seed := range []string{"90d", "12h", "0", "-1h", "1y", "99999999d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read, shown, err := cli.Lifetime(text)
		if err != nil {
			return
		}
		if again, _, err := cli.Lifetime(shown); read < 0 || err != nil || again != read {
			t.Errorf("%q is %v, shown as %q: %v, %v", text, read, shown, again, err)
		}
	})
}

// FuzzShellWord: a shell reads the word as it was.
func FuzzShellWord(f *testing.F) {
	f.Add("it's $(touch x) `y` \\ \" ;")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, "\x00") {
			t.Skip()
		}
		out, err := exec.Command("sh", "-c", "printf %s "+cli.ShellWord(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("%q becomes %q: %v", text, out, err)
		}
	})
}

// TestEqualLabels: over all runtimes a selector says key=value only.
func TestEqualLabels(t *testing.T) {
	for selector, want := range map[string]string{"": "", "a=b": "a=b", "a==b, c=": "a=b c=", "a": "error", "!a": "error", "a in (b)": "error", "a!=b": "error"} {
		got, err := cli.EqualLabels(selector)
		if text := strings.Join(got, " "); err == nil && text != want || (err != nil) != (want == "error") {
			t.Errorf("%q: got %q, %v", selector, text, err)
		}
	}
}
