package bridge

import (
	"errors"

	"slipway.dev/slipway/internal/edge/h1"
)

// The faults of a response beside those of h1.
var (
	errNoLength = errors.New("the response has neither a length nor chunks, so its end could not be distinguished from a break")
	errSurplus  = errors.New("bytes were written after the end of the response")
)

// Output is a stream that a response is sent on. Arguments are valid during the call
// only. An error ends the response.
type Output interface {
	// Interim sends an interim response (1xx).
	Interim(head *h1.ResponseHead) error
	// Head sends the head of the response, and ends the stream if there is no
	// body.
	Head(head *h1.ResponseHead, end bool) error
	// Data sends a piece of the body, and ends the stream after the last one.
	// The last one may be empty.
	Data(piece []byte, end bool) error
	// Trailers ends the stream with trailers.
	Trailers(trailers *h1.Fields) error
	// Flush sends everything that was written so far.
	Flush() error
}

// The states of a translation.
const (
	responseHead  = iota // the final head has not come, or not all of it
	responseBody         // the body comes
	responseEnded        // the response is complete
)

// ResponseTranslator translates a response of HTTP/1.1, written in pieces of any
// size, to calls of an Output. It can be used again after Begin.
type ResponseTranslator struct {
	out     Output
	limits  h1.Limits
	request h1.RequestInfo

	state   uint8
	ended   bool // the end was sent
	err     error
	head    h1.ResponseHead
	body    h1.Body
	pass    []byte // a piece of the body that may be the last
	partial []byte // the start of a head, or of a line between chunks
}

// Begin prepares for the response to a request. limits are those of responses from
// backends: a head that is written may be twice as large, because filters add to it.
func (a *ResponseTranslator) Begin(out Output, info h1.RequestInfo, limits *h1.Limits) {
	a.out, a.request = out, info
	a.limits = *limits
	a.limits.HeadBytes *= 2
	a.limits.Fields *= 2
	a.state, a.ended, a.err, a.partial = responseHead, false, nil, a.partial[:0]
	a.head.Reset(a.request)
}

// maxKeptBytes bounds the memory that is kept from one response to the next.
const maxKeptBytes = 16 << 10

// Release drops the stream, and reports whether its response was complete.
func (a *ResponseTranslator) Release() (complete bool) {
	complete = a.state == responseEnded && a.err == nil
	if cap(a.partial) > maxKeptBytes {
		a.partial = nil
	}
	a.out, a.pass = nil, nil
	a.head.Reset(h1.RequestInfo{}) // it refers to bytes of the last stream
	return complete
}

// Write translates the next bytes and flushes the result before it returns. After an
// error it accepts nothing more.
func (a *ResponseTranslator) Write(p []byte) (int, error) {
	if a.err == nil {
		a.err = a.translate(p)
	}
	if a.err != nil {
		return 0, a.err
	}
	return len(p), nil
}

// translate feeds the bytes, after those of an incomplete line, and keeps the rest.
func (a *ResponseTranslator) translate(p []byte) error {
	buf := p
	if len(a.partial) > 0 {
		a.partial = append(a.partial, p...)
		buf = a.partial
	}
	used := 0
	for used < len(buf) {
		n, err := a.next(buf[used:])
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		used += n
	}
	if err := a.emit(a.state == responseEnded); err != nil {
		return err
	}
	a.partial = append(a.partial[:0], buf[used:]...)
	return a.out.Flush()
}

// next translates one piece from the start of buf, and returns its length: 0 when it
// is not complete.
func (a *ResponseTranslator) next(buf []byte) (int, error) {
	switch a.state {
	case responseHead:
		n, err := a.head.Parse(buf, &a.limits)
		if n == 0 || err != nil {
			return 0, err
		}
		if a.head.Interim() {
			err := a.out.Interim(&a.head)
			a.head.Reset(a.request)
			return n, err
		}
		return n, a.final(n < len(buf))
	case responseBody:
		pass, n, err := a.body.Next(buf)
		if err != nil {
			return 0, err
		}
		if len(pass) > 0 {
			if err := a.emit(false); err != nil {
				return 0, err
			}
			a.pass = pass
		}
		if a.body.Done() {
			a.state = responseEnded
		}
		return n, nil
	}
	return 0, errSurplus
}

// final sends the head of the final response; more reports that bytes follow.
func (a *ResponseTranslator) final(more bool) error {
	if a.head.Framing == h1.UntilClose {
		return errNoLength
	}
	a.body.Reset(a.head.Framing, a.head.Length, true, &a.limits)
	a.state = responseBody
	if a.body.Done() {
		a.state, a.ended = responseEnded, true
		if more {
			return errSurplus
		}
	}
	return a.out.Head(&a.head, a.ended)
}

// emit sends the pending piece, and the end of the stream once all bytes that came
// with it have been translated. A piece is held back because it may be the last,
// whose frame carries the end of the stream.
func (a *ResponseTranslator) emit(end bool) error {
	piece, trailers := a.pass, &a.body.Trailers
	a.pass = nil
	switch {
	case end && !a.ended && trailers.Len() == 0:
		a.ended = true
		return a.out.Data(piece, true)
	case len(piece) > 0:
		if err := a.out.Data(piece, false); err != nil {
			return err
		}
	}
	if !end || a.ended {
		return nil
	}
	a.ended = true
	return a.out.Trailers(trailers)
}
