package convert

import (
	"cmp"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/route"
)

// rewritten is what is known of the path of a request while policies change it: all of
// it, or the start of it. Gateway API has one rewrite for a rule, which replaces all of
// a path or the prefix that the rule matches.
type rewritten struct {
	match route.PathMatch
	// path is the whole path with full, and else what became of the prefix.
	path string
	full bool
	// unknown is set for an expression: nothing is known of the path.
	unknown bool
}

// newRewritten returns the path of a request that a match selects.
func newRewritten(match route.PathMatch) *rewritten {
	r := &rewritten{match: match, path: strings.TrimSuffix(match.Value, "/"), full: match.Type == route.PathExact}
	if r.full {
		r.path = match.Value
	}
	r.unknown = match.Type == route.PathRegexp || match.Type == route.PathCharacterPrefix
	return r
}

// apply applies a policy. It returns the prefix that has to be passed on to the
// backend, and why the policy cannot be expressed.
func (r *rewritten) apply(policy *route.Policy) (removed, problem string) {
	const unknown = "a prefix is added or removed where the path is a prefix or exact only"
	switch {
	case policy.ReplacePath != nil:
		r.path, r.full, r.unknown = policy.ReplacePath.Path, true, false
	case r.unknown:
		return "", unknown
	case policy.AddPrefix != nil:
		r.path = strings.TrimSuffix(policy.AddPrefix.Prefix, "/") + r.path
	case policy.StripPrefix != nil:
		return r.strip(policy.StripPrefix)
	}
	return "", ""
}

// strip removes the first of the prefixes that fits, as the edge does.
func (r *rewritten) strip(policy *route.StripPrefix) (removed, problem string) {
	for _, written := range policy.Prefixes {
		prefix := strings.TrimSuffix(written, "/")
		switch rest, fits := strings.CutPrefix(r.path, prefix); {
		case prefix == "":
		case fits && (rest == "" || rest[0] == '/'):
			r.path = rest
			if r.full && rest == "" {
				r.path = "/"
			}
			if policy.ForwardPrefix {
				removed = prefix
			}
			return removed, ""
		case !r.full && strings.HasPrefix(prefix, r.path+"/"):
			return "", "whether the prefix " + prefix + " is removed depends on the request: give it a path of its own"
		}
	}
	return "", ""
}

// modifier returns the rewrite; nil if the path is that of the request.
func (r *rewritten) modifier() *gatewayv1.HTTPPathModifier {
	path := r.path
	if path == "" {
		path = "/"
	}
	switch {
	case r.unknown, r.full && r.match.Type == route.PathExact && path == r.match.Value,
		!r.full && r.path == strings.TrimSuffix(r.match.Value, "/"):
		return nil
	case r.full:
		return &gatewayv1.HTTPPathModifier{Type: gatewayv1.FullPathHTTPPathModifier, ReplaceFullPath: &path}
	default:
		return &gatewayv1.HTTPPathModifier{Type: gatewayv1.PrefixMatchHTTPPathModifier, ReplacePrefixMatch: &path}
	}
}

// differsAt reports whether the path that is the prefix of a match and nothing more
// is changed to another one than the rewrite of the prefix gives: with a prefix
// removed and one added, /v1 becomes /api/ and not /api.
func (s *filterSet) differsAt(match route.PathMatch) bool {
	if match.Type != route.PathPrefix || match.Literal() == "/" {
		return false
	}
	prefix, whole := newRewritten(match), newRewritten(route.PathMatch{Type: route.PathExact, Value: match.Literal()})
	for i := range s.paths {
		prefix.apply(&s.paths[i])
		whole.apply(&s.paths[i])
	}
	return !prefix.full && cmp.Or(prefix.path, "/") != whole.path
}
