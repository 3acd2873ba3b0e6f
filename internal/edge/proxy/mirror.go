package proxy

import (
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
)

const (
	// defaultMirrors bounds the mirrored requests that run at one time, where
	// Config does not.
	defaultMirrors = 256
	// mirrorBytes is how much of the response to a mirrored request is read, so
	// that its connection can be used again.
	mirrorBytes = 256 << 10
	// mirrorTimeout bounds one mirrored request, with its response.
	mirrorTimeout = 30 * time.Second
)

// mirror begins to mirror the request. A copy of one without a body, or with a
// buffered one, starts at once. Of any other, the body is copied while it
// passes, and the copies start when it has. A request that may become a tunnel
// is not mirrored.
func (x *exchange) mirror() {
	c := x.conn
	x.mirrors = c.buffers.mirrors[:0]
	if c.head.Upgrade() != nil {
		return
	}
	limit := int64(0)
	for _, mirror := range x.filters.Mirrors {
		switch {
		case c.head.Framing == h1.NoBody:
			x.startMirror(mirror, nil)
		case x.body != nil:
			if x.body.size <= mirror.MaxBody {
				x.startMirror(mirror, x.body)
			}
		case mirror.MaxBody > 0 && (c.head.Framing != h1.Fixed || c.head.Length <= mirror.MaxBody):
			limit = max(limit, mirror.MaxBody)
			x.mirrors = append(x.mirrors, mirror)
		}
	}
	c.buffers.mirrors = x.mirrors
	if len(x.mirrors) > 0 {
		x.mirrorBody = c.proxy.memory.newBody(limit)
	}
}

// mirrorStreamed starts the copies whose body was still to come, if all of it
// has passed. A body that the backend did not read to its end is not mirrored.
func (x *exchange) mirrorStreamed() {
	if len(x.mirrors) == 0 {
		return
	}
	upload := &x.attempt.upload
	if upload.streaming && upload.ended && upload.err == nil && !x.mirrorBody.invalid {
		for _, mirror := range x.mirrors {
			if x.mirrorBody.size <= mirror.MaxBody {
				x.startMirror(mirror, x.mirrorBody)
			}
		}
	} else {
		x.conn.proxy.background.dropped.Add(uint64(len(x.mirrors)))
	}
	clear(x.mirrors)
	x.mirrors = nil
}

// startMirror sends one copy of the request, in the background. The body may be
// shared with others. The head is composed here, because the request's own is
// gone when the exchange ends.
func (x *exchange) startMirror(mirror *filter.Mirror, body *bufferedBody) {
	c, p := x.conn, x.conn.proxy
	to, ok := mirror.Backend.(*subrequestClient)
	if !ok || !p.background.start(p.cfg.MirrorsInFlight) {
		p.background.dropped.Add(1)
		return
	}
	sent := false
	defer func() {
		if !sent {
			p.background.end()
			p.background.dropped.Add(1)
		}
	}()
	request, err := to.pick(p)
	if err != nil {
		return
	}
	plan := h1.ForwardPlan{Peer: c.peer, Edits: x.filters.RequestEdits, Host: request.host("", "")}
	if body != nil {
		plan.Framing, plan.Length = h1.Fixed, body.size
	}
	if transport := request.lease.Transport(); transport.Host == "" && !transport.HostOfEndpoint {
		plan.Host = x.filters.Host() // or the client's
	}
	x.setTarget(&plan)
	if request.out, err = plan.AppendTo(request.out[:0], &c.head); err != nil {
		request.end(false)
		return
	}
	request.info = h1.RequestInfo{Head: c.head.MethodID == h1.MethodHead}
	request.retryStale = idempotent(c.head.MethodID)
	request.maxResponse, request.discard = mirrorBytes, true
	if body != nil {
		request.body = body.share()
	}
	sent = true
	p.background.sent.Add(1)
	go func() {
		defer p.background.end()
		// A mirror is best effort: neither its response nor its error is used.
		response, err := request.run(mirrorTimeout)
		if err == nil {
			response.Close()
		}
	}()
}
