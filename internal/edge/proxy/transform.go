package proxy

import (
	"errors"
	"io"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
)

// responseTooLarge is the response in place of one that is over the rule's
// buffer.
var responseTooLarge = &filter.LocalResponse{Status: 502, Reason: "ResponseTooLarge"}

// bufferResponse reads the body of the response into memory, so that a client
// gets all of it or an error, and never a part.
func (a *attempt) bufferResponse() *filter.LocalResponse {
	x, c := a.x, a.x.conn
	limit, response := x.filters.BufferResponse, &c.buffers.response
	switch {
	case response.Framing == h1.NoBody:
		return nil
	case response.Framing == h1.Fixed && response.Length > limit:
		x.record.Reason = "the response is larger than the rule buffers"
		return responseTooLarge
	}
	body := c.proxy.memory.newBody(limit)
	err := a.readResponseBody(body)
	if err == nil {
		a.buffered = body
		return nil
	}
	body.release()
	x.record.Reason = err.Error()
	switch {
	case errors.Is(err, h1.ErrBodyTooLarge):
		return responseTooLarge
	case errors.Is(err, errMemory):
		return brokenBody(err)
	case isTimeout(err):
		return timedOut
	}
	return badGateway
}

// readResponseBody reads the decoded body of the response into a writer.
func (a *attempt) readResponseBody(to io.Writer) error {
	a.beginBody()
	return a.transferTo(to, 0)
}

// beginBody starts to decode the body of the response.
func (a *attempt) beginBody() {
	c := a.x.conn
	c.buffers.responseBody.Reset(c.buffers.response.Framing, c.buffers.response.Length, true, c.limits)
}

// transferTo reads the decoded body of the response, from where it is, into a writer.
// With a bound it pauses there, see [h1.Transfer].
func (a *attempt) transferTo(to io.Writer, pauseAfter int64) error {
	c := a.x.conn
	sink := c.buffers.responseSink.to(to, c.proxy.cfg.Pool)
	return (&h1.Transfer{From: a.upstream.Reader, To: sink, Body: &c.buffers.responseBody, PauseAfter: pauseAfter}).Run()
}

// transformedFraming is how the body of a response ends that is not passed as it
// came.
func (a *attempt) transformedFraming() (h1.Framing, int64) {
	c := a.x.conn
	switch {
	case a.x.page != nil:
		return h1.Fixed, int64(len(a.x.page.Body))
	case a.encoder == nil && (c.buffers.responseBody.Trailers.Len() == 0 || c.head.Minor == 0):
		return h1.Fixed, a.buffered.size
	case c.head.Minor == 0:
		return h1.UntilClose, 0
	}
	return h1.Chunked, 0
}

// copyTransformed sends a response whose body differs from the endpoint's, or is
// in memory. It reports whether the endpoint's has been read to its end.
func (a *attempt) copyTransformed() (clean bool, err error) {
	x, c := a.x, a.x.conn
	if x.page != nil {
		return a.copyPage()
	}
	c.buffers.responseHead = a.plan.AppendTo(c.buffers.responseHead[:0], &c.buffers.response)
	if a.encoder != nil {
		return true, a.copyEncoded()
	}
	if err := c.writer.Queue(c.buffers.responseHead); err != nil {
		return true, err
	}
	x.record.Sent, x.record.Origin = a.buffered.size, a.buffered.size
	chunked := a.plan.Framing == h1.Chunked
	err = a.buffered.Each(func(piece []byte) error {
		if chunked {
			return c.writer.QueueChunk(piece)
		}
		return c.writer.Queue(piece)
	})
	if err == nil && chunked {
		c.buffers.responseEnd = h1.AppendLastChunk(c.buffers.responseEnd[:0], &c.buffers.responseBody.Trailers)
		err = c.writer.Queue(c.buffers.responseEnd)
	}
	if err != nil {
		return true, err
	}
	return true, c.writer.Flush()
}

// copyEncoded sends a response through its encoder. What the endpoint sends in
// one go reaches the client in one go: nothing waits in the encoder for more.
func (a *attempt) copyEncoded() error {
	x, c := a.x, a.x.conn
	out := &encodedBody{attempt: a, chunked: a.plan.Framing == h1.Chunked}
	if a.buffered == nil && a.held == nil && len(a.upstream.Reader.Unread()) == 0 {
		// The body may take its time, so the head goes ahead.
		if _, err := c.writer.Write(c.buffers.responseHead); err != nil {
			return err
		}
	} else if err := c.writer.Queue(c.buffers.responseHead); err != nil {
		return err
	}
	write := func(piece []byte) error {
		_, err := out.Write(piece)
		return err
	}
	var err error
	if a.buffered != nil {
		err = a.buffered.Each(write)
		x.record.Origin = a.buffered.size
	} else if a.held != nil {
		if err = a.held.Each(write); err == nil {
			err = a.readRest(out)
		}
		x.record.Origin = c.buffers.responseBody.Payload()
	} else {
		err = a.readResponseBody(out)
		x.record.Origin = c.buffers.responseBody.Payload()
	}
	if err == nil {
		err = out.end()
	}
	x.record.Sent = out.sent
	return err
}

// encodedBody passes the output of an encoder on to the client.
type encodedBody struct {
	attempt *attempt
	chunked bool
	sent    int64
}

// Write implements [io.Writer].
func (e *encodedBody) Write(piece []byte) (int, error) {
	if _, err := e.attempt.encoder.Write(piece); err != nil {
		return 0, err
	}
	return len(piece), e.flush()
}

// flush sends what the encoder has ready.
func (e *encodedBody) flush() error {
	output, writer := &e.attempt.encoder.Output, e.attempt.x.conn.writer
	e.sent += int64(output.Len())
	var err error
	if e.chunked {
		err = writer.QueueChunk(output.Bytes())
	} else {
		err = writer.Queue(output.Bytes())
	}
	if err == nil {
		err = writer.Flush()
	}
	output.Reset()
	return err
}

// end sends the rest, and the end of the body.
func (e *encodedBody) end() error {
	c := e.attempt.x.conn
	if err := e.attempt.encoder.Close(); err != nil {
		return err
	}
	if err := e.flush(); err != nil || !e.chunked {
		return err
	}
	c.buffers.responseEnd = h1.AppendLastChunk(c.buffers.responseEnd[:0], &c.buffers.responseBody.Trailers)
	_, err := c.writer.Write(c.buffers.responseEnd)
	return err
}

// dropResponse ends a response that is not sent to the client. Its connection
// can be used again if all of it has arrived: the rest is not waited for.
func (a *attempt) dropResponse() {
	sent := a.upload.finished(0)
	if sent && a.buffered == nil && a.held == nil && a.arrived() {
		sent = a.readResponseBody(io.Discard) == nil
	} else {
		sent = sent && a.buffered != nil
	}
	if !sent {
		a.upstream.NetConn().Close()
		a.upload.stop(a.x.conn)
	}
	a.reusable = sent && a.x.conn.buffers.response.Reusable
}

// arrived reports whether the whole body of the response has been read from the
// network.
func (a *attempt) arrived() bool {
	c := a.x.conn
	response, body := &c.buffers.response, &c.buffers.responseBody
	rest := a.upstream.Reader.Unread()
	switch response.Framing {
	case h1.NoBody:
		return true
	case h1.Fixed:
		return response.Length <= int64(len(rest))
	case h1.Chunked:
		body.Reset(h1.Chunked, 0, true, c.limits)
		for {
			_, used, err := body.Next(rest)
			if err != nil || used == 0 {
				return err == nil && body.Done()
			}
			rest = rest[used:]
		}
	}
	return false
}
