package proxy

import (
	"net"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/overload"
)

// overloaded is the answer when there is no memory for another exchange.
var overloaded = func() *filter.LocalResponse {
	answer := &filter.LocalResponse{Status: 503, Reason: "Overloaded"}
	if edit, err := h1.SetField("Retry-After", "1"); err == nil {
		answer.Edits = []h1.Edit{edit}
	}
	return answer
}()

// plainOnTLS is the answer to a request that should have come encrypted.
var plainOnTLS = &filter.LocalResponse{
	Status: 400, Reason: "PlainOnTLS", ContentType: "text/plain; charset=utf-8",
	Body: []byte("This port takes HTTPS only: write https:// instead of http://.\n"),
}

// SetPressure says how little memory is left: connections are not kept open
// any more, or requests are refused too.
func (p *Proxy) SetPressure(level overload.Level) { p.pressure.Store(int32(level)) }

// keeps reports whether connections of clients are kept open between requests.
func (p *Proxy) keeps() bool {
	return p.pressure.Load() == int32(overload.Normal) && !p.draining.Load()
}

// full reports whether requests are refused for want of memory.
func (p *Proxy) full() bool { return p.pressure.Load() == int32(overload.Full) }

// RejectPlainHTTP answers a plain request on an entry point that is encrypted, and
// closes the connection. Anything else is just closed.
func (p *Proxy) RejectPlainHTTP(conn net.Conn, from Accepted) {
	c := newClient(p, conn, from)
	defer c.net.Close()
	defer c.reader.Close()
	if err := c.reader.ReadRequest(&c.head, c.limits); err != nil {
		c.refuse(err)
		return
	}
	c.turnAway(plainOnTLS)
}
