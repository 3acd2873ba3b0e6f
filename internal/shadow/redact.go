package shadow

import (
	"net/http"
	"regexp"
	"strings"
)

// redacted stands in a report for a value that may be a secret.
const redacted = "[redacted]"

// maxShown bounds a value in a report.
const maxShown = 200

// sensitive matches names of headers and parameters whose values may be secrets. A report
// is passed around, so it is better to hide too much.
var sensitive = regexp.MustCompile(`(?i)auth|cookie|token|secret|passw|api-?_?key|session|signature|\bsig\b|\bcode\b|credential|jwt|otp|ticket|\bstate\b`)

// parameter matches a parameter of a query.
var parameter = regexp.MustCompile(`([?&;#])([^=&;#]*)=([^&;#]*)`)

// redactURL hides the values of sensitive parameters of a URL or a target, and a password.
func redactURL(text string) string {
	text = parameter.ReplaceAllStringFunc(text, func(match string) string {
		name, _, _ := strings.Cut(match[1:], "=")
		if sensitive.MatchString(name) {
			return match[:1] + name + "=" + redacted
		}
		return match
	})
	if scheme, rest, found := strings.Cut(text, "://"); found {
		authority, path, slash := strings.Cut(rest, "/")
		if _, host, user := strings.Cut(authority, "@"); user {
			authority = redacted + "@" + host
		}
		text = scheme + "://" + authority
		if slash {
			text += "/" + path
		}
	}
	return shortened(text)
}

// shownHeader returns the values of a header for a report. WWW-Authenticate is a challenge
// and no credential.
func shownHeader(name string, header http.Header) string {
	if sensitive.MatchString(name) && name != "Www-Authenticate" && header.Get(name) != "" {
		return redacted
	}
	return shortened(strings.Join(header.Values(name), " | "))
}

// shownHeaders returns the headers of a copy for a report.
func shownHeaders(header http.Header) map[string]string {
	out := map[string]string{}
	for name := range header {
		out[name] = redactURL(shownHeader(name, header))
	}
	return out
}

// shortened cuts a long text.
func shortened(text string) string {
	if len(text) > maxShown {
		return strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	return text
}
