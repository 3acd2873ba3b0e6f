package filter

import (
	"bytes"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// textPart is a part of a text: a literal, the number of a group, the slot of a
// variable, a value of the request, or one of the response of an authentication server.
type textPart struct {
	kind    partKind
	literal string
	// number is that of a group, a slot, or a header that a decision keeps.
	number int
	// name is that of a header, cookie or parameter.
	name  string
	value func(dst []byte, x *Exchange) []byte
}

type partKind uint8

const (
	partLiteral partKind = iota
	partGroup
	partSlot
	partHeader
	partCookie
	partParameter
	partRequest
	partUpstreamHeader
	partUpstreamCookie
	partUpstreamStatus
)

// text compiles a text. Neighbours that are literal are joined.
func (b *directiveBuilder) text(text route.Text) ([]textPart, error) {
	var parts []textPart
	for _, written := range text {
		part, err := b.part(written)
		if err != nil {
			return nil, err
		}
		if n := len(parts); n > 0 && part.kind == partLiteral && parts[n-1].kind == partLiteral {
			parts[n-1].literal += part.literal
			continue
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// part compiles a part. What a rule decides, such as its namespace, is a literal.
func (b *directiveBuilder) part(part route.TextPart) (textPart, error) {
	name := part.Variable
	if name == "" {
		return textPart{literal: part.Text}, nil
	}
	if slot, own := b.slots[name]; own {
		return textPart{kind: partSlot, number: slot}, nil
	}
	if part, found := b.upstreamPart(name); found {
		return part, nil
	}
	if route.IsGroup(name) {
		return textPart{kind: partGroup, number: int(name[0] - '0')}, nil
	}
	switch name {
	case "namespace":
		return textPart{literal: b.rule.ID.Namespace}, nil
	case "ingress_name":
		return textPart{literal: b.rule.ID.Name}, nil
	case "server_name":
		return textPart{literal: b.rule.Host}, nil
	case "service_name":
		if len(b.rule.Backends) > 0 {
			return textPart{literal: b.rule.Backends[0].Backend.Name}, nil
		}
		return textPart{}, nil
	}
	if value, known := requestValues[name]; known {
		return textPart{kind: partRequest, value: value}, nil
	}
	for prefix, kind := range map[string]partKind{"http_": partHeader, "cookie_": partCookie, "arg_": partParameter} {
		if rest, found := strings.CutPrefix(name, prefix); found && rest != "" {
			if kind == partHeader {
				rest = strings.ReplaceAll(rest, "_", "-")
			}
			return textPart{kind: kind, name: rest}, nil
		}
	}
	return textPart{}, invalid("", "the edge has no variable %q", name)
}

// requestValues are the values of a request by the names of nginx.
var requestValues = map[string]func(dst []byte, x *Exchange) []byte{
	"args":                      appendArgs,
	"query_string":              appendArgs,
	"best_http_host":            appendAuthority,
	"http_host":                 appendAuthority,
	"content_length":            func(dst []byte, x *Exchange) []byte { return appendHeader(dst, x.Head, "Content-Length") },
	"content_type":              func(dst []byte, x *Exchange) []byte { return appendHeader(dst, x.Head, "Content-Type") },
	"document_uri":              appendPath,
	"uri":                       appendPath,
	"host":                      func(dst []byte, x *Exchange) []byte { return append(dst, x.Head.URI.Host...) },
	"is_args":                   appendIsArgs,
	"https":                     appendHTTPS,
	"pass_access_scheme":        appendScheme,
	"scheme":                    appendScheme,
	"remote_addr":               appendClient,
	"the_real_ip":               appendClient,
	"proxy_add_x_forwarded_for": appendForwardedFor,
	"request_method":            func(dst []byte, x *Exchange) []byte { return append(dst, x.Head.Method()...) },
	"request_uri":               appendRequested,
	"server_port":               func(dst []byte, x *Exchange) []byte { return strconv.AppendUint(dst, uint64(x.ServerPort), 10) },
}

func appendArgs(dst []byte, x *Exchange) []byte      { return append(dst, x.Query...) }
func appendPath(dst []byte, x *Exchange) []byte      { return append(dst, x.Path...) }
func appendScheme(dst []byte, x *Exchange) []byte    { return append(dst, schemeOf(x)...) }
func appendClient(dst []byte, x *Exchange) []byte    { return x.Client.AppendTo(dst) }
func appendAuthority(dst []byte, x *Exchange) []byte { return append(dst, x.Head.URI.Authority...) }

func appendIsArgs(dst []byte, x *Exchange) []byte {
	if len(x.Query) == 0 {
		return dst
	}
	return append(dst, '?')
}

func appendHTTPS(dst []byte, x *Exchange) []byte {
	if !x.TLS {
		return dst
	}
	return append(dst, "on"...)
}

// appendForwardedFor continues the list of a trusted proxy. That of another client is
// left out: it could name any address.
func appendForwardedFor(dst []byte, x *Exchange) []byte {
	if x.Trusted {
		start := len(dst)
		if dst = appendHeader(dst, x.Head, "X-Forwarded-For"); len(dst) > start {
			dst = append(dst, ", "...)
		}
	}
	return appendClient(dst, x)
}

// appendHeader appends all lines of a header, joined as nginx joins them.
func appendHeader(dst []byte, head *h1.Head, name string) []byte {
	separator, first := ", ", true
	if strings.EqualFold(name, "Cookie") {
		separator = "; "
	}
	for i := range head.Len() {
		if !bytes.EqualFold(head.Name(i), normalize.Bytes(name)) {
			continue
		}
		if !first {
			dst = append(dst, separator...)
		}
		first = false
		dst = append(dst, head.Value(i)...)
	}
	return dst
}

// appendCookie appends the value of the first cookie with a name, in any case.
func appendCookie(dst []byte, head *h1.Head, name string) []byte {
	for i := range head.Len() {
		if head.ID(i) != normalize.FieldCookie {
			continue
		}
		for pair, rest, more := cutCookie(head.Value(i)); ; pair, rest, more = cutCookie(rest) {
			if key, found, has := bytes.Cut(pair, []byte("=")); has && bytes.EqualFold(key, normalize.Bytes(name)) {
				return append(dst, found...)
			}
			if !more {
				break
			}
		}
	}
	return dst
}

// appendParameter appends the value of the first parameter with a name, in any case,
// as it is written.
func appendParameter(dst, query []byte, name string) []byte {
	for pair := range bytes.SplitSeq(query, []byte("&")) {
		if key, value, has := bytes.Cut(pair, []byte("=")); has && bytes.EqualFold(key, normalize.Bytes(name)) {
			return append(dst, value...)
		}
	}
	return dst
}

// evaluate appends a text to dst, and reports whether it is within the bound.
func (s *directiveState) evaluate(dst []byte, x *Exchange, text []textPart) ([]byte, bool) {
	start := len(dst)
	for i := range text {
		switch part := &text[i]; part.kind {
		case partLiteral:
			dst = append(dst, part.literal...)
		case partGroup:
			dst = append(dst, s.groups[part.number]...)
		case partSlot:
			dst = append(dst, s.values[part.number]...)
		case partHeader:
			dst = appendHeader(dst, x.Head, part.name)
		case partCookie:
			dst = appendCookie(dst, x.Head, part.name)
		case partParameter:
			dst = appendParameter(dst, x.Query, part.name)
		case partRequest:
			dst = part.value(dst, x)
		default:
			dst = s.appendUpstream(dst, part)
		}
		if len(dst)-start > route.MaxDirectiveValue {
			return dst, false
		}
	}
	return dst, len(x.memory.kept) <= maxDirectiveMemory
}

// maxDirectiveMemory bounds what all values of one request keep, in bytes.
const maxDirectiveMemory = 4 * route.MaxDirectiveValue

// appendEscaped appends a text without the bytes that no URL has: those are escaped.
func appendEscaped(dst, text []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range text {
		if c <= ' ' || c > '~' || c == '#' || c == '"' || c == '<' || c == '>' {
			dst = append(dst, '%', digits[c>>4], digits[c&15])
			continue
		}
		dst = append(dst, c)
	}
	return dst
}

// contentTypes are the types that nginx gives to extensions, as far as texts have
// them.
var contentTypes = map[string]string{
	"html": "text/html", "htm": "text/html", "shtml": "text/html", "css": "text/css", "xml": "text/xml", "txt": "text/plain",
	"js": "application/javascript", "json": "application/json", "svg": "image/svg+xml", "rss": "application/rss+xml", "atom": "application/atom+xml",
}

// typeOf returns the type of a text that a path gets.
func (f *directives) typeOf(path []byte) string {
	name := path[bytes.LastIndexByte(path, '/')+1:]
	if dot := bytes.LastIndexByte(name, '.'); dot >= 0 {
		if found, known := contentTypes[strings.ToLower(string(name[dot+1:]))]; known {
			return found
		}
	}
	if f.contentType != "" {
		return f.contentType
	}
	return "text/html"
}
