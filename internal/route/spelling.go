package route

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"slipway.dev/slipway/api/refusal"
)

// maxNameLength is the longest name that Kubernetes gives an object.
const maxNameLength = 253

// validName accepts the names of Kubernetes and nothing that would make the text of
// an identity ambiguous.
func validName(name string) bool {
	return name != "" && len(name) <= maxNameLength && consistsOf(name, ".-_")
}

// checkEach applies the check of one text to a list.
func checkEach(r *report, field string, list []string, check func(r *report, field, value string)) {
	for i, value := range list {
		r.enterItem(field, i)
		check(r, "", value)
		r.leave()
	}
}

// checkChoice requires one of the known values.
func checkChoice[T ~string](r *report, field string, value T, known ...T) {
	if slices.Contains(known, value) {
		return
	}
	texts := make([]string, len(known))
	for i := range known {
		texts[i] = string(known[i])
	}
	if len(texts) == 2 {
		r.add(field, refusal.Invalid, "%q is neither %s nor %s", value, texts[0], texts[1])
		return
	}
	r.add(field, refusal.Invalid, "%q is none of %s", value, strings.Join(texts, ", "))
}

// checkOptionalChoice is checkChoice for a field that can be empty.
func checkOptionalChoice[T ~string](r *report, field string, value T, known ...T) {
	if value != "" {
		checkChoice(r, field, value, known...)
	}
}

// checkChoices is checkChoice for the elements of a list.
func checkChoices[T ~string](r *report, field string, values []T, known ...T) {
	for i, value := range values {
		r.enterItem(field, i)
		checkChoice(r, "", value, known...)
		r.leave()
	}
}

// checkStatuses requires ranges of HTTP statuses from least to 599.
func checkStatuses(r *report, ranges []StatusRange, least int) {
	for i, status := range ranges {
		if status.From < least || status.To > 599 || status.From > status.To {
			r.addItem("statuses", i, refusal.Invalid, "%d to %d is not a range within %d to 599", status.From, status.To, least)
		}
	}
}

// checkObjectID validates the identity of an element that is one object.
func checkObjectID(r *report, id CertificateID) {
	r.enter("id")
	checkName(r, "name", id.Name)
	checkOptionalName(r, "namespace", id.Namespace)
	r.leave()
}

// checkName requires a valid name.
func checkName(r *report, field, name string) {
	if name == "" {
		r.add(field, refusal.Required, "it has no name; give it one")
		return
	}
	checkOptionalName(r, field, name)
}

func checkOptionalName(r *report, field, name string) {
	if name != "" && !validName(name) {
		r.add(field, refusal.Invalid, "%s is not a name; use letters, digits, dots, dashes and underscores, at most %d", shorten(name), maxNameLength)
	}
}

// checkHost accepts the spelling that requests are normalised to, and
// wildcards.
func checkHost(r *report, field, host string) {
	if strings.ToLower(host) != host {
		r.add(field, refusal.Invalid, "%s has capitals; hosts are compared in lower case, so write it so", shorten(host))
		return
	}
	name, wildcard := WildcardParent(host)
	if !wildcard {
		if _, err := netip.ParseAddr(host); err == nil {
			return
		}
	}
	if !validHost(name) {
		r.add(field, refusal.Invalid, "%s is not a host; write a name such as a.example.com or *.example.com, without port", shorten(host))
	}
}

// validHost accepts a DNS name in lower case, or an IP address.
func validHost(host string) bool {
	if host == "" || len(host) > maxNameLength {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' || !consistsOf(label, "-_") {
			return false
		}
	}
	return true
}

// validHostHeader accepts a host with or without a port.
func validHostHeader(host string) bool {
	return host != "" && len(host) <= maxNameLength+6 && consistsOf(host, ".-_:[]")
}

// checkPath refuses spellings that no request has after it was normalised;
// they are those that the Kubernetes API refuses in an Ingress too.
func checkPath(r *report, field, path string) {
	switch {
	case !strings.HasPrefix(path, "/"):
		r.add(field, refusal.Invalid, "%s does not start with a slash; a path does", shorten(path))
	case len(path) > MaxPathLength:
		r.add(field, refusal.Invalid, "the path has %d bytes; at most %d are allowed", len(path), MaxPathLength)
	case hasControl(path) || strings.ContainsAny(path, "?#"):
		r.add(field, refusal.Invalid, "a path has no control characters, no ? and no #")
	case !cleanPath(path):
		r.add(field, refusal.Invalid, "%s matches no request, because paths are normalised first; write it without //, /./, /../ and %%2f", shorten(path))
	}
}

// cleanPath reports whether a path is free of the sequences that normalising
// removes.
func cleanPath(path string) bool {
	for _, sequence := range []string{"//", "/./", "/../", "%2f", "%2F"} {
		if strings.Contains(path, sequence) {
			return false
		}
	}
	return !strings.HasSuffix(path, "/.") && !strings.HasSuffix(path, "/..")
}

// checkExpressionField validates an expression, and its size.
func checkExpressionField(r *report, field, expression string) {
	if err := checkExpression(expression); err != nil {
		r.add(field, refusal.Invalid, "%s", err)
	}
}

// checkHeaderName requires a token of RFC 9110.
func checkHeaderName(r *report, field, name string) {
	if name == "" {
		r.add(field, refusal.Required, "the name is missing")
		return
	}
	checkOptionalHeaderName(r, field, name)
}

func checkOptionalHeaderName(r *report, field, name string) {
	if name != "" && !validToken(name) {
		r.add(field, refusal.Invalid, "%s is not the name of a header or cookie", shorten(name))
	}
}

func checkTokens(r *report, field string, values []string) {
	for i, value := range values {
		if !validToken(value) {
			r.addItem(field, i, refusal.Invalid, "%s is not a word of a header", shorten(value))
		}
	}
}

// checkTexts is for lists whose elements become part of a header.
func checkTexts(r *report, field string, values []string) {
	for i, value := range values {
		if value == "" || hasControl(value) {
			r.addItem(field, i, refusal.Invalid, "the value is empty or has control characters")
		}
	}
}

// checkDuration refuses negative durations.
func checkDuration(r *report, field string, d Duration) {
	if d < 0 {
		r.add(field, refusal.Invalid, "%s is negative; leave it out for the default", d)
	}
}

func checkAtLeast(r *report, field string, value, least int64) {
	if value < least {
		r.add(field, refusal.Invalid, "%d is less than %d", value, least)
	}
}

func checkPercent(r *report, field string, percent int) {
	if percent < 1 || percent > 100 {
		r.add(field, refusal.Invalid, "%d is not a percentage from 1 to 100", percent)
	}
}

func validMethod(method string) bool {
	return validToken(method) && len(method) <= 32 && strings.ToUpper(method) == method
}

// validToken is a token of RFC 9110, the form of header names and methods.
func validToken(token string) bool {
	return token != "" && len(token) <= maxNameLength && consistsOf(token, "!#$%&'*+-.^_`|~")
}

// validCookieAttribute refuses what would end the attribute (RFC 6265, 4.1.1).
func validCookieAttribute(value string) bool {
	return !hasControl(value) && !strings.Contains(value, ";")
}

// hasControl reports control characters, and bytes that are not UTF-8: they
// would not survive being written to disk and read again.
func hasControl(text string) bool {
	for i := range len(text) {
		if text[i] < 0x20 || text[i] == 0x7f {
			return true
		}
	}
	return !utf8.ValidString(text)
}

// checkText is for text that is shown or compared, and nothing more.
func checkText(r *report, field, text string) {
	if !utf8.ValidString(text) {
		r.add(field, refusal.Invalid, "the text is not UTF-8")
	}
}

// checkCreated refuses times that have no text form.
func checkCreated(r *report, created time.Time) {
	if _, err := created.MarshalText(); err != nil {
		r.add("created", refusal.Invalid, "the time cannot be written down; give a year from 1 to 9999")
	}
}

// consistsOf reports whether a text has only ASCII letters, digits and the other
// characters.
func consistsOf(text, others string) bool {
	for i := range len(text) {
		c := text[i]
		if ('a' > c || c > 'z') && ('A' > c || c > 'Z') && ('0' > c || c > '9') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}

// shorten quotes a value for a message; a hostile one may be very long.
func shorten(value string) string {
	const most = 80
	if len(value) > most {
		return strconv.Quote(value[:most]) + "..."
	}
	return strconv.Quote(value)
}
