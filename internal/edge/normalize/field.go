package normalize

// Field is a header name that the edge gives a meaning to. Comparing a Field
// is cheaper than comparing names, and no spelling gets past it.
type Field uint8

// The fields. FieldOther is every name without a meaning of its own here.
const (
	FieldOther Field = iota

	// The fields of framing and routing.
	FieldHost
	FieldContentLength
	FieldTransferEncoding
	// FieldCDNLoop lists the proxies that a request has passed (RFC 8586).
	FieldCDNLoop

	// The fields of one connection only.
	FieldConnection
	FieldKeepAlive
	FieldProxyConnection
	FieldProxyAuthenticate
	FieldProxyAuthorization
	FieldProxyAuthenticationInfo
	FieldTE
	FieldTrailer
	FieldUpgrade
	FieldHTTP2Settings
	FieldExpect
	// FieldProxy is the name Proxy, which CGI programs take for the setting
	// HTTP_PROXY (CVE-2016-5385). No standard defines it.
	FieldProxy

	// The client's identity, as forwarded by a proxy.
	FieldForwarded
	FieldXForwardedFor
	FieldXForwardedHost
	FieldXForwardedPort
	FieldXForwardedProto
	FieldXForwardedServer
	FieldXRealIP
	// FieldIdentityOther is any other X-Forwarded-* or X-SSL-* name.
	FieldIdentityOther
	// FieldVariant is another spelling of one of the fields above, with
	// something else in place of a hyphen. Many backends read X_Forwarded_For
	// as X-Forwarded-For, so it is never passed on.
	FieldVariant

	// The fields that filters and logs read.
	FieldAccept
	FieldAcceptEncoding
	FieldAuthorization
	FieldCacheControl
	FieldContentEncoding
	FieldContentRange
	FieldContentType
	FieldCookie
	FieldDate
	FieldETag
	FieldLocation
	FieldOrigin
	FieldRange
	FieldReferer
	FieldSecWebSocketKey
	FieldServer
	FieldSetCookie
	FieldUserAgent
	FieldVary

	fieldCount
)

// The properties of a field.
const (
	connectionOnly = 1 << iota // for one connection: never forwarded
	identity                   // set by proxies: taken from trusted peers only
	settled                    // Connection may not name it: it is not the client's to remove
	headOnly                   // means nothing in trailers, and harm where it is merged
)

type fieldFact struct {
	name string // lower case, empty for the classes
	is   uint8
}

// fieldFacts has a place for every value of Field, so that none is out of range.
var fieldFacts = [256]fieldFact{
	FieldHost:                    {"host", settled | headOnly},
	FieldContentLength:           {"content-length", settled | headOnly},
	FieldTransferEncoding:        {"transfer-encoding", settled | headOnly},
	FieldCDNLoop:                 {"cdn-loop", settled | headOnly},
	FieldConnection:              {"connection", connectionOnly | headOnly},
	FieldKeepAlive:               {"keep-alive", connectionOnly | headOnly},
	FieldProxyConnection:         {"proxy-connection", connectionOnly | headOnly},
	FieldProxyAuthenticate:       {"proxy-authenticate", connectionOnly | headOnly},
	FieldProxyAuthorization:      {"proxy-authorization", connectionOnly | headOnly},
	FieldProxyAuthenticationInfo: {"proxy-authentication-info", connectionOnly | headOnly},
	FieldTE:                      {"te", connectionOnly | headOnly},
	FieldTrailer:                 {"trailer", headOnly},
	FieldUpgrade:                 {"upgrade", connectionOnly | headOnly},
	FieldHTTP2Settings:           {"http2-settings", connectionOnly | headOnly},
	FieldExpect:                  {"expect", settled | headOnly},
	FieldProxy:                   {"proxy", connectionOnly | headOnly},
	FieldForwarded:               {"forwarded", identity | settled | headOnly},
	FieldXForwardedFor:           {"x-forwarded-for", identity | settled | headOnly},
	FieldXForwardedHost:          {"x-forwarded-host", identity | settled | headOnly},
	FieldXForwardedPort:          {"x-forwarded-port", identity | settled | headOnly},
	FieldXForwardedProto:         {"x-forwarded-proto", identity | settled | headOnly},
	FieldXForwardedServer:        {"x-forwarded-server", identity | settled | headOnly},
	FieldXRealIP:                 {"x-real-ip", identity | settled | headOnly},
	FieldIdentityOther:           {"", identity | settled | headOnly},
	FieldVariant:                 {"", connectionOnly | headOnly},
	FieldAccept:                  {"accept", 0},
	FieldAcceptEncoding:          {"accept-encoding", 0},
	FieldAuthorization:           {"authorization", settled | headOnly},
	FieldCacheControl:            {"cache-control", 0},
	FieldContentEncoding:         {"content-encoding", settled | headOnly},
	FieldContentRange:            {"content-range", settled | headOnly},
	FieldContentType:             {"content-type", settled | headOnly},
	FieldCookie:                  {"cookie", settled | headOnly},
	FieldDate:                    {"date", 0},
	FieldETag:                    {"etag", 0},
	FieldLocation:                {"location", 0},
	FieldOrigin:                  {"origin", settled},
	FieldRange:                   {"range", 0},
	FieldReferer:                 {"referer", 0},
	FieldSecWebSocketKey:         {"sec-websocket-key", settled},
	FieldServer:                  {"server", 0},
	FieldSetCookie:               {"set-cookie", settled},
	FieldUserAgent:               {"user-agent", 0},
	FieldVary:                    {"vary", 0},
}

// fieldSlots finds a field by a hash of its name, probing slot after slot.
var fieldSlots = func() (slots [256]Field) {
	for f := FieldOther + 1; f < fieldCount; f++ {
		name := fieldFacts[f].name
		if name == "" {
			continue
		}
		slot := fieldHash(Bytes(name))
		for slots[slot] != FieldOther {
			slot++
		}
		slots[slot] = f
	}
	return slots
}()

func fieldHash(name []byte) uint8 {
	n := len(name)
	return uint8(n) + (name[0]|0x20)*7 + (name[n-1]|0x20)*31 + (name[n/2]|0x20)*5
}

// FieldOf returns the field of a header name, in any case and any spelling.
func FieldOf(name []byte) Field {
	for _, c := range name {
		if c != '-' && !alphanumeric(c) {
			return oddField(name)
		}
	}
	return PlainField(name)
}

// PlainField is FieldOf for a name that is known to hold letters, digits and
// hyphens only.
func PlainField(name []byte) Field {
	if f := KnownField(name); f != FieldOther || len(name) < 2 {
		return f
	}
	if name[0]|0x20 == 'x' && (hasPrefixFold(name, "x-forwarded-") || hasPrefixFold(name, "x-ssl-")) {
		return FieldIdentityOther
	}
	return FieldOther
}

// longestSpoof bounds the names whose variants are recognised.
const longestSpoof = 64

// oddField classifies a name that has characters other than letters, digits and
// hyphens: with hyphens in their place it may be a variant of a known name.
func oddField(name []byte) Field {
	var space [longestSpoof]byte
	plain := append(space[:0], name[:min(len(name), longestSpoof)]...)
	for i, c := range plain {
		if !alphanumeric(c) {
			plain[i] = '-'
		}
	}
	f := PlainField(plain)
	if f != FieldOther && f <= FieldVariant {
		return FieldVariant
	}
	return FieldOther
}

// SameField reports whether two header names are one name to a backend that
// reads letters without case and other characters as hyphens.
func SameField(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i, c := range a {
		if foldName[c] != foldName[b[i]] {
			return false
		}
	}
	return true
}

// String is the name in lower case, empty for classes of names.
func (f Field) String() string { return fieldFacts[f].name }

// ConnectionOnly reports whether the field concerns one connection and is
// never forwarded as it came.
func (f Field) ConnectionOnly() bool { return fieldFacts[f].is&connectionOnly != 0 }

// Identity reports whether the field is about the client's identity. It is believed
// only from a trusted peer.
func (f Field) Identity() bool { return fieldFacts[f].is&identity != 0 }

// Settled reports whether the field stays even when Connection names it. A client
// must not remove a header that the edge, or a proxy before it, has set
// (CVE-2021-32813, CVE-2024-45410, CVE-2026-29054).
func (f Field) Settled() bool { return fieldFacts[f].is&settled != 0 }

// HeadOnly reports whether the field is refused in trailers: a backend that
// merges trailers into headers would take it for routing, framing or identity.
func (f Field) HeadOnly() bool { return fieldFacts[f].is&headOnly != 0 }

// foldName maps letters to lower case, digits to themselves and all else to a
// hyphen.
var foldName = func() (t [256]byte) {
	for i := range t {
		c := byte(i)
		switch {
		case c-'A' < 26:
			t[i] = c | 0x20
		case alphanumeric(c):
			t[i] = c
		default:
			t[i] = '-'
		}
	}
	return t
}()

func alphanumeric(c byte) bool { return c|0x20-'a' < 26 || c-'0' < 10 }

// EqualFold compares b with a name or word in lower case, without regard to the
// case of letters.
func EqualFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c-'A' < 26 {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
