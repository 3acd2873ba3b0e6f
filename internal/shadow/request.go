package shadow

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Marker is the header of every request that a comparison sends. A copy that has it is a
// copy of such a request and is skipped: without it, an old controller that mirrors its
// requests would never stop.
const Marker = "Slipway-Shadow"

// agentMark is appended to the user agent of requests from an access log. The log of the
// old controller has no other field in which its lines could be recognised, and a log that
// is followed would be replayed without end.
const agentMark = "slipway-shadow"

// maxCopyBody bounds the body of a copy. The queue of copies is bounded by their number, so
// this bounds its memory.
const maxCopyBody = 64 << 10

// Request is a copy of a request that the old controller got.
type Request struct {
	Method string
	// Scheme is http or https, or empty where the source of the copy does not have it.
	Scheme string
	// Host is the Host header, and Target path and query, both as the client sent them.
	Host   string
	Target string
	Header http.Header
	Body   []byte
	// Client is the address of the client, if it is known.
	Client string
	// Recorded is what the access log has of the response.
	Recorded Recorded
}

// Recorded is the part of a response that an access log has.
type Recorded struct {
	Status int
	// Backend is the backend in the words of the old controller, such as
	// default-shop-80. It is empty when the log has none, and when the controller
	// responded itself.
	Backend string
}

// The reasons why a copy is not compared.
const (
	SkipUnreadable = "the line is not readable"
	SkipTarget     = "the request has no path"
	SkipHost       = "the host is not known"
	SkipMethod     = "the method is not allowed"
	SkipUpgrade    = "the connection changes its protocol"
	SkipBody       = "the body is too large"
	SkipOwn        = "the request is from a comparison"
	SkipQueue      = "the queue is full"
	SkipScheme     = "no address has its scheme"
	SkipSpelling   = "the path cannot be sent as it is"
	SkipStopped    = "the comparison was stopped"
	SkipBackend    = "the log has no backend"
	SkipRoute      = "the admin server did not explain it"
)

// proxyHeaders are headers that a proxy adds, or that are about one connection. The old
// controller has added its own to a copy; both controllers add them again.
var proxyHeaders = []string{
	"Cdn-Loop", "Connection", "Content-Length", "Expect", "Forwarded", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding",
	"Upgrade", "Via", "X-Original-Forwarded-For", "X-Original-Uri", "X-Real-Ip", "X-Request-Id", "X-Scheme", Marker,
}

// clean removes the headers of proxies. The scheme and the client are taken from them
// first, where the request has none.
func (r *Request) clean() {
	if proto := strings.ToLower(r.Header.Get("X-Forwarded-Proto")); r.Scheme == "" && (proto == "http" || proto == "https") {
		r.Scheme = proto
	}
	if r.Client == "" {
		first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-For"), ",")
		if _, err := netip.ParseAddr(strings.TrimSpace(first)); err == nil {
			r.Client = strings.TrimSpace(first)
		}
	}
	// Headers that Connection names are for one connection, too.
	for _, list := range r.Header.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			r.Header.Del(strings.TrimSpace(name))
		}
	}
	for name := range r.Header {
		if slices.Contains(proxyHeaders, name) || strings.HasPrefix(name, "X-Forwarded-") {
			delete(r.Header, name)
		}
	}
}

// unfit returns why a copy cannot be sent, or an empty text.
func (r *Request) unfit() string {
	switch {
	case !strings.HasPrefix(r.Target, "/") || strings.ContainsFunc(r.Target, isControl):
		return SkipTarget
	case !isHost(r.Host):
		return SkipHost
	}
	for _, values := range r.Header {
		if slices.ContainsFunc(values, func(value string) bool { return strings.ContainsFunc(value, isControl) }) {
			return SkipUnreadable
		}
	}
	return ""
}

// isControl reports characters that no part of a request may have. A blank ends a target,
// and header values keep theirs, so it is not one of them.
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// isHost reports whether a text can be a Host header.
func isHost(text string) bool {
	return text != "" && len(text) <= 255 && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_:[]", r))
	})
}

// isHostName reports whether a text is the name of a host and nothing else: an access log
// may also have an address or a list in its place.
func isHostName(text string) bool {
	name, _, err := net.SplitHostPort(text)
	if err != nil {
		name = text
	}
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return false
	}
	letter := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
	return isHost(name) && strings.Contains(name, ".") && strings.ContainsFunc(name, letter)
}
