package proxy

import (
	"errors"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
)

// inspectBody has a firewall inspect the start of the response's body, which is kept in
// memory for that. A body that is longer is passed on from there as it comes.
func (a *attempt) inspectBody(bytes int64) *filter.LocalResponse {
	x, c := a.x, a.x.conn
	if a.buffered == nil && c.buffers.response.Framing != h1.NoBody {
		if local := a.hold(bytes); local != nil {
			return local
		}
	}
	start := a.buffered
	if start == nil {
		start = a.held
	}
	if start == nil {
		return x.filters.Inspection.ResponseBody(nil)
	}
	return x.filters.Inspection.ResponseBody(start)
}

// hold reads the start of the body. One read may bring more than bytes.
func (a *attempt) hold(bytes int64) *filter.LocalResponse {
	x, c := a.x, a.x.conn
	body := c.proxy.memory.newBody(0)
	a.beginBody()
	err := a.transferTo(body, bytes)
	switch {
	case err == nil:
		a.buffered = body
		return nil
	case errors.Is(err, h1.ErrPaused):
		a.held = body
		return nil
	}
	body.release()
	x.record.Reason = err.Error()
	switch {
	case errors.Is(err, errMemory):
		return brokenBody(err)
	case isTimeout(err):
		return timedOut
	}
	return badGateway
}

// readRest reads what follows the start that is in memory.
func (a *attempt) readRest(to *encodedBody) error { return a.transferTo(to, 0) }

// copyHeld sends a response whose start is in memory, and the rest as it comes.
func (a *attempt) copyHeld() error {
	x, c := a.x, a.x.conn
	body := &c.buffers.responseBody
	c.buffers.responseHead = a.plan.AppendTo(c.buffers.responseHead[:0], &c.buffers.response)
	chunked := a.plan.Framing == h1.Chunked
	err := c.writer.Queue(c.buffers.responseHead)
	if err == nil {
		err = a.held.Each(func(piece []byte) error {
			if chunked {
				return c.writer.QueueChunk(piece)
			}
			return c.writer.Queue(piece)
		})
	}
	if err == nil {
		err = (&h1.Transfer{From: a.upstream.Reader, To: c.writer, Body: body, Encode: chunked}).Run()
	}
	x.record.Sent = body.Payload()
	x.record.Origin = x.record.Sent
	return err
}
