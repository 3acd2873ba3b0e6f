package filter

import (
	"bytes"
	"strings"

	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// variableText is a text with variables of nginx. It is compiled once, so that a
// request only appends its parts.
type variableText []func(dst []byte, x *Exchange) []byte

// newVariableText compiles a text; an empty one is nil.
func newVariableText(text string) (variableText, error) {
	parts, err := route.ParseVariables(text)
	if err != nil {
		return nil, err
	}
	var compiled variableText
	for _, part := range parts {
		switch {
		case part.Variable == "":
			literal := part.Literal
			compiled = append(compiled, func(dst []byte, _ *Exchange) []byte { return append(dst, literal...) })
		case part.Name != "":
			compiled = append(compiled, namedVariable(part.Variable, part.Name))
		default:
			compiled = append(compiled, plainVariable(part.Variable))
		}
	}
	return compiled, nil
}

// append appends the text for a request.
func (t variableText) append(dst []byte, x *Exchange) []byte {
	for _, part := range t {
		dst = part(dst, x)
	}
	return dst
}

// plainVariable returns the variable of a name that route.ParseVariables accepts.
func plainVariable(name string) func([]byte, *Exchange) []byte {
	switch name {
	case "escaped_request_uri":
		return func(dst []byte, x *Exchange) []byte { return appendComponent(dst, appendRequested(nil, x)) }
	case "pass_port", "pass_server_port":
		name = "server_port"
	}
	return requestValues[name]
}

// namedVariable returns the variable of a header, a cookie or a parameter.
func namedVariable(family, name string) func([]byte, *Exchange) []byte {
	switch family {
	case "http_":
		name = strings.ReplaceAll(name, "_", "-")
		return func(dst []byte, x *Exchange) []byte { return appendTrustedHeader(dst, x, name) }
	case "cookie_":
		return func(dst []byte, x *Exchange) []byte {
			value, _ := onlyCookie(x.Head, name)
			return append(dst, value...)
		}
	default:
		return func(dst []byte, x *Exchange) []byte {
			for pair := range bytes.SplitSeq(x.Head.URI.Query, []byte("&")) {
				if key, value, _ := bytes.Cut(pair, []byte("=")); bytes.EqualFold(key, normalize.Bytes(name)) {
					return append(dst, value...)
				}
			}
			return dst
		}
	}
}

// appendTrustedHeader appends the values of a header, as a list. Headers about the identity
// of the client count only if a trusted proxy has sent them.
func appendTrustedHeader(dst []byte, x *Exchange, name string) []byte {
	first := true
	for line := range x.Head.Len() {
		id := x.Head.ID(line)
		if !bytes.EqualFold(x.Head.Name(line), normalize.Bytes(name)) || id.Identity() && !x.Trusted {
			continue
		}
		if !first {
			separator := ", "
			if id == normalize.FieldCookie {
				separator = "; "
			}
			dst = append(dst, separator...)
		}
		dst, first = append(dst, x.Head.Value(line)...), false
	}
	return dst
}

// appendComponent appends a text as a component of a URI, as set_escape_uri does.
func appendComponent(dst, text []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range text {
		if c-'0' <= 9 || c|0x20-'a' <= 25 || c == '-' || c == '.' || c == '_' || c == '~' {
			dst = append(dst, c)
			continue
		}
		dst = append(dst, '%', digits[c>>4], digits[c&15])
	}
	return dst
}
