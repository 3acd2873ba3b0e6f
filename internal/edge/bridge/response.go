package bridge

import (
	"errors"

	"slipway.dev/slipway/internal/edge/h1"
)

// What is wrong with a response, beside the faults of h1.
var (
	errNoLength = errors.New("the response has neither a length nor chunks, so its end could not be told from a break")
	errSurplus  = errors.New("bytes were written after the end of the response")
)

// Output is a stream that a response is sent on. What it is given holds for the
// call only. An error ends the response.
type Output interface {
	// Interim sends a response that another one follows.
	Interim(head *h1.ResponseHead) error
	// Head sends the head of the response, and ends the stream if there is no
	// body.
	Head(head *h1.ResponseHead, end bool) error
	// Data sends a piece of the body, and ends the stream after the last one.
	// The last one may be empty.
	Data(piece []byte, end bool) error
	// Trailers ends the stream with trailers.
	Trailers(trailers *h1.Fields) error
	// Flush sees to it that all so far is on its way.
	Flush() error
}

// The states of a reply.
const (
	responseHead  = iota // the final head has not come, or not all of it
	responseBody         // the body comes
	responseEnded        // the response is complete
)

// ResponseTranslator translates a response of HTTP/1.1, in whatever pieces it is written, to
// calls of an Output. It can be used again after Begin.
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

// Begin makes ready for the response to a request. limits are those that
// responses were held to when they came from a backend: a head that is written
// may be twice as large, because filters add to it.
func (a *ResponseTranslator) Begin(out Output, asked h1.RequestInfo, limits *h1.Limits) {
	a.out, a.request = out, asked
	a.limits = *limits
	a.limits.HeadBytes *= 2
	a.limits.Fields *= 2
	a.state, a.ended, a.err, a.partial = responseHead, false, nil, a.partial[:0]
	a.head.Reset(a.request)
}

// maxKeptBytes bounds the memory that is kept from one reply to the next.
const maxKeptBytes = 16 << 10

// Release forgets the stream, and reports whether its response was complete.
func (a *ResponseTranslator) Release() (complete bool) {
	complete = a.state == responseEnded && a.err == nil
	if cap(a.partial) > maxKeptBytes {
		a.partial = nil
	}
	a.out, a.pass = nil, nil
	a.head.Reset(h1.RequestInfo{}) // it refers to bytes of others
	return complete
}

// Write translates what comes next. What it makes up is on its way when it
// returns. After an error nothing more is taken.
func (a *ResponseTranslator) Write(p []byte) (int, error) {
	if a.err == nil {
		a.err = a.translate(p)
	}
	if a.err != nil {
		return 0, a.err
	}
	return len(p), nil
}

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

// next translates one piece from the start of buf, and says how long it is: 0
// when it is not complete.
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

// final sends the head of the response; more says that something follows.
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

// emit sends the piece that was held back to see whether it is the last, and the
// end once all was looked at that came with it.
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
