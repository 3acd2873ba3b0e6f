package proxy

import (
	"net"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/overload"
)

// overloaded is the response when there is no memory for another exchange.
var overloaded = func() *filter.LocalResponse {
	local := &filter.LocalResponse{Status: 503, Reason: "Overloaded"}
	if edit, err := h1.SetField("Retry-After", "1"); err == nil {
		local.Edits = []h1.Edit{edit}
	}
	return local
}()

// plainOnTLS is the response to a request that should have come encrypted.
var plainOnTLS = &filter.LocalResponse{
	Status: 400, Reason: "PlainOnTLS", ContentType: "text/plain; charset=utf-8",
	Body: []byte("This port takes HTTPS only: write https:// instead of http://.\n"),
}

// admit decides whether the rule may serve the request on this connection.
// Config.Admit comes first: a request that arrived under the TLS options of
// another host must not learn what the rule would do. But a plain request of a
// host that must be encrypted is redirected to https where the rule does that.
// A rule whose policies could not be compiled is refused as a whole.
func (x *exchange) admit() *filter.LocalResponse {
	if admit := x.conn.proxy.cfg.Admit; admit != nil {
		if local := admit(&x.conn.from, x.request.Host, x.record.Rule); local != nil {
			if x.request.TLS || x.conn.from.TLS || x.rule.refused != nil || !x.rule.chain.RedirectsPlain() {
				return local
			}
		}
	}
	return x.rule.refused
}

// SetPressure sets how little memory is left. Under pressure connections are no
// longer kept open; at the last level requests are refused too.
func (p *Proxy) SetPressure(level overload.Level) { p.pressure.Store(int32(level)) }

// keepsAlive reports whether clients' connections stay open between requests.
func (p *Proxy) keepsAlive() bool {
	return p.pressure.Load() == int32(overload.Normal) && !p.draining.Load()
}

// full reports whether requests are refused for want of memory.
func (p *Proxy) full() bool { return p.pressure.Load() == int32(overload.Full) }

// RejectPlainHTTP responds to a plain request on an encrypted entry point, and
// closes the connection. Anything that is not HTTP is just closed.
func (p *Proxy) RejectPlainHTTP(connection net.Conn, from Accepted) {
	c := newConn(p, connection, &from, false)
	defer c.net.Close()
	defer c.reader.Close()
	if err := c.reader.ReadRequest(&c.head, c.limits); err != nil {
		c.rejectMalformed(err)
		return
	}
	c.reject(plainOnTLS)
}
