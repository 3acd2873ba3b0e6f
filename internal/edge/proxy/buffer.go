package proxy

import (
	"errors"
	"os"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/httperr"
	"slipway.dev/slipway/internal/edge/normalize"
)

// tooLarge is the response to a body that is over a limit of the rule.
var tooLarge = &filter.LocalResponse{Status: 413, Reason: "BodyTooLarge"}

// buffer reads the request's body into memory where the rule buffers it. A body
// that a filter has buffered already is checked once more, because filters that
// ran after it may have lowered the limit.
func (x *exchange) buffer() (local *filter.LocalResponse) {
	if x.filters.BufferRequest > 0 {
		_, local = x.BufferBody(x.filters.BufferRequest)
	} else if x.body != nil && x.filters.MaxBody > 0 && x.body.size > x.filters.MaxBody {
		local = tooLarge
	}
	return local
}

// BufferBody implements [filter.BodyBufferer]: it reads the request's body into
// memory, for a filter or because the rule buffers it. A body that is in memory
// already is only checked against the limit. Trailers are dropped, because the
// body has a length now.
func (x *exchange) BufferBody(limit int64) (filter.BufferedBody, *filter.LocalResponse) {
	c := x.conn
	if x.filters.MaxBody > 0 {
		limit = min(limit, x.filters.MaxBody)
	}
	switch {
	case x.body != nil && x.body.size > limit, c.head.Framing == h1.Fixed && c.head.Length > limit:
		return nil, tooLarge
	case x.body != nil:
		return x.body, nil
	case c.head.Framing == h1.NoBody:
		return nil, nil
	}
	body := c.proxy.memory.newBody(limit)
	err := x.sendContinue()
	if err == nil {
		c.buffers.requestBody.Reset(c.head.Framing, c.head.Length, true, c.limits)
		to := c.buffers.requestSink.to(body, c.proxy.cfg.Pool)
		err = (&h1.Transfer{From: c.reader, To: to, Body: &c.buffers.requestBody}).Run()
	}
	if err != nil {
		body.release()
		x.record.Reason = err.Error()
		if local := brokenBody(err); local != nil {
			return nil, local
		}
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, h1.ErrTooSlow) {
			return nil, &filter.LocalResponse{Status: 408, Reason: "BodyTooSlow"}
		}
		return nil, &filter.LocalResponse{Status: 400, Reason: "BodyBroken"}
	}
	x.record.Received = body.size
	x.body = body
	return body, nil
}

// sendContinue lets a client that sent Expect: 100-continue send its body. It
// writes the interim response once for a request, however often it is retried.
func (x *exchange) sendContinue() error {
	if !x.conn.head.ExpectContinue || x.continued {
		return nil
	}
	x.continued = true
	_, err := x.conn.writer.Write(normalize.Bytes(h1.Continue))
	return err
}

// brokenBody is the response to a body that could not be read to its end, nil
// for a client that is gone.
func brokenBody(err error) *filter.LocalResponse {
	broken := httperr.Of(err)
	switch {
	case errors.Is(err, h1.ErrBodyTooLarge):
		return tooLarge
	case errors.Is(err, errMemory):
		return retryLater("BuffersFull", time.Second)
	case broken.Status != 0:
		return &filter.LocalResponse{Status: broken.Status, Reason: broken.Message}
	}
	return nil
}
