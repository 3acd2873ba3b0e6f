package proxy

import (
	"net"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/upstream"
)

// switchProtocols passes 101 on and joins the two connections.
func (c *client) switchProtocols(conn *upstream.Conn) {
	c.record.Status, c.record.Upgraded = c.response.Status, true
	plan := h1.ResponsePlan{Edits: c.x.ResponseEdits, Minor: c.head.Minor}
	c.incoming = plan.AppendTo(c.incoming[:0], &c.response)
	if _, err := c.writer.Write(c.incoming); err != nil {
		return
	}
	c.tunnel(conn.NetConn(), conn.Reader.Unread())
}

// tunnel joins the two sides after 101, until both have ended. early is what
// the endpoint has sent already. The head of the request stays where it is, for
// the record.
func (c *client) tunnel(upstream net.Conn, early []byte) {
	if _, err := c.net.Write(early); err != nil {
		return
	}
	if _, err := upstream.Write(c.reader.Unread()); err != nil {
		return
	}
	// A tunnel may be silent for as long as its two ends like, and how it ends is
	// their affair.
	c.record.Received, c.record.Sent, _ = join(c.net, upstream, times{})
}
