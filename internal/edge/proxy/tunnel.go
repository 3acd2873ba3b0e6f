package proxy

import (
	"net"

	"slipway.dev/slipway/internal/edge/h1"
)

// switchProtocols passes 101 on and joins the two connections.
func (a *attempt) switchProtocols() {
	x, c := a.x, a.x.conn
	response := &c.buffers.response
	x.record.Status, x.record.Upgraded = response.Status, true
	plan := h1.ResponsePlan{Edits: x.filters.ResponseEdits, Minor: c.head.Minor}
	c.buffers.responseHead = plan.AppendTo(c.buffers.responseHead[:0], response)
	if _, err := c.writer.Write(c.buffers.responseHead); err != nil {
		return
	}
	a.endAttemptTimeout()
	if a.tunnelOnLoop() {
		return
	}
	upstream, err := a.detach()
	if err != nil {
		x.record.Reason = err.Error()
		return
	}
	x.tunnel(upstream, a.upstream.Reader.Unread())
}

// tunnel joins the two sides after 101, until both have ended. early is what the
// endpoint has sent already. The head of the request stays in its buffer, for
// the record.
func (x *exchange) tunnel(upstream net.Conn, early []byte) {
	c := x.conn
	if x.exchangeEarly(upstream, early) != nil {
		return
	}
	// No idle timeout applies to a tunnel, and how it ends is up to its two sides.
	x.record.Received, x.record.Sent, _ = join(c.net, upstream, timeouts{})
}

// exchangeEarly passes on what was read from both sides together with the heads.
func (x *exchange) exchangeEarly(upstream net.Conn, early []byte) error {
	c := x.conn
	if _, err := c.net.Write(early); err != nil {
		return err
	}
	_, err := upstream.Write(c.reader.Unread())
	return err
}
