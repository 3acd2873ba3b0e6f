package bridge

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
)

// compose writes the head of the request into out.
func (u *upload) compose() error {
	r := u.request
	if r.Method == http.MethodConnect {
		// The library accepts extended CONNECT, which HTTP/1.1 does not have.
		return h1.ErrConnect
	}
	framing, length, err := u.measure()
	if err != nil {
		return err
	}
	// The library checks this too, but not in every version.
	if hosts := r.Header["Host"]; len(hosts) > 1 || len(hosts) == 1 && hosts[0] != r.Host {
		return h1.ErrHostTwice
	}
	u.framing, u.left = framing, length
	u.buf = u.pool.Get(headSize(r))
	var c h1.Composer
	// RequestURI is the :path as it came; URL has lost its spelling.
	c.Start(u.buf[:0], r.Method, r.RequestURI, r.Host)
	for name, values := range r.Header {
		if name == "Cookie" && len(values) > 1 {
			c.Field(name, strings.Join(values, "; "))
			continue
		}
		for _, value := range values {
			c.Field(name, value)
		}
	}
	if framing == h1.Chunked && len(r.Trailer) > 0 {
		c.Field("Trailer", announced(r.Trailer))
	}
	u.out, err = c.End(framing, length)
	return err
}

// headSize estimates the length of the head, to get one buffer that fits.
func headSize(r *http.Request) int {
	size := 128 + len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value) + 4
		}
	}
	return size
}

// announced restores the Trailer header that the library removed.
func announced(trailers http.Header) string {
	return strings.Join(slices.Sorted(maps.Keys(trailers)), ", ")
}

// measure returns the framing of the body. A stream has an end of its own, so a
// length that differs is an attack or an error, and is refused.
func (u *upload) measure() (h1.Framing, int64, error) {
	r := u.request
	switch lengths := r.Header["Content-Length"]; {
	case len(lengths) > 1:
		return 0, 0, h1.ErrLengthTwice
	case len(lengths) == 1:
		length, err := strconv.ParseUint(lengths[0], 10, 63)
		if err != nil || int64(length) != r.ContentLength {
			// The library may have parsed an invalid number to something else.
			return 0, 0, h1.ErrLength
		}
		return h1.Fixed, int64(length), nil
	case r.ContentLength == 0:
		return h1.NoBody, 0, nil
	}
	if r.ProtoMajor == 3 && bodyIsRare(r.Method) {
		framing, err := u.peek()
		return framing, 0, err
	}
	return h1.Chunked, 0, nil
}

// bodyIsRare reports whether requests with a method hardly ever have a body. Waiting
// for its first byte is safe then: no client holds it back until the response comes,
// as clients of gRPC do with POST.
func bodyIsRare(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodDelete, http.MethodTrace:
		return true
	}
	return false
}

// peek finds out whether a stream of HTTP/3 has a body. Its library does not report
// whether the stream ended with its headers, and many backends refuse a GET with an
// empty chunked body.
func (u *upload) peek() (h1.Framing, error) {
	if err := u.control.SetReadDeadline(time.Now().Add(u.wait)); err != nil {
		return 0, err
	}
	buf := u.pool.Get(1)
	n, err := u.readBody(buf)
	if n > 0 {
		u.early, u.earlyBuf = buf[:n], buf
		return h1.Chunked, u.control.SetReadDeadline(time.Time{})
	}
	u.pool.Put(buf)
	if err != io.EOF {
		return 0, err
	}
	for _, values := range u.request.Trailer {
		if len(values) > 0 {
			return h1.Chunked, nil
		}
	}
	return h1.NoBody, nil
}
