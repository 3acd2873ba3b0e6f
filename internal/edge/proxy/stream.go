package proxy

import "net"

// ServeStream serves the one request of a virtual connection, which stands for
// a stream of HTTP/2 or HTTP/3, and closes it. The answer flows while the
// request's body does; a body that is still coming when the answer has ended is
// stopped. The connection is not kept, upgraded or drained: whoever made it
// knows what becomes of the one below.
func (p *Proxy) ServeStream(conn net.Conn, from Accepted) {
	c, ok := p.streams.Get().(*client)
	if !ok {
		c = new(client)
	}
	c.stream = true
	c.attach(p, conn, from)
	c.serveStream()
	c.detach()
	p.streams.Put(c)
}

// serveStream answers one request.
func (c *client) serveStream() {
	defer c.net.Close()
	defer c.reader.Close()
	if err := c.reader.ReadRequest(&c.head, c.limits); err != nil {
		c.refuse(err)
		return
	}
	c.exchange()
}

// detach forgets the connection and what was said on it, and keeps the memory.
func (c *client) detach() {
	c.head.Reset()
	c.begin(0) // nothing of the last request is left in the exchange
	c.x.Head = nil
	c.proxy, c.net, c.reader, c.writer = nil, nil, nil, nil
	c.from = Accepted{}
	c.record = Record{}
	c.request.Header = nil
	c.transfer.From, c.transfer.To, c.transfer.Head = nil, nil, nil
	c.relay = relay{}
	c.forward.Edits, c.reply.Edits = nil, nil
}
