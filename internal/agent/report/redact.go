package report

import (
	"regexp"

	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/secret"
)

// maxRedacted bounds the work on a message; a longer one is cut anyway.
const maxRedacted = 64 << 10

// secretPatterns are the forms of secrets, with their replacements. The order
// matters: an address is redacted before the words in it.
var secretPatterns = []struct {
	form  *regexp.Regexp
	stays string
}{
	// A private key, also one that is cut off.
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`), secret.Redacted},
	// The user and password of an address.
	{regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@'"]+@`), "${1}"},
	// The header of a request.
	{regexp.MustCompile(`(?i)\b(authorization|proxy-authorization|x-api-key|private-token)(["']?\s*[:=]\s*["']?)((?:bearer|basic|token|negotiate)\s+)?[^\s"',;]+`), "${1}${2}" + secret.Redacted},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{12,}`), "${1} " + secret.Redacted},
	// An assignment to a name that marks its value as a secret.
	{regexp.MustCompile(`(?i)\b([A-Za-z0-9_.-]*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential)[A-Za-z0-9_.-]*["']?\s*[=]\s*["']?)[^\s"'&,;]+`), "${1}" + secret.Redacted},
	{regexp.MustCompile(`(?i)(["'](?:password|passwd|secret|token|api[_-]?key|access[_-]?key|client[_-]?secret)["']\s*:\s*["'])[^"']+`), "${1}" + secret.Redacted},
	// The same in YAML, with a key without quotes: at the beginning of a line or in braces, and
	// up to its end. In the middle of a sentence such a word is no key.
	{regexp.MustCompile(`(?im)((?:^|[{,]|: |\\n)[ \t]*(?:- )?[A-Za-z0-9_.-]*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential)[A-Za-z0-9_.-]*:[ \t]+)(?:\\?"[^"\n]*"?|'[^'\n]*'?|[^\s,}\\"'][^\n,}\\]*)`), "${1}" + secret.Redacted},
	// Tokens that are known by their beginning.
	{regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|gl[a-z]{2,6}-[A-Za-z0-9_-]{20,}|ATBB[A-Za-z0-9]{16,}|ATATT[A-Za-z0-9_=-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|sk-[A-Za-z0-9_-]{20,}|A[KS]IA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|hv[sb]\.[A-Za-z0-9_-]{20,}|slwr?_[A-Za-z0-9_-]+)`), secret.Redacted},
	// A JSON Web Token.
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`), secret.Redacted},
}

// redact removes texts that have the form of a secret. Controllers do not write
// secrets into a status, but the response of a Git host or of a webhook may
// contain some.
func redact(text string) string {
	if len(text) > maxRedacted {
		text = text[:maxRedacted]
	}
	for _, each := range secretPatterns {
		text = each.form.ReplaceAllString(text, each.stays)
	}
	return text
}

// redactAddress removes user, password and query of an address. The user of SSH
// is left out as well unless it is the usual one: it may be a token.
func redactAddress(text string) string {
	shown := address.Redact(text)
	if at, err := address.Parse(shown); err == nil && at.User != "" {
		at.User = ""
		return at.String()
	}
	return shown
}
