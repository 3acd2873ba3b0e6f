package proxy

import (
	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
)

const (
	// defaultMirrors bounds the copies that run at one time, where Config does
	// not say.
	defaultMirrors = 256
	// mirrorBytes is how much of the answer to a copy is read, so that its
	// connection can be used again.
	mirrorBytes = 256 << 10
)

// mirror begins to copy the request. A copy of one without a body, or with one
// that is in memory, starts at once. Of any other, the body is copied while it
// passes, and the copies start when it has. A request that is to become a tunnel
// is not copied.
func (c *client) mirror() {
	c.copies = c.copies[:0]
	if c.head.Upgrade() != nil {
		return
	}
	most := int64(0)
	for _, mirror := range c.x.Mirrors {
		switch {
		case c.head.Framing == h1.NoBody:
			c.startCopy(mirror, nil)
		case c.held != nil:
			if c.held.size <= mirror.MaxBody {
				c.startCopy(mirror, c.held)
			}
		case mirror.MaxBody > 0 && (c.head.Framing != h1.Fixed || c.head.Length <= mirror.MaxBody):
			most = max(most, mirror.MaxBody)
			c.copies = append(c.copies, mirror)
		}
	}
	if len(c.copies) > 0 {
		c.copied = c.proxy.memory.hold(most)
	}
}

// mirrorRest starts the copies whose body was still to come, if all of it did.
// One that the backend did not wait for is not copied.
func (c *client) mirrorRest() {
	if len(c.copies) == 0 {
		return
	}
	if c.up.streaming && c.up.ended && c.up.err == nil && !c.copied.invalid {
		for _, mirror := range c.copies {
			if c.copied.size <= mirror.MaxBody {
				c.startCopy(mirror, c.copied)
			}
		}
	} else {
		c.proxy.background.dropped.Add(uint64(len(c.copies)))
	}
	clear(c.copies)
	c.copies = c.copies[:0]
}

// startCopy sends one copy, beside the exchange. The body may be shared. The
// head is made here, because the request's own goes with the exchange.
func (c *client) startCopy(mirror *filter.Mirror, body *bufferedBody) {
	p := c.proxy
	to, ok := mirror.Backend.(*subrequestClient)
	if !ok || !p.background.enter(p.cfg.MirrorsInFlight) {
		p.background.dropped.Add(1)
		return
	}
	sent := false
	defer func() {
		if !sent {
			p.background.leave()
			p.background.dropped.Add(1)
		}
	}()
	visit, err := to.visit(p)
	if err != nil {
		return
	}
	plan := h1.ForwardPlan{Peer: c.peer, Edits: c.x.RequestEdits, Host: visit.host("", "")}
	if body != nil {
		plan.Framing, plan.Length = h1.Fixed, body.size
	}
	if transport := visit.lease.Transport(); transport.Host == "" && !transport.HostOfEndpoint {
		plan.Host = "" // the client's
	}
	c.setTarget(&plan)
	if visit.out, err = plan.AppendTo(visit.out[:0], &c.head); err != nil {
		visit.end(false)
		return
	}
	visit.asked = h1.RequestInfo{Head: c.head.MethodID == h1.MethodHead}
	visit.again = idempotent(c.head.MethodID)
	visit.most, visit.drop = mirrorBytes, true
	if body != nil {
		visit.body = body.share()
	}
	sent = true
	p.background.sent.Add(1)
	go func() {
		defer p.background.leave()
		// Nobody waits for the answer, so nobody is told of an error.
		reply, err := visit.run(mirrorTimeout)
		if err == nil {
			reply.Close()
		}
	}()
}
