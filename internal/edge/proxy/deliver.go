package proxy

import (
	"errors"
	"io"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/upstream"
)

// holdResponse reads the body of the answer into memory, so that a client gets
// all of it or an error, and never a part.
func (c *client) holdResponse(conn *upstream.Conn) *filter.LocalResponse {
	most := c.x.BufferResponse
	switch {
	case c.response.Framing == h1.NoBody:
		return nil
	case c.response.Framing == h1.Fixed && c.response.Length > most:
		c.record.Reason = "the response is larger than the rule buffers"
		return answerSize
	}
	body := c.proxy.memory.hold(most)
	c.body.Reset(c.response.Framing, c.response.Length, true, c.limits)
	err := (&h1.Transfer{From: conn.Reader, To: c.downDrain.into(body, c.proxy.cfg.Pool), Body: &c.body}).Run()
	if err == nil {
		c.heldReply = body
		return nil
	}
	body.release()
	c.record.Reason = err.Error()
	switch {
	case errors.Is(err, h1.ErrBodyTooLarge):
		return answerSize
	case errors.Is(err, errMemory):
		return brokenBody(err)
	case isTimeout(err):
		return timedOut
	}
	return badGateway
}

// shapedFraming is how the body of an answer ends that is not passed as it came.
func (c *client) shapedFraming() (h1.Framing, int64) {
	switch {
	case c.page != nil:
		return h1.Fixed, int64(len(c.page.Body))
	case c.encoder == nil && (c.body.Trailers.Len() == 0 || c.head.Minor == 0):
		return h1.Fixed, c.heldReply.size
	case c.head.Minor == 0:
		return h1.UntilClose, 0
	}
	return h1.Chunked, 0
}

// passShaped sends an answer whose body is another than the endpoint's, or is
// in memory. It reports whether the endpoint's has been read to its end.
func (c *client) passShaped(conn *upstream.Conn) (clean bool, err error) {
	if c.page != nil {
		return c.passPage(conn)
	}
	c.incoming = c.reply.AppendTo(c.incoming[:0], &c.response)
	if c.encoder != nil {
		return true, c.passEncoded(conn)
	}
	if err := c.writer.Queue(c.incoming); err != nil {
		return true, err
	}
	c.record.Sent, c.record.Origin = c.heldReply.size, c.heldReply.size
	chunked := c.reply.Framing == h1.Chunked
	err = c.heldReply.each(func(piece []byte) error {
		if chunked {
			return c.writer.QueueChunk(piece)
		}
		return c.writer.Queue(piece)
	})
	if err == nil && chunked {
		c.lastChunk = h1.AppendLastChunk(c.lastChunk[:0], &c.body.Trailers)
		err = c.writer.Queue(c.lastChunk)
	}
	if err != nil {
		return true, err
	}
	return true, c.writer.Flush()
}

// passEncoded sends an answer through its encoder. What the endpoint sends in
// one go reaches the client in one go.
func (c *client) passEncoded(conn *upstream.Conn) error {
	out := &encoded{client: c, chunked: c.reply.Framing == h1.Chunked}
	if c.heldReply == nil && len(conn.Reader.Unread()) == 0 {
		// The body may take its time.
		if _, err := c.writer.Write(c.incoming); err != nil {
			return err
		}
	} else if err := c.writer.Queue(c.incoming); err != nil {
		return err
	}
	var err error
	if c.heldReply != nil {
		err = c.heldReply.each(func(piece []byte) error {
			_, err := out.Write(piece)
			return err
		})
		c.record.Origin = c.heldReply.size
	} else {
		c.body.Reset(c.response.Framing, c.response.Length, true, c.limits)
		err = (&h1.Transfer{From: conn.Reader, To: c.downDrain.into(out, c.proxy.cfg.Pool), Body: &c.body}).Run()
		c.record.Origin = c.body.Payload()
	}
	if err == nil {
		err = out.end()
	}
	c.record.Sent = out.sent
	return err
}

// encoded passes what an encoder makes on to the client.
type encoded struct {
	client  *client
	chunked bool
	sent    int64
}

// Write implements [io.Writer].
func (e *encoded) Write(piece []byte) (int, error) {
	if _, err := e.client.encoder.Write(piece); err != nil {
		return 0, err
	}
	return len(piece), e.flush()
}

// flush sends what the encoder has ready.
func (e *encoded) flush() error {
	output := &e.client.encoder.Output
	e.sent += int64(output.Len())
	writer := e.client.writer
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
func (e *encoded) end() error {
	c := e.client
	if err := c.encoder.Close(); err != nil {
		return err
	}
	if err := e.flush(); err != nil || !e.chunked {
		return err
	}
	c.lastChunk = h1.AppendLastChunk(c.lastChunk[:0], &c.body.Trailers)
	_, err := c.writer.Write(c.lastChunk)
	return err
}

// dropResponse ends an answer that nobody gets. Its connection can be used
// again if all of it is here: what is not is not waited for.
func (c *client) dropResponse(conn *upstream.Conn) {
	sent := c.up.finished(0)
	if sent && c.heldReply == nil && c.arrived(conn) {
		c.body.Reset(c.response.Framing, c.response.Length, true, c.limits)
		sent = (&h1.Transfer{From: conn.Reader, To: c.downDrain.into(io.Discard, c.proxy.cfg.Pool), Body: &c.body}).Run() == nil
	} else {
		sent = sent && c.heldReply != nil
	}
	if !sent {
		conn.NetConn().Close()
		c.up.stop(c)
	}
	c.reusable = sent && c.response.Reusable
}

// arrived reports whether the whole body of the answer has been read from the
// network.
func (c *client) arrived(conn *upstream.Conn) bool {
	rest := conn.Reader.Unread()
	switch c.response.Framing {
	case h1.NoBody:
		return true
	case h1.Fixed:
		return c.response.Length <= int64(len(rest))
	case h1.Chunked:
		c.body.Reset(h1.Chunked, 0, true, c.limits)
		for {
			_, used, err := c.body.Next(rest)
			if err != nil || used == 0 {
				return err == nil && c.body.Done()
			}
			rest = rest[used:]
		}
	}
	return false
}
