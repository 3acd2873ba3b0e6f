package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/upstream"
)

// failure is why an attempt brought nothing that was passed on.
type failure uint8

const (
	succeeded   failure = iota // it is over, one way or the other
	unconnected                // there was no connection, so nothing was sent
	broken                     // the connection ended before the head of an answer
	overdue                    // the head did not come in time
	refused                    // the answer was 502, 503 or 504
)

// attempted is how one attempt ended: with the endpoint's answer passed on, or
// with an answer to give in its place.
type attempted struct {
	keep    bool
	answer  *filter.LocalResponse
	failure failure
	stale   bool // a pooled connection had died
	outcome upstream.Outcome
	// settled says that the request is sent again, after wait at least.
	settled bool
	wait    time.Duration
}

// target is where a request goes.
type target struct {
	handle *upstream.Handle
	lease  upstream.Lease
	choice upstream.PickOptions
	sticky string // the part of the rule's cookie that stands for the backend
}

// attempt sends the request to one endpoint and passes its answer on.
func (c *client) attempt(b *binding, lane *target, fresh bool, ran int) attempted {
	c.settle()
	c.up = sending{}
	if c.x.Retry != nil {
		c.tried = time.Since(c.record.Began)
	}
	c.record.Backend, c.record.Endpoint = lane.handle.ID(), ""
	conn, err := lane.lease.Connect(context.Background(), c.left(b, c.connectTime(b)), fresh)
	if err != nil {
		c.record.Reason = err.Error()
		answer := badGateway
		if isTimeout(err) {
			answer = timedOut
		}
		return attempted{answer: answer, failure: unconnected, outcome: upstream.ConnectFailed}
	}
	c.conn = conn
	c.record.Endpoint = lane.lease.Endpoint().Address()
	c.record.Connected = time.Since(c.record.Began)
	c.bound(b, conn)
	if b.times.total > 0 {
		// Closing the connection ends every wait of this attempt.
		c.total = time.AfterFunc(c.left(b, 0), func() { conn.NetConn().Close() })
	}
	if c.from.Gone != nil {
		c.leaving = context.AfterFunc(c.from.Gone, func() { conn.NetConn().Close() })
	}
	if err := c.await(b, lane, conn); err != nil {
		conn.Close()
		c.up.stop(c)
		return c.failed(b, conn, err)
	}
	lane.lease.ResponseStarted()
	c.record.Responded = time.Since(c.record.Began)
	outcome := upstream.OK
	if c.response.Status >= 500 {
		outcome = upstream.ServerError
	}
	if wait, again := c.mayRetryAnswer(b); again {
		c.dropResponse(conn)
		return attempted{failure: refused, settled: true, wait: wait, outcome: outcome}
	}
	return c.conclude(b, lane, conn, ran, outcome)
}

// connectTime bounds making a connection: as the rule says, and as long as an
// attempt may take. 0 is the default.
func (c *client) connectTime(b *binding) time.Duration {
	wait := b.times.connect
	if retry := c.x.Retry; retry != nil && retry.AttemptTimeout > 0 && (wait == 0 || retry.AttemptTimeout < wait) {
		wait = retry.AttemptTimeout
	}
	return wait
}

// errInterim is why an endpoint is given up that sends interim responses only.
var errInterim = errors.New("too many interim responses")

// errAttempt is why an attempt was given up.
var errAttempt = errors.New("the attempt's timeout is over")

// await sends the request and reads the head of the final answer, in the time
// that an attempt may take.
func (c *client) await(b *binding, lane *target, conn *upstream.Conn) error {
	if c.x.Retry == nil || c.x.Retry.AttemptTimeout == 0 {
		return c.sendAndRead(b, lane, conn)
	}
	left := max(c.x.Retry.AttemptTimeout-(time.Since(c.record.Began)-c.tried), time.Millisecond)
	timer := time.AfterFunc(left, func() { conn.NetConn().Close() })
	err := c.sendAndRead(b, lane, conn)
	if !timer.Stop() {
		return errAttempt
	}
	return err
}

func (c *client) sendAndRead(b *binding, lane *target, conn *upstream.Conn) error {
	if err := c.send(b, lane, conn); err != nil {
		return err
	}
	for interim := 0; ; interim++ {
		err := conn.Reader.ReadResponse(&c.response, c.forward.RequestInfo(&c.head), conn.Limits)
		for errors.Is(err, h1.ErrIdle) && c.waitsOn(conn) {
			err = conn.Reader.ReadResponse(&c.response, c.forward.RequestInfo(&c.head), conn.Limits)
		}
		switch {
		case err != nil:
			return err
		case !c.response.Interim():
			return nil
		case interim == h1.MaxInterim:
			return errInterim
		}
		c.passInterim()
	}
}

// conclude passes an answer on, in the form that the rule's policies give to it.
func (c *client) conclude(b *binding, lane *target, conn *upstream.Conn, ran int, outcome upstream.Outcome) attempted {
	c.record.Response, c.record.Reason = &c.response, ""
	if c.response.Status == 101 {
		c.stick(b, lane)
		b.chain.Response(&c.x, ran, c.response.Status)
		c.switchProtocols(conn)
		return attempted{outcome: outcome}
	}
	if c.x.BufferResponse > 0 {
		if answer := c.holdResponse(conn); answer != nil {
			conn.Close()
			c.up.stop(c)
			c.record.Response = nil
			return attempted{answer: answer, outcome: outcome}
		}
	}
	if len(c.x.Pages) > 0 {
		c.page = c.pageFor(c.response.Status)
	}
	c.stick(b, lane)
	b.chain.Response(&c.x, ran, c.response.Status)
	if c.page == nil && c.x.Compression != nil {
		c.encoder = c.x.Compression.Encoder(&c.x, &c.response)
	}
	keep, clean := c.pass(conn)
	c.reusable = clean && c.response.Reusable
	return attempted{keep: keep, outcome: outcome}
}

// failed judges an attempt that brought no answer.
func (c *client) failed(b *binding, conn *upstream.Conn, err error) attempted {
	if c.departed || c.from.Gone != nil && c.from.Gone.Err() != nil {
		c.record.Reason = "the client has left"
		return attempted{outcome: upstream.Cancelled}
	}
	if b.times.total > 0 && time.Since(c.record.Began) >= b.times.total {
		c.record.Reason = "the rule's total timeout is over"
		return attempted{answer: timedOut, outcome: upstream.TimedOut}
	}
	var write *h1.WriteError
	if c.up.err != nil && !errors.As(c.up.err, &write) {
		// The client's body broke off, which is not the endpoint's fault.
		c.record.Reason = c.up.err.Error()
		return attempted{answer: brokenBody(c.up.err), outcome: upstream.Cancelled}
	}
	c.record.Reason = err.Error()
	if errors.Is(err, h1.ErrIdle) || errors.Is(err, errAttempt) || isTimeout(err) {
		return attempted{answer: timedOut, failure: overdue, outcome: upstream.TimedOut}
	}
	result := attempted{answer: badGateway, failure: broken, outcome: upstream.Reset}
	unseen := errors.Is(err, upstream.ErrRefused) // the endpoint says so itself
	if c.replayable() && (unseen || idempotent(c.head.MethodID)) && conn.Reused() && beforeFirstByte(err) {
		// It had died of age, which says nothing about the endpoint.
		result.stale, result.outcome = true, upstream.Cancelled
	}
	return result
}

// unavailable is the answer when no endpoint could be chosen.
func unavailable(err error) *filter.LocalResponse {
	var overload *upstream.OverloadError
	if !errors.As(err, &overload) {
		return noEndpoint
	}
	return later("Overloaded", overload.RetryAfter)
}

// later is 503 with the time after which to try again.
func later(reason string, after time.Duration) *filter.LocalResponse {
	answer := &filter.LocalResponse{Status: 503, Reason: reason}
	seconds := max(1, int64(after.Round(time.Second)/time.Second))
	if edit, err := h1.SetField("Retry-After", strconv.FormatInt(seconds, 10)); err == nil {
		answer.Edits = []h1.Edit{edit}
	}
	return answer
}

// brokenBody is the answer to a body that could not be read to its end, nil for
// a client that is gone.
func brokenBody(err error) *filter.LocalResponse {
	var fault h1.Fault
	switch {
	case errors.Is(err, h1.ErrBodyTooLarge):
		return tooLarge
	case errors.Is(err, errMemory):
		return later("BuffersFull", time.Second)
	case errors.As(err, &fault):
		return &filter.LocalResponse{Status: fault.Status(), Reason: fault.Error()}
	}
	return nil
}

// beforeFirstByte reports whether a connection ended without any answer, as
// one does that the endpoint closed while it was idle.
func beforeFirstByte(err error) bool {
	var write *h1.WriteError
	return errors.Is(err, io.EOF) || errors.As(err, &write) || errors.Is(err, os.ErrClosed) || errors.Is(err, net.ErrClosed) || isReset(err)
}

func idempotent(method h1.Method) bool {
	switch method {
	case h1.MethodGet, h1.MethodHead, h1.MethodPut, h1.MethodDelete, h1.MethodOptions, h1.MethodTrace:
		return true
	}
	return false
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
