package difference

import (
	"fmt"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// Example is a request that shows a difference, with the responses of both sides.
type Example struct {
	// Method is GET if it is empty.
	Method  string
	URL     string
	Headers []string
	// Times is how often the request is sent; 0 is once.
	Times int
	// Before and After are the expected responses.
	Before, After string
}

// Command returns the request as a command line of curl that prints the head of the
// response, or for several requests their statuses. Every part that comes from an object
// is quoted for a shell.
func (e *Example) Command() string {
	line := "curl -i"
	if e.Times > 1 {
		line = "curl -s -o /dev/null -w '%{http_code}\\n'"
	}
	switch e.Method {
	case "", "GET":
	case "HEAD":
		line += " -I"
	default:
		line += " -X " + Quote(e.Method)
	}
	for _, header := range e.Headers {
		line += " -H " + Quote(header)
	}
	if strings.ContainsAny(e.URL, "[]{}") {
		line += " -g" // curl would take brackets for a pattern
	}
	if e.Times > 1 && !strings.ContainsAny(e.URL, "[]{}?") {
		return line + " " + Quote(fmt.Sprintf("%s?[1-%d]", e.URL, e.Times))
	}
	return line + " " + Quote(e.URL)
}

// Quote returns a word for a shell, which expands nothing in it.
func Quote(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// HostFor returns a host that a rule matches. A wildcard has one more label.
func HostFor(host string) string {
	if parent, wildcard := route.WildcardParent(host); wildcard {
		return "probe." + parent
	}
	if host == "" {
		return "probe.invalid"
	}
	return host
}

// PathFor returns a path that a match selects.
func PathFor(match route.PathMatch) string {
	path := match.Literal()
	if match.Type == route.PathRegexp {
		// An expression starts with its flags, and has no literal text without them.
		path = route.LiteralPrefix(strings.TrimPrefix(match.Value, "(?i)"))
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path
}

// url returns the URL of a path for a rule, encrypted if plain requests are redirected
// or not served.
func (s *Subject) url(rule *route.Rule, path string) string {
	scheme := "http"
	if !s.Plain || rule.Match.Scheme == route.SchemeHTTPS || redirectsToTLS(rule) {
		scheme = "https"
	}
	return scheme + "://" + HostFor(rule.Host) + path
}

// get returns a request for the path of a rule.
func (s *Subject) get(rule *route.Rule, before, after string) *Example {
	return &Example{URL: s.url(rule, PathFor(rule.Match.Path)), Before: before, After: after}
}

func redirectsToTLS(rule *route.Rule) bool {
	for i := range rule.Policies {
		if to := rule.Policies[i].RedirectScheme; to != nil && to.Scheme == route.SchemeHTTPS {
			return true
		}
	}
	return false
}
