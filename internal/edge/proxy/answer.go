package proxy

import (
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/upstream"
)

// pass sends the endpoint's answer to the client. keep says that the client's
// connection can go on, clean that the endpoint's can be used again.
func (c *client) pass(conn *upstream.Conn, up *sending) (keep, clean bool) {
	framing, reuse := h1.ReplyFraming(&c.head, &c.response)
	// An answer that comes before the end of the upload leaves bytes behind on
	// both sides: neither connection can be used again.
	early := !up.finished()
	keep = reuse && !early && !c.proxy.draining.Load()
	c.reply = h1.ReplyPlan{
		Edits: c.x.ResponseEdits, Close: !keep, Framing: framing, Length: c.response.Length, Minor: c.head.Minor,
	}
	c.incoming = c.reply.AppendTo(c.incoming[:0], &c.response)
	c.record.Status = c.response.Status
	var err error
	if c.response.Framing == h1.NoBody {
		_, err = c.writer.Write(c.incoming)
	} else {
		c.body.Reset(c.response.Framing, c.response.Length, framing != h1.Chunked, &c.proxy.cfg.Limits)
		err = (&h1.Transfer{
			From: conn.Reader, To: c.writer, Head: c.incoming, Body: &c.body,
			Encode: framing == h1.Chunked && c.response.Framing != h1.Chunked,
		}).Run()
		c.record.Sent = c.body.Payload()
	}
	if up.began {
		c.record.Received = c.upload.Payload()
	}
	if early {
		conn.Close()
		up.stop(c)
		if err == nil {
			c.linger()
		}
		return false, false
	}
	if err != nil {
		c.record.Reason = err.Error()
		return false, false
	}
	return keep, true
}

// passInterim sends an interim response to a client that can read it. 100 is
// the edge's own to send: it has said it, or was not asked.
func (c *client) passInterim() {
	if c.response.Status == http.StatusContinue || c.head.Minor == 0 {
		return
	}
	plan := h1.ReplyPlan{Minor: c.head.Minor}
	c.incoming = plan.AppendTo(c.incoming[:0], &c.response)
	// A client that is gone shows with the final response.
	_, _ = c.writer.Write(c.incoming)
}

// switchProtocols passes 101 on and joins the two connections.
func (c *client) switchProtocols(conn *upstream.Conn) {
	defer conn.Close()
	c.record.Status, c.record.Upgraded = c.response.Status, true
	plan := h1.ReplyPlan{Edits: c.x.ResponseEdits, Minor: c.head.Minor}
	c.incoming = plan.AppendTo(c.incoming[:0], &c.response)
	if _, err := c.writer.Write(c.incoming); err != nil {
		return
	}
	c.tunnel(conn.NetConn(), conn.Reader.Unread())
}

// answer gives an answer of the edge's own, and reports whether the connection
// can go on. A body that the client is sending is not read, so it cannot then.
func (c *client) answer(a *filter.Answer) (keep bool) {
	keep = c.head.KeepAlive && c.head.Framing == h1.NoBody && !c.proxy.draining.Load()
	if !c.sendAnswer(a, !keep) {
		return false
	}
	if !keep && c.head.Framing != h1.NoBody {
		c.linger()
	}
	return keep
}

// sendAnswer writes an answer of the edge's own.
func (c *client) sendAnswer(a *filter.Answer, last bool) bool {
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
	if last {
		out = append(out, "Connection: close\r\n"...)
	} else if c.head.Minor == 0 {
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

// clientAddress is who sent the request: the connection's other end, or the
// last one that a trusted proxy names.
func (c *client) clientAddress() netip.Addr {
	direct := c.from.Client.Addr().Unmap()
	if !c.from.Trusted {
		return direct
	}
	said, ok := c.head.Get(normalize.FieldXForwardedFor)
	if !ok {
		return direct
	}
	list := normalize.View(said)
	if i := strings.LastIndexByte(list, ','); i >= 0 {
		list = list[i+1:]
	}
	addr, err := netip.ParseAddr(strings.TrimSpace(list))
	if err != nil {
		return direct
	}
	return addr.Unmap()
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
