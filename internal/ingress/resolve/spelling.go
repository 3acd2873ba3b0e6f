package resolve

import (
	"strings"

	"slipway.dev/slipway/internal/route"
)

// Requests are normalised before they are matched. Hosts and paths of an Ingress
// are normalised here in the same way, or an escaped path would match nothing.

// SpellHost normalises a host as those of requests: lower case, without the final
// dot. Only ASCII letters are folded: the lower case of some other letters is an
// ASCII letter (the Kelvin sign), and a host must not become another one.
func SpellHost(host string) string {
	lower := []byte(host)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c | 0x20
		}
	}
	return strings.TrimSuffix(string(lower), ".")
}

// SpellPath normalises a path as those of requests: unreserved characters are
// unescaped, all others escaped with upper-case digits (RFC 3986, section 6.2.2).
// Slashes and dots stay as they are written; a path with a segment that no request
// can have is refused by route.
func SpellPath(path string) string {
	const upperHex = "0123456789ABCDEF"
	spelled := make([]byte, 0, len(path)+8)
	for i := 0; i < len(path); i++ {
		c, escaped := path[i], false
		if c == '%' {
			if i+2 < len(path) && hexDigit(path[i+1]) && hexDigit(path[i+2]) {
				c, escaped = unhex(path[i+1])<<4|unhex(path[i+2]), true
				i += 2
			}
		}
		if unreserved(c) || !escaped && pathByte(c) {
			spelled = append(spelled, c)
			continue
		}
		spelled = append(spelled, '%', upperHex[c>>4], upperHex[c&15])
	}
	return string(spelled)
}

// pathByte reports whether a byte stands for itself in a path. Control
// characters, ? and # do, so that route finds and refuses them.
func pathByte(c byte) bool {
	return c < 0x20 || c == 0x7f || unreserved(c) || strings.IndexByte("!$&'()*+,=:@/;?#", c) >= 0
}

func unreserved(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

func hexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// anchored anchors an expression at the start of the path. A path in an Ingress
// must start with a slash, so ^ cannot be written there.
func anchored(expression string) string {
	if strings.HasPrefix(expression, "^") {
		return expression
	}
	return "^(?:" + expression + ")"
}

// hostProblem returns why a host is invalid in the routing table; empty if it is
// valid.
func hostProblem(host string) string {
	return firstProblem(&route.Rule{Host: host})
}

// pathProblem returns why a path is invalid in the routing table; empty if it is
// valid.
func pathProblem(match route.PathMatch) string {
	return firstProblem(&route.Rule{Match: route.Match{Path: match}})
}

// firstProblem validates one part of a rule: the rest is completed with valid
// values.
func firstProblem(rule *route.Rule) string {
	rule.ID.Name = "probe"
	rule.Response = &route.Response{Status: 503}
	if problems := rule.Validate(); len(problems) > 0 {
		return problems[0].Message
	}
	return ""
}
