package filter

import (
	"cmp"
	"strings"

	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// rewrite changes host and path of a request. It depends on the match of its rule, so
// it is a part of the rule and no policy, and runs after the policies.
type rewrite struct {
	host string
	path pathReplacement
}

// WithRewrite returns a chain that ends with a rewrite.
func (c Chain) WithRewrite(to *route.Rewrite) (Chain, error) {
	path, err := newPathReplacement(to.Path, to.ReplacePrefix)
	if err != nil {
		return Chain{}, placed("rewrite", err)
	}
	c.add(&rewrite{host: to.Host, path: path})
	return c, nil
}

// Request implements [Filter].
func (f *rewrite) Request(x *Exchange) *LocalResponse {
	x.rewritten.host = f.host
	if f.path == (pathReplacement{}) || x.Head.URI.Asterisk {
		return nil
	}
	x.memory.work = f.path.appendTo(x.memory.work[:0], x.Path)
	return x.rewrite(x.memory.work)
}

// pathReplacement replaces a path, or with a prefix the start of it. The zero value
// replaces nothing.
type pathReplacement struct{ path, prefix string }

// newPathReplacement normalises the path as those of requests are, so that the result
// has one spelling. Both can be empty.
func newPathReplacement(path, prefix string) (pathReplacement, error) {
	r := pathReplacement{path, prefix}
	var err error
	if path != "" {
		r.path, err = fixedPath("path", path)
	}
	return r, err
}

// appendTo appends what becomes of a path. A prefix is replaced element by element,
// so that one slash stays between its replacement and the rest.
func (r *pathReplacement) appendTo(dst, path []byte) []byte {
	if r.prefix == "" {
		if r.path != "" {
			path = normalize.Bytes(r.path)
		}
		return append(dst, path...)
	}
	prefix := strings.TrimSuffix(r.prefix, "/")
	if !hasElements(path, prefix) {
		return append(dst, path...)
	}
	rest := path[len(prefix):]
	if len(rest) == 0 {
		return append(dst, cmp.Or(r.path, "/")...)
	}
	dst = append(dst, strings.TrimSuffix(r.path, "/")...)
	return append(dst, rest...)
}
