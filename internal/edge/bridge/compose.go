package bridge

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
)

// compose writes the head of the request, for read to give out.
func (u *upload) compose() error {
	r := u.request
	if r.Method == http.MethodConnect {
		// The library lets it pass, with protocols that HTTP/1.1 cannot say.
		return h1.ErrConnect
	}
	framing, length, err := u.measure()
	if err != nil {
		return err
	}
	// The library sees to it too. It changed its mind about it before.
	if hosts := r.Header["Host"]; len(hosts) > 1 || len(hosts) == 1 && hosts[0] != r.Host {
		return h1.ErrHostTwice
	}
	u.framing, u.left = framing, length
	u.buf = u.pool.Get(headSize(r))
	var c h1.Composer
	// RequestURI is the :path as it came; URL has lost how it was spelled.
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

// headSize is about how many bytes the head takes.
func headSize(r *http.Request) int {
	size := 128 + len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value) + 4
		}
	}
	return size
}

// announced lists the trailers that the library took out of Trailer.
func announced(trailers http.Header) string {
	names := make([]string, 0, len(trailers))
	for name := range trailers {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// measure says how the end of the body is found. A stream has an end of its
// own, so a length that says otherwise is a lie about one of the two.
func (u *upload) measure() (h1.Framing, int64, error) {
	r := u.request
	switch lengths := r.Header["Content-Length"]; {
	case len(lengths) > 1:
		return 0, 0, h1.ErrLengthTwice
	case len(lengths) == 1:
		length, err := strconv.ParseUint(lengths[0], 10, 63)
		if err != nil || int64(length) != r.ContentLength {
			// The library may say something else for what is not a number.
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

// bodyIsRare reports whether requests with a method hardly ever have a body.
// Waiting for its first byte is safe then: nobody holds it back to see the
// answer first, as clients of gRPC do with POST.
func bodyIsRare(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodDelete, http.MethodTrace:
		return true
	}
	return false
}

// peek finds out whether a stream of HTTP/3 has a body. Its library does not
// say whether the stream ended with its headers, and a GET with an empty body
// in chunks is something that many backends refuse.
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
