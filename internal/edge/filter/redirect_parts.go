package filter

import (
	"slipway.dev/slipway/internal/route"
)

// redirectParts redirects to a URL that is composed of parts: given ones, and
// those of the request for the rest. It has no condition, so it is the response of a
// rule and no policy.
type redirectParts struct {
	redirection
	parts route.Redirect
	path  pathReplacement
}

// WithRedirect returns a chain that ends with a redirect. The path is normalised as
// those of requests are: the location has one spelling.
func (c Chain) WithRedirect(to *route.Redirect, status int) (Chain, error) {
	redirection, err := newRedirection(status)
	f := &redirectParts{redirection: redirection, parts: *to}
	if err == nil {
		f.path, err = newPathReplacement(to.Path, to.ReplacePrefix)
	}
	if err != nil {
		return Chain{}, placed("response.redirect", err)
	}
	c.add(f)
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
		url = f.path.appendTo(url, uri.Path)
		if uri.HasQuery {
			url = append(append(url, '?'), uri.Query...)
		}
	}
	x.memory.work = url
	return f.to(x, url)
}
