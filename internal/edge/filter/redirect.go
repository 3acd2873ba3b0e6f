package filter

import (
	"bytes"
	"cmp"
	"errors"
	"strconv"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// redirectStatus keeps the method, and browsers do not cache it, so that a wrong
// redirect can be corrected.
const redirectStatus = 307

// The local responses to a request that cannot be redirected. They are shared and
// never change.
var (
	noHost      = &LocalResponse{Status: 400, Reason: "RedirectWithoutHost"}
	badLocation = &LocalResponse{Status: 400, Reason: "BadRedirect"}
)

// slash is what a redirect can remove from the end of a URL.
var slash = []byte("/")

// redirection is the common part of the redirects.
type redirection struct {
	status   int
	location h1.Edit
}

func newRedirection(status int) (redirection, error) {
	status = cmp.Or(status, redirectStatus)
	location, err := h1.SetField("Location", "")
	return redirection{status: status, location: location}, err
}

// to returns a redirect to a location, which is copied.
func (r *redirection) to(x *Exchange, location []byte) *LocalResponse {
	edit, err := r.location.With(x.keep(location))
	if err != nil {
		return badLocation
	}
	local := x.respond(r.status, "Redirect")
	x.memory.edits = append(x.memory.edits, edit)
	local.Edits = x.memory.edits
	return local
}

// schemeOf returns the scheme that the client used.
func schemeOf(x *Exchange) route.Scheme {
	if x.TLS {
		return route.SchemeHTTPS
	}
	return route.SchemeHTTP
}

// appendRequested appends the client's target, in its canonical spelling. OPTIONS *
// has none.
func appendRequested(dst []byte, x *Exchange) []byte {
	if x.Head.URI.Asterisk {
		return dst
	}
	return x.Head.URI.AppendTarget(dst)
}

// redirectScheme compares the scheme only, never the port: a redirect that also
// compared ports would loop behind a balancer that changes them.
type redirectScheme struct {
	redirection
	scheme route.Scheme
	port   string // with its colon, empty for the one that the scheme implies
	trim   bool   // removes a slash at the end
}

// newRedirectScheme leaves out a port that the scheme implies.
func newRedirectScheme(a *route.RedirectScheme) (*redirectScheme, error) {
	redirection, err := newRedirection(a.Status)
	return &redirectScheme{redirection: redirection, scheme: a.Scheme, port: portText(a.Scheme, a.Port), trim: a.TrimSlash}, err
}

// portText returns a port with its colon, empty for the one that the scheme implies
// and for 0.
func portText(scheme route.Scheme, port uint16) string {
	implied := uint16(80)
	if scheme == route.SchemeHTTPS {
		implied = 443
	}
	if port == 0 || port == implied {
		return ""
	}
	return ":" + strconv.Itoa(int(port))
}

// Request implements [Filter].
func (f *redirectScheme) Request(x *Exchange) *LocalResponse {
	if schemeOf(x) == f.scheme {
		return nil
	}
	if len(x.Head.URI.Host) == 0 {
		return noHost
	}
	x.memory.work = append(x.memory.work[:0], f.scheme...)
	x.memory.work = append(x.memory.work, "://"...)
	x.memory.work = append(x.memory.work, x.Head.URI.Host...)
	x.memory.work = append(x.memory.work, f.port...)
	x.memory.work = appendRequested(x.memory.work, x)
	if f.trim {
		x.memory.work = bytes.TrimSuffix(x.memory.work, slash)
	}
	return f.to(x, x.memory.work)
}

// RedirectsPlain reports whether no plain request gets past the chain's redirect to https.
// What comes before it may only limit, redirect, or respond to a preflight request: a filter
// that sends the request elsewhere would do so unencrypted.
func (c *Chain) RedirectsPlain() bool {
	for _, one := range c.filters {
		switch f := one.(type) {
		case *redirectScheme:
			return f.scheme == route.SchemeHTTPS
		case *bodyLimit, *redirectRegexp, *cors:
		default:
			return false
		}
	}
	return false
}

// redirectRegexp redirects by an expression over the whole URL.
type redirectRegexp struct {
	redirection
	rewriter *rewriter
}

func newRedirectRegexp(a *route.RedirectRegexp) (*redirectRegexp, error) {
	rewriter, err := newRewriter(a.Regexp, a.Replacement)
	if err != nil {
		return nil, err
	}
	if err := rewriter.literals(checkURLText); err != nil {
		return nil, err
	}
	redirection, err := newRedirection(a.Status)
	return &redirectRegexp{redirection: redirection, rewriter: rewriter}, err
}

// checkURLText refuses a text that no URL could have in it.
func checkURLText(text string) error {
	if !visible(normalize.Bytes(text)) {
		return errors.New("a URL has visible ASCII characters only; escape others with %XX")
	}
	return nil
}

// Request implements [Filter]. It matches the client's URL, not a path that earlier
// filters made of it: the redirect starts from where the client is.
func (f *redirectRegexp) Request(x *Exchange) *LocalResponse {
	if len(x.Head.URI.Host) == 0 {
		return noHost
	}
	url := append(x.memory.work[:0], schemeOf(x)...)
	url = append(url, "://"...)
	url = append(url, x.Head.URI.Authority...)
	url = appendRequested(url, x)
	n := len(url)
	out, fits, err := f.rewriter.replace(url, url, n+maxGrowth)
	x.memory.work = out
	switch location := out[n:]; {
	case err != nil:
		return badLocation
	case !fits || bytes.Equal(location, out[:n]):
		return nil
	case !safeLocation(location):
		return badLocation
	default:
		return f.to(x, location)
	}
}

// safeLocation reports whether a location is an http or https URL with a plain
// host, or a path of the same host. A name before an @ and a second slash at the
// start both hide another host, which would make an open redirect.
func safeLocation(location []byte) bool {
	if !visible(location) {
		return false
	}
	if len(location) > 0 && location[0] == '/' {
		return len(location) == 1 || location[1] != '/' && location[1] != '\\'
	}
	rest, found := bytes.CutPrefix(location, []byte("https://"))
	if !found {
		if rest, found = bytes.CutPrefix(location, []byte("http://")); !found {
			return false
		}
	}
	if end := bytes.IndexAny(rest, `/?#\`); end >= 0 {
		rest = rest[:end]
	}
	_, _, err := normalize.Host(nil, rest)
	return err == nil
}

// visible reports whether b has visible ASCII characters only.
func visible(b []byte) bool {
	for _, c := range b {
		if c-0x21 > 0x7e-0x21 {
			return false
		}
	}
	return true
}
