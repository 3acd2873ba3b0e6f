package shadow

import (
	"cmp"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// headerRule is how the values of a header are compared. The zero value compares them as
// they are.
type headerRule struct {
	// ignored leaves the header out.
	ignored bool
	// normal returns the form of a value that is compared.
	normal func(value string, header http.Header) string
	// list: the elements between commas are a set, in any case and order.
	list bool
}

// headerRules are the headers that are not compared as they are, by their canonical names.
// docs/migration-nginx.md lists them with the reasons.
var headerRules = map[string]headerRule{
	// About one response or one connection.
	"Age": {ignored: true}, "Connection": {ignored: true}, "Content-Length": {ignored: true}, "Date": {ignored: true}, "Keep-Alive": {ignored: true},
	"Trailer": {ignored: true}, "Transfer-Encoding": {ignored: true}, "Upgrade": {ignored: true},
	// Names of the software, and its offers.
	"Alt-Svc": {ignored: true}, "Server": {ignored: true}, "Via": {ignored: true},
	// Identities of one request.
	"Request-Id": {ignored: true}, "Traceparent": {ignored: true}, "Tracestate": {ignored: true}, "X-B3-Traceid": {ignored: true},
	"X-Correlation-Id": {ignored: true}, "X-Request-Id": {ignored: true}, "X-Trace-Id": {ignored: true},
	// Durations.
	"Server-Timing": {ignored: true}, "X-Envoy-Upstream-Service-Time": {ignored: true}, "X-Response-Time": {ignored: true}, "X-Runtime": {ignored: true},
	// Compared in their parts.
	"Location": {ignored: true}, "Set-Cookie": {ignored: true},

	"Content-Security-Policy":             {normal: withoutNonce},
	"Content-Security-Policy-Report-Only": {normal: withoutNonce},
	"Content-Type":                        {normal: mediaType},
	"Etag":                                {normal: weakTag},
	"Expires":                             {normal: relativeTime},
	"Www-Authenticate":                    {normal: challenge},

	"Access-Control-Allow-Headers": {list: true}, "Access-Control-Allow-Methods": {list: true}, "Access-Control-Expose-Headers": {list: true},
	"Allow": {list: true}, "Cache-Control": {list: true}, "Pragma": {list: true}, "Vary": {list: true},
}

// nonce matches values that are another in each response: nonces of a policy and of
// digest authentication. charset matches the only value that this parameter of basic
// authentication can have.
var (
	nonce   = regexp.MustCompile(`'nonce-[^']*'|\b(nonce|opaque)="[^"]*"`)
	charset = regexp.MustCompile(`(?i),\s*charset="?utf-8"?`)
)

func withoutNonce(value string, _ http.Header) string { return nonce.ReplaceAllString(value, "nonce") }

// challenge is the form of a challenge that is compared.
func challenge(value string, header http.Header) string {
	return charset.ReplaceAllString(withoutNonce(value, header), "")
}

// mediaType gives a media type its one spelling.
func mediaType(value string, _ http.Header) string {
	kind, parameters, err := mime.ParseMediaType(value)
	if err != nil {
		return value
	}
	if charset := parameters["charset"]; charset != "" {
		parameters["charset"] = strings.ToLower(charset)
	}
	return mime.FormatMediaType(kind, parameters)
}

// weakTag returns an entity tag for the weak comparison: a controller that compresses a
// body makes its tag weak.
func weakTag(value string, _ http.Header) string { return strings.TrimPrefix(value, "W/") }

// relativeTime returns a time as what it means to a cache: how long from the date of the
// response, to a minute, since two responses have no common date.
func relativeTime(value string, header http.Header) string {
	at, err := http.ParseTime(value)
	if err != nil {
		return value
	}
	sent, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		sent = time.Now()
	}
	if !at.After(sent) {
		return "expired"
	}
	return at.Sub(sent).Round(time.Minute).String()
}

// normalValues returns the values of a header in the form that is compared.
func (r headerRule) normalValues(name string, header http.Header) []string {
	var out []string
	for _, value := range header.Values(name) {
		if r.list {
			for element := range strings.SplitSeq(value, ",") {
				out = append(out, strings.ToLower(strings.TrimSpace(element)))
			}
			continue
		}
		if r.normal != nil {
			value = r.normal(value, header)
		}
		out = append(out, strings.TrimSpace(value))
	}
	if r.list {
		slices.Sort(out)
		out = slices.Compact(out)
	}
	return out
}

// cookie is a cookie of a response without its value: its attributes.
type cookie struct {
	attributes string
}

// cookiesOf returns the cookies that a response sets. The value belongs to one client and
// one moment; an expiry counts as whether it deletes the cookie.
func cookiesOf(header http.Header) map[string]cookie {
	out := map[string]cookie{}
	for _, line := range header.Values("Set-Cookie") {
		first, rest, _ := strings.Cut(line, ";")
		name, _, _ := strings.Cut(first, "=")
		var attributes []string
		for part := range strings.SplitSeq(rest, ";") {
			key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			key = strings.ToLower(key)
			switch key {
			case "":
				continue
			case "expires":
				value = relativeDay(value)
			case "max-age", "path":
			default:
				value = strings.ToLower(value)
			}
			attributes = append(attributes, strings.TrimSuffix(key+"="+value, "="))
		}
		slices.Sort(attributes)
		out[strings.TrimSpace(name)] = cookie{strings.Join(attributes, "; ")}
	}
	return out
}

// relativeDay returns whether a cookie is deleted or kept by its expiry.
func relativeDay(value string) string {
	at, err := http.ParseTime(value)
	if err != nil {
		// The form with dashes, which browsers accept.
		if at, err = time.Parse("Mon, 02-Jan-2006 15:04:05 MST", value); err != nil {
			return value
		}
	}
	if at.Before(time.Now()) {
		return "past"
	}
	return "future"
}

// redirectOf returns the parts of a Location, resolved against the URL of the request:
// a relative one and the absolute one with the same meaning are the same.
func redirectOf(location string, scheme string, request *Request) map[string]string {
	base, err := url.Parse(scheme + "://" + request.Host + request.Target)
	if err != nil { // a spelling that only matters for a relative Location
		base = &url.URL{Scheme: scheme, Host: request.Host, Path: "/"}
	}
	to, err := base.Parse(location)
	if err != nil {
		return map[string]string{"path": location}
	}
	host := strings.ToLower(to.Host)
	// A port that the scheme implies makes no difference.
	if port := map[string]string{"http": ":80", "https": ":443"}[to.Scheme]; port != "" {
		host = strings.TrimSuffix(host, port)
	}
	return map[string]string{"scheme": to.Scheme, "host": host, "path": cmp.Or(to.EscapedPath(), "/"), "query": to.RawQuery, "fragment": to.EscapedFragment()}
}
