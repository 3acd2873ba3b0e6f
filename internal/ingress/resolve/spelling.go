package resolve

import (
	"strings"

	"slipway.dev/slipway/internal/route"
)

// Requests are spelled in one way before they are compared with rules. Hosts
// and paths of an Ingress get the same spelling here, or an escaped path would
// fit nothing.

// spellHost gives a host the spelling of requests: lower case, without the dot
// at its end. Only ASCII letters are folded: the lower case of some others is
// an ASCII letter, and a host must not become another one.
func spellHost(host string) string {
	lower := []byte(host)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c | 0x20
		}
	}
	return strings.TrimSuffix(string(lower), ".")
}

// spellPath gives a path the spelling of requests: what need not be escaped is
// not, everything else is, with capital digits. Slashes and dots stay as they
// are written; a path with a segment that no request has is refused by route.
func spellPath(path string) string {
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

// anchored makes an expression start where the path does. A path in an Ingress
// starts with a slash, so ^ cannot be written there, and the beginning of a
// path is what a path in an Ingress means.
func anchored(expression string) string {
	if strings.HasPrefix(expression, "^") {
		return expression
	}
	return "^(?:" + expression + ")"
}

// hostProblem says what route has against a host; empty when nothing.
func hostProblem(host string) string {
	return firstProblem(&route.Rule{Host: host})
}

// pathProblem says what route has against a path; empty when nothing.
func pathProblem(match route.PathMatch) string {
	return firstProblem(&route.Rule{Match: route.Match{Path: match}})
}

// firstProblem asks route about one part of a rule: the rest is made to be
// without problems.
func firstProblem(rule *route.Rule) string {
	rule.ID.Name = "probe"
	rule.Response = &route.Response{Status: 503}
	if problems := rule.Validate(); len(problems) > 0 {
		return problems[0].Message
	}
	return ""
}
