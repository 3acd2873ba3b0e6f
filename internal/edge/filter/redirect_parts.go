package filter

import (
	"cmp"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// redirectParts redirects to a URL that is composed of parts: given ones, and
// those of the request for the rest. It has no condition, so it is the response of a
// rule and no policy.
type redirectParts struct {
	redirection
	parts route.Redirect
}

// WithRedirect returns a chain that ends with a redirect. The path is normalised as
// those of requests are: the location has one spelling.
func (c Chain) WithRedirect(to *route.Redirect, status int) (Chain, error) {
	redirection, err := newRedirection(status)
	f := &redirectParts{redirection: redirection, parts: *to}
	if err == nil && to.Path != "" {
		f.parts.Path, err = fixedPath("path", to.Path)
	}
	if err != nil {
		return Chain{}, placed("response.redirect", err)
	}
	c.filters = append(slices.Clip(c.filters), f)
	return c, nil
}

// Request implements [Filter].
func (f *redirectParts) Request(x *Exchange) *LocalResponse {
	uri := &x.Head.URI
	scheme := f.parts.Scheme
	if scheme == "" {
		scheme = schemeOf(x)
	}
	url := append(x.memory.work[:0], scheme...)
	url = append(url, "://"...)
	switch {
	case f.parts.Host != "":
		url = append(url, f.parts.Host...)
	case len(uri.Host) == 0:
		return noHost
	default:
		url = append(url, uri.Host...)
	}
	url = append(url, portText(scheme, f.parts.Port)...)
	if !uri.Asterisk {
		url = f.appendPath(url, uri.Path)
		if uri.HasQuery {
			url = append(append(url, '?'), uri.Query...)
		}
	}
	x.memory.work = url
	return f.to(x, url)
}

// appendPath appends the path of the location. A prefix is replaced element by
// element, so that one slash stays between its replacement and the rest.
func (f *redirectParts) appendPath(url, path []byte) []byte {
	if f.parts.ReplacePrefix == "" {
		if f.parts.Path != "" {
			path = normalize.Bytes(f.parts.Path)
		}
		return append(url, path...)
	}
	prefix := strings.TrimSuffix(f.parts.ReplacePrefix, "/")
	if !hasElements(path, prefix) {
		return append(url, path...)
	}
	rest := path[len(prefix):]
	if len(rest) == 0 {
		return append(url, cmp.Or(f.parts.Path, "/")...)
	}
	url = append(url, strings.TrimSuffix(f.parts.Path, "/")...)
	return append(url, rest...)
}
