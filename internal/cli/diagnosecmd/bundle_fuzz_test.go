package diagnosecmd_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/diagnosecmd"
)

// FuzzRedaction: a secret that is known is nowhere in what is left.
func FuzzRedaction(f *testing.F) {
	f.Add("slw_abc_def", "key slw_abc_def of https://a:b@c")
	f.Add("hunter22", "password=hunter22; Bearer hunter22hunter22")
	f.Fuzz(func(t *testing.T, known, text string) {
		known = strings.TrimSpace(known)
		if len(known) < 4 || strings.ContainsAny(known, "[]@") || strings.Contains("[redacted]", known) {
			t.Skip()
		}
		if left := diagnosecmd.Redact(known, text); strings.Contains(left, known) {
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
		if got := diagnosecmd.Redact("", text); got != want {
			t.Errorf("%q becomes %q, wanted %q", text, got, want)
		}
	}
}
