package traefik

import (
	"regexp"
	"strconv"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

// Redirects keep the method. Traefik returns 302 and 301 to GET and these to all other
// methods; for GET they are equivalent.
const (
	temporary = 307
	permanent = 308
)

// addPrefix converts a prefix. Traefik accepts one without a leading slash; the
// table does not, so it is added.
func addPrefix(r *record) *route.Policy {
	prefix := r.text("prefix")
	if prefix == "" {
		r.fault("prefix", refusal.Invalid, "there is no prefix to add: give one")
	}
	r.rest()
	return &route.Policy{AddPrefix: &route.AddPrefix{Prefix: rooted(prefix)}}
}

// rooted adds a leading slash to a path without one.
func rooted(path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return "/" + path
}

// stripPrefix forwards the prefix in a header, as Traefik does. A path that becomes
// empty is always a slash, also without forceSlash: no request can have an empty path.
func stripPrefix(r *record) *route.Policy {
	prefixes := r.texts("prefixes")
	r.ignore("forceSlash")
	r.rest()
	return &route.Policy{StripPrefix: &route.StripPrefix{Prefixes: prefixes, ForwardPrefix: true}}
}

// stripPrefixRegex forwards the removed prefix in a header, as stripPrefix
// does. The table compiles the expressions in check.
func stripPrefixRegex(r *record) *route.Policy {
	expressions := r.texts("regex")
	r.rest()
	return &route.Policy{StripPrefixRegexp: &route.StripPrefixRegexp{Regexps: expressions, ForwardPrefix: true}}
}

// replacePath replaces the whole path and leaves the query.
func replacePath(r *record) *route.Policy {
	path := r.text("path")
	r.rest()
	return &route.Policy{ReplacePath: &route.ReplacePath{Path: path}}
}

// replacePathRegex rewrites the path. A replacement with a query is refused,
// because the query of the request is passed on unchanged.
func replacePathRegex(r *record) *route.Policy {
	expression, replacement := r.rewriting()
	if strings.ContainsAny(replacement, "?#") {
		r.fault("replacement", refusal.Unsupported, "a path has no ? and no #: the query is passed on as it came")
	}
	r.rest()
	return &route.Policy{ReplacePathRegexp: &route.ReplacePathRegexp{Regexp: expression, Replacement: replacement}}
}

// redirectRegex converts a redirect by expression, which is matched with the
// whole URL.
func redirectRegex(r *record) *route.Policy {
	expression, replacement := r.rewriting()
	status := redirectStatus(r)
	r.rest()
	return &route.Policy{RedirectRegexp: &route.RedirectRegexp{Regexp: expression, Replacement: replacement, Status: status}}
}

// redirectScheme converts a redirect to another scheme. Traefik writes the port
// as text; a number is accepted, too.
func redirectScheme(r *record) *route.Policy {
	redirect := &route.RedirectScheme{Scheme: route.Scheme(r.text("scheme")), Status: redirectStatus(r)}
	if text := r.textOrNumber("port"); text != "" {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			r.wrong("port", "a port: give a number from 1 to 65535")
		}
		redirect.Port = uint16(port)
	}
	r.rest()
	return &route.Policy{RedirectScheme: redirect}
}

// redirectStatus returns the status of a redirect, temporary by default.
func redirectStatus(r *record) int {
	if r.flag("permanent") {
		return permanent
	}
	return temporary
}

// rewriting reads an expression and its replacement.
func (r *record) rewriting() (expression, replacement string) {
	expression, replacement = r.text("regex"), r.text("replacement")
	compiled, ok := r.expression("regex", expression)
	if !ok {
		return expression, replacement
	}
	if replacement == "" {
		// The table has no empty replacement. A group that is always empty is
		// equivalent.
		return "()" + expression, "${1}"
	}
	r.groups("replacement", replacement, compiled)
	return expression, replacement
}

// expression compiles an expression of bounded length.
func (r *record) expression(name, text string) (*regexp.Regexp, bool) {
	if text == "" || len(text) > route.MaxExpressionLength {
		r.fault(name, refusal.Invalid, "give a regular expression of at most %d bytes", route.MaxExpressionLength)
		return nil, false
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		r.fault(name, refusal.Invalid, "is not a regular expression in RE2 syntax: %s", brief(err.Error()))
		return nil, false
	}
	return compiled, true
}

// groups refuses a replacement with a group that the expression does not have. Traefik
// would insert an empty string, which is never intended.
func (r *record) groups(name, replacement string, expression *regexp.Regexp) {
	// $$ is an escaped dollar sign and names no group.
	text := strings.ReplaceAll(replacement, "$$", "")
	for {
		_, rest, found := strings.Cut(text, "$")
		if !found {
			return
		}
		group := groupName(rest)
		number, err := strconv.ParseUint(group, 10, 16)
		switch {
		case group == "":
			r.fault(name, refusal.Invalid, "a $ is not followed by a group: write ${1} for the first group, $$ for a dollar sign")
			return
		case err == nil && int(number) > expression.NumSubexp(), err != nil && expression.SubexpIndex(group) < 0:
			r.fault(name, refusal.Invalid, "names a group %q that the expression does not have: put braces around it where letters follow, as in ${1}x", brief(group))
			return
		}
		text = rest
	}
}

// groupName returns the group name at the start of a text after a $.
func groupName(text string) string {
	inner, braced := strings.CutPrefix(text, "{")
	end := strings.IndexFunc(inner, func(c rune) bool {
		return c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z')
	})
	if end < 0 {
		end = len(inner)
	}
	if braced && !strings.HasPrefix(inner[end:], "}") {
		return ""
	}
	return inner[:end]
}
