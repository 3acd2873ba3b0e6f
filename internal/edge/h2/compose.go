package h2

import (
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/httperr"
	"slipway.dev/slipway/internal/edge/normalize"
)

// errMalformed is a request that RFC 9113 section 8.1.1 calls malformed: its
// stream is reset. A request that HTTP/1.1 would refuse too gets a response
// instead.
var errMalformed = httperr.Reset(http2.ErrCodeProtocol, "malformed", "the request is malformed")

// composed is a request as an HTTP/1.1 message, without its body.
type composed struct {
	head    []byte // from the pool
	framing h1.Framing
	length  int64 // of the body, -1 when the request has no content-length
	isHead  bool  // the method is HEAD
	expects bool  // the client waits for 100 before it sends the body
}

// composer makes HTTP/1.1 messages of HTTP/2 requests. It keeps its memory from
// one to the next.
type composer struct {
	pool    *h1.BufferPool
	compose h1.Composer
	cookies []byte
	name    []byte
}

// request composes the request of a block of headers. ends is set if it has no
// body. Host and :authority have to agree, because routing, authorization and
// the backend must not see different hosts.
func (c *composer) request(b *headerBlock, ends bool) (r composed, err error) {
	p, ok := b.request()
	if !ok || b.malformed {
		return r, errMalformed
	}
	host, hosts, err := single(b, "host")
	if err != nil || !p.complete() {
		return r, errMalformed
	}
	switch {
	case hosts == 1 && p.authority == "":
		p.authority = host
	case hosts == 1 && host != p.authority:
		return r, errMalformed
	}
	if strings.IndexByte(p.authority, '@') >= 0 || p.authority != "" && !httpguts.ValidHostHeader(p.authority) {
		return r, errMalformed
	}
	if p.method == "CONNECT" {
		return r, h1.ErrConnect
	}
	if r.framing, r.length, err = framing(b, ends); err != nil {
		return r, err
	}
	r.isHead = p.method == "HEAD"
	buf := c.pool.Get(b.size)
	c.compose.Start(buf[:0], p.method, p.path, p.authority)
	r.expects = c.fields(b.fields[b.pseudo:], r.framing)
	if r.head, err = c.compose.End(r.framing, max(r.length, 0)); err != nil {
		c.pool.Put(buf)
	}
	return r, err
}

// complete reports whether all pseudo-headers are there that the method needs
// (RFC 9113 sections 8.3.1 and 8.5).
func (p *pseudoHeaders) complete() bool {
	if p.method == "CONNECT" {
		return p.path == "" && p.scheme == "" && p.authority != ""
	}
	return p.method != "" && (p.scheme == "http" || p.scheme == "https") &&
		(p.path == "*" || strings.HasPrefix(p.path, "/"))
}

// single returns the value of a header that may come only once, and how often
// it does.
func single(b *headerBlock, name string) (value string, count int, err error) {
	for _, f := range b.fields[b.pseudo:] {
		if f.Name != name {
			continue
		}
		if value = f.Value; count > 0 {
			return "", 2, errMalformed
		}
		count++
	}
	return value, count, nil
}

// framing returns how the end of the body is found. The stream has an end of
// its own, so a content-length that disagrees with it is refused: a backend
// that believed it could be made to see two requests (request smuggling).
func framing(b *headerBlock, ends bool) (h1.Framing, int64, error) {
	text, count, err := single(b, "content-length")
	switch {
	case err != nil:
		return 0, 0, h1.ErrLengthTwice
	case count == 1:
		length, err := strconv.ParseUint(text, 10, 63)
		if err != nil || ends && length > 0 {
			return 0, 0, h1.ErrLength
		}
		return h1.Fixed, int64(length), nil
	case ends:
		return h1.NoBody, 0, nil
	}
	return h1.Chunked, -1, nil
}

// fields composes the headers and reports whether the client waits for 100. The
// edge responds to that itself, so the header is not forwarded.
func (c *composer) fields(fields []hpack.HeaderField, body h1.Framing) (expects bool) {
	c.cookies = c.cookies[:0]
	for _, f := range fields {
		switch f.Name {
		case "cookie":
			// HTTP/2 may split them to compress better; HTTP/1.1 has one header
			// (RFC 9113 section 8.2.3).
			if len(c.cookies) > 0 {
				c.cookies = append(c.cookies, "; "...)
			}
			c.cookies = append(c.cookies, f.Value...)
			continue
		case "expect":
			if strings.EqualFold(f.Value, "100-continue") {
				expects = true
				continue
			}
		case "trailer":
			if body != h1.Chunked {
				continue // only a chunked body can have trailers
			}
		}
		c.compose.Field(c.canonical(f.Name), f.Value)
	}
	if len(c.cookies) > 0 {
		c.compose.Field("Cookie", normalize.View(c.cookies))
	}
	return expects && body != h1.NoBody
}

// canonical spells a name as is usual in HTTP/1.1. It is valid until the next
// call.
func (c *composer) canonical(name string) string {
	c.name = append(c.name[:0], name...)
	first := true
	for i, b := range c.name {
		if first && b-'a' < 26 {
			c.name[i] = b - 'a' + 'A'
		}
		first = b == '-'
	}
	return normalize.View(c.name)
}

// trailers composes the end of a chunked body, with the trailers of a block.
func (c *composer) trailers(b *headerBlock) []byte {
	out := make([]byte, 0, b.size+8)
	out = append(out, "0\r\n"...)
	for _, f := range b.fields {
		out = append(out, c.canonical(f.Name)...)
		out = append(out, ": "...)
		out = append(out, f.Value...)
		out = append(out, "\r\n"...)
	}
	return append(out, "\r\n"...)
}
