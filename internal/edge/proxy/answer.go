package proxy

import (
	"net/http"
	"strconv"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/upstream"
)

// pass sends the endpoint's answer to the client. keep says that the client's
// connection can go on, clean that the endpoint's can be used again.
func (c *client) pass(conn *upstream.Conn) (keep, clean bool) {
	framing, reuse := h1.ResponseFraming(&c.head, &c.response)
	shaped := c.page != nil || c.heldReply != nil || c.encoder != nil
	length := c.response.Length
	if shaped {
		framing, length = c.shapedFraming()
		reuse = c.head.KeepAlive && framing != h1.UntilClose
	}
	// An answer that comes before the end of the upload leaves bytes behind on
	// both sides: neither connection can be used again. On a stream that is how
	// two sides talk, so there the end of the answer decides.
	grace := uploadGrace
	if c.stream {
		grace = 0
	}
	sent := c.up.finished(grace)
	keep = reuse && (sent || !c.up.streaming) && !c.stream && c.proxy.keeps()
	c.reply = h1.ResponsePlan{
		Edits: c.x.ResponseEdits, Close: !keep && !c.stream, Framing: framing, Length: length, Minor: c.head.Minor,
	}
	c.record.Status = c.response.Status
	var err error
	switch {
	case shaped:
		clean, err = c.passShaped(conn)
	case c.response.Framing == h1.NoBody:
		c.incoming = c.reply.AppendTo(c.incoming[:0], &c.response)
		_, err = c.writer.Write(c.incoming)
		clean = true
	default:
		clean, err = true, c.passBody(conn)
	}
	return c.wind(conn, keep && err == nil, clean && err == nil, err)
}

// passBody sends an answer as it comes.
func (c *client) passBody(conn *upstream.Conn) error {
	c.incoming = c.reply.AppendTo(c.incoming[:0], &c.response)
	framing := c.reply.Framing
	c.body.Reset(c.response.Framing, c.response.Length, framing != h1.Chunked, c.limits)
	err := (&h1.Transfer{
		From: conn.Reader, To: c.writer, Head: c.incoming, Body: &c.body,
		Encode: framing == h1.Chunked && c.response.Framing != h1.Chunked,
	}).Run()
	c.record.Sent = c.body.Payload()
	c.record.Origin = c.record.Sent
	return err
}

// wind ends an exchange whose answer was passed on, or broke off with err.
func (c *client) wind(conn *upstream.Conn, keep, clean bool, err error) (bool, bool) {
	if err != nil {
		c.record.Reason = err.Error()
	}
	sent := c.up.finished(0)
	if !sent && c.stream && err == nil {
		sent = c.up.finished(uploadGrace)
	}
	if !sent {
		conn.NetConn().Close()
		c.up.stop(c)
		keep, clean = keep && !c.up.streaming, false
	}
	if c.up.streaming {
		c.record.Received = c.upload.Payload()
		if !sent && err == nil {
			c.linger()
		}
	}
	return keep, clean
}

// passInterim sends an interim response to a client that can read it. 100 is
// the edge's own to send: it has said it, or was not asked.
func (c *client) passInterim() {
	if c.response.Status == http.StatusContinue || c.head.Minor == 0 {
		return
	}
	plan := h1.ResponsePlan{Minor: c.head.Minor}
	c.incoming = plan.AppendTo(c.incoming[:0], &c.response)
	// A client that is gone shows with the final response.
	_, _ = c.writer.Write(c.incoming)
}

// answer gives an answer of the edge's own, and reports whether the connection
// can go on. A body that the client is sending is not read, so it cannot then.
func (c *client) answer(a *filter.LocalResponse) (keep bool) {
	unread := c.head.Framing != h1.NoBody && c.held == nil
	keep = c.head.KeepAlive && !unread && !c.stream && c.proxy.keeps()
	if !c.sendAnswer(a, !keep) {
		return false
	}
	if unread {
		c.linger()
	}
	return keep
}

// sendAnswer writes an answer of the edge's own.
func (c *client) sendAnswer(a *filter.LocalResponse, last bool) bool {
	c.record.Status = a.Status
	if c.record.Reason == "" {
		c.record.Reason = a.Reason
	}
	body, contentType := a.Body, a.ContentType
	text := http.StatusText(a.Status)
	if body == nil && a.Status >= 400 {
		body, contentType = normalize.Bytes(text+"\n"), "text/plain; charset=utf-8"
	}
	out := append(c.incoming[:0], "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(a.Status), 10)
	out = append(out, ' ')
	out = append(out, text...)
	out = append(out, "\r\nDate: "...)
	out = append(out, c.proxy.dateHeader(time.Now())...)
	if contentType != "" {
		out = append(out, "\r\nContent-Type: "...)
		out = append(out, contentType...)
	}
	if a.Status != http.StatusNoContent && a.Status != http.StatusNotModified {
		out = append(out, "\r\nContent-Length: "...)
		out = strconv.AppendInt(out, int64(len(body)), 10)
	}
	out = append(out, "\r\n"...)
	// One list: what the filters say comes later and wins.
	c.edits = append(append(c.edits[:0], a.Edits...), c.x.ResponseEdits...)
	out = h1.AppendEdits(out, c.edits)
	switch {
	case c.stream:
		// The end of a stream is said in its own protocol.
	case last:
		out = append(out, "Connection: close\r\n"...)
	case c.head.Minor == 0:
		out = append(out, "Connection: keep-alive\r\n"...)
	}
	out = append(out, "\r\n"...)
	if c.head.MethodID != h1.MethodHead {
		out = append(out, body...)
		c.record.Sent = int64(len(body))
	}
	c.incoming = out
	_, err := c.writer.Write(out)
	return err == nil
}
