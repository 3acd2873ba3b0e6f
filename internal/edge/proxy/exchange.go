package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/upstream"
)

// maxAttempts is how many endpoints are tried for a request of which nothing
// has been sent, or that may be sent twice.
const maxAttempts = 3

// uploadGrace is how long an answer waits for the end of the upload before it
// counts as early.
const uploadGrace = 10 * time.Millisecond

// The answers that need no rule.
var (
	noProgram  = &filter.Answer{Status: 503, Reason: "NotReady"}
	noRoute    = &filter.Answer{Status: 404, Reason: "NoRoute"}
	noEndpoint = &filter.Answer{Status: 503, Reason: "NoEndpoint"}
	badGateway = &filter.Answer{Status: 502, Reason: "BadGateway"}
	timedOut   = &filter.Answer{Status: 504, Reason: "GatewayTimeout"}
	tooLarge   = &filter.Answer{Status: 413, Reason: "BodyTooLarge"}
)

// exchange answers the request whose head was read: it finds the rule, runs
// its filters, forwards or answers, and tells the observer. It reports whether
// the connection can take another request.
func (c *client) exchange() (keep bool) {
	now := time.Now()
	uri := &c.head.URI
	c.request = program.Request{
		EntryPoint: c.from.EntryPoint,
		TLS:        c.from.TLS,
		Host:       normalize.View(uri.Host),
		Path:       normalize.View(uri.Path),
		Method:     normalize.View(c.head.Method()),
		Query:      normalize.View(uri.Query),
		Header:     c,
	}
	c.record = Record{
		EntryPoint: c.from.EntryPoint, Client: c.from.Client.Addr(), TLS: c.from.TLS, Began: now,
		Method: c.request.Method, Host: c.request.Host, Path: c.request.Path,
	}
	defer c.observe()
	c.x.Begin(&c.head, 0)
	compiled := c.proxy.program.Load()
	if compiled == nil {
		return c.answer(noProgram)
	}
	found := compiled.Lookup(&c.request)
	if found.Rule == nil {
		return c.answer(noRoute)
	}
	c.record.Rule = found.Rule
	b := found.Binding.(*binding)
	if b.refused != nil {
		return c.answer(b.refused)
	}
	if b.chain.Empty() {
		return c.fulfil(b, 0)
	}
	c.x.Begin(&c.head, b.chain.Marks())
	return c.filtered(b, now)
}

// filtered runs the filters around the rest.
func (c *client) filtered(b *binding, now time.Time) (keep bool) {
	c.x.Now = now
	c.x.Client = c.clientAddress()
	c.x.TLS = c.from.TLS
	c.x.ServerPort = c.from.Local.Port()
	ran, answer := b.chain.Request(&c.x)
	defer b.chain.Done(&c.x, ran)
	if answer != nil {
		b.chain.Response(&c.x, ran, answer.Status)
		return c.answer(answer)
	}
	return c.fulfil(b, ran)
}

// fulfil gives what the rule promises: its own response, or a backend's.
func (c *client) fulfil(b *binding, ran int) (keep bool) {
	answer := b.response
	if answer == nil {
		handle := b.targets.next()
		keep, answer = c.ask(b, handle, ran)
	}
	if answer == nil {
		return keep
	}
	b.chain.Response(&c.x, ran, answer.Status)
	return c.answer(answer)
}

// ask forwards the request, to another endpoint when one fails in a way that
// allows it. It returns an answer when no endpoint gave one.
func (c *client) ask(b *binding, handle *upstream.Handle, ran int) (keep bool, answer *filter.Answer) {
	choice := c.choice(handle)
	fresh := false
	if b.times.idle > 0 {
		defer c.setIdle(b.times.idle)()
	}
	for attempt := 1; ; attempt++ {
		lease, err := handle.Pick(choice)
		if err != nil {
			c.record.Reason = err.Error()
			return false, unavailable(err)
		}
		c.record.Attempts = attempt
		endpoint := lease.Endpoint()
		result := c.attempt(b, &lease, fresh, ran)
		lease.Done(result.outcome)
		if result.answer == nil || !result.again || attempt == maxAttempts {
			return result.keep, result.answer
		}
		// A pooled connection that died says nothing about its endpoint: the
		// same one is asked again, on a new connection.
		fresh = result.stale
		if !result.stale {
			choice.Avoid = endpoint
		}
	}
}

// setIdle bounds the waits for the client's side of a body. What it returns
// restores the entry point's own bounds.
func (c *client) setIdle(idle time.Duration) (restore func()) {
	own := c.proxy.cfg.Timeouts
	times := own
	times.Body, times.Write = idle, idle
	c.reader.SetTimeouts(times)
	c.writer.SetTimeouts(times)
	return func() {
		c.reader.SetTimeouts(own)
		c.writer.SetTimeouts(own)
	}
}

// left is a wait, cut to what is left of the rule's total; at least a moment,
// because 0 means the default. Without a wait it is all that is left.
func (c *client) left(b *binding, wait time.Duration) time.Duration {
	if b.times.total == 0 {
		return wait
	}
	left := max(b.times.total-time.Since(c.record.Began), time.Millisecond)
	if wait == 0 {
		return left
	}
	return min(wait, left)
}

// attempted is how one attempt ended: with the endpoint's answer passed on, or
// with an answer to give in its place.
type attempted struct {
	keep    bool
	answer  *filter.Answer
	again   bool // nothing was passed on, and the request may be sent again
	stale   bool // a pooled connection had died
	outcome upstream.Outcome
}

// attempt sends the request to one endpoint and passes its answer on.
func (c *client) attempt(b *binding, lease *upstream.Lease, fresh bool, ran int) attempted {
	conn, err := lease.Connect(context.Background(), c.left(b, b.times.connect), fresh)
	if err != nil {
		c.record.Reason = err.Error()
		answer := badGateway
		if isTimeout(err) {
			answer = timedOut
		}
		return attempted{answer: answer, again: true, outcome: upstream.ConnectFailed}
	}
	c.record.Endpoint = lease.Endpoint().Address()
	conn.SetTimeouts(b.times.header, b.times.idle)
	if b.times.total > 0 {
		// Closing the connection ends every wait of this attempt.
		defer time.AfterFunc(c.left(b, 0), func() { conn.NetConn().Close() }).Stop()
	}
	up := sending{}
	if err := c.send(lease, conn, &up); err != nil {
		conn.Close()
		up.stop(c)
		return c.failed(b, conn, &up, err)
	}
	for interim := 0; ; interim++ {
		asked := c.forward.Asked(&c.head)
		if err := conn.Reader.ReadResponse(&c.response, asked, conn.Limits); err != nil || interim > h1.MaxInterim {
			conn.Close()
			up.stop(c)
			return c.failed(b, conn, &up, err)
		}
		if !c.response.Interim() {
			break
		}
		c.passInterim()
	}
	lease.Answered()
	outcome := upstream.OK
	if c.response.Status >= 500 {
		outcome = upstream.ServerError
	}
	c.stick(lease)
	b.chain.Response(&c.x, ran, c.response.Status)
	if c.response.Status == 101 {
		c.switchProtocols(conn)
		return attempted{outcome: outcome}
	}
	keep, clean := c.pass(conn, &up)
	if clean && c.response.Reusable {
		conn.Release()
	} else {
		conn.Close()
	}
	return attempted{keep: keep, outcome: outcome}
}

// sending is the state of a request's body on its way to the endpoint.
type sending struct {
	began bool // some of the body has been taken from the client
	done  chan error
	ended bool
	err   error
}

// send writes the request. A body that has arrived goes with its head; one
// that has not is sent beside the caller, because the answer may come first.
func (c *client) send(lease *upstream.Lease, conn *upstream.Conn, up *sending) error {
	transport := lease.Transport()
	c.forward = h1.ForwardPlan{Peer: c.peer, Edits: c.x.RequestEdits, Host: transport.Host}
	if transport.HostOfEndpoint {
		c.forward.Host = lease.Endpoint().Address()
	}
	c.forward.Upgrade = c.head.Upgrade() != nil && c.head.Framing == h1.NoBody
	if c.x.Rewritten() {
		c.target = c.x.AppendTarget(c.target[:0])
		c.forward.Target = c.target
	}
	var err error
	if c.outgoing, err = c.forward.AppendTo(c.outgoing[:0], &c.head); err != nil {
		return err
	}
	if c.head.Framing == h1.NoBody {
		_, err := conn.Writer.Write(c.outgoing)
		return err
	}
	if c.head.ExpectContinue {
		if _, err := c.writer.Write(normalize.Bytes(h1.Continue)); err != nil {
			return err
		}
	}
	c.upload.Reset(c.head.Framing, c.head.Length, false, &c.proxy.cfg.Limits)
	transfer := h1.Transfer{From: c.reader, To: conn.Writer, Head: c.outgoing, Body: &c.upload, Most: c.x.MaxBody}
	up.began = true
	if c.head.Framing == h1.Fixed && c.head.Length <= int64(len(c.reader.Unread())) {
		up.ended = true
		up.err = transfer.Run()
		return up.err
	}
	up.done = make(chan error, 1)
	go func() {
		err := transfer.Run()
		var write *h1.WriteError
		if err != nil && !errors.As(err, &write) {
			// The client broke off: the endpoint must not take this for the end.
			conn.NetConn().Close()
		}
		up.done <- err
	}()
	return nil
}

// stop ends an upload that goes on, and waits for it. The connection to the
// endpoint has been closed by then.
func (s *sending) stop(c *client) {
	if s.done == nil || s.ended {
		return
	}
	select {
	case s.err = <-s.done:
	default:
		// It may be waiting for the client, whose connection ends after this.
		_ = c.net.SetReadDeadline(time.Unix(1, 0))
		s.err = <-s.done
	}
	s.ended = true
}

// finished reports whether the whole body has been sent. An endpoint can be
// quicker with its answer than we are with noticing that we sent the last byte,
// so that is waited for a moment.
func (s *sending) finished() bool {
	if s.done != nil && !s.ended {
		grace := time.NewTimer(uploadGrace)
		defer grace.Stop()
		select {
		case s.err = <-s.done:
			s.ended = true
		case <-grace.C:
			return false
		}
	}
	return !s.began || s.ended && s.err == nil
}

// failed judges an attempt that brought no answer.
func (c *client) failed(b *binding, conn *upstream.Conn, up *sending, err error) attempted {
	if b.times.total > 0 && time.Since(c.record.Began) >= b.times.total {
		c.record.Reason = "the rule's total timeout is over"
		return attempted{answer: timedOut, outcome: upstream.TimedOut}
	}
	var write *h1.WriteError
	if up.err != nil && !errors.As(up.err, &write) {
		// The client's body broke off, which is not the endpoint's fault.
		c.record.Reason = up.err.Error()
		return attempted{answer: brokenBody(up.err), outcome: upstream.Cancelled}
	}
	if err == nil {
		err = errors.New("too many interim responses")
	}
	c.record.Reason = err.Error()
	if errors.Is(err, h1.ErrIdle) || isTimeout(err) {
		return attempted{answer: timedOut, outcome: upstream.TimedOut}
	}
	again := !up.began && idempotent(c.head.MethodID)
	if again && conn.Reused() && beforeFirstByte(err) {
		// It had died of age, which says nothing about the endpoint.
		return attempted{answer: badGateway, again: true, stale: true, outcome: upstream.Cancelled}
	}
	return attempted{answer: badGateway, again: again, outcome: upstream.Reset}
}

// unavailable is the answer when no endpoint could be chosen.
func unavailable(err error) *filter.Answer {
	var overload *upstream.OverloadError
	if !errors.As(err, &overload) {
		return noEndpoint
	}
	answer := &filter.Answer{Status: 503, Reason: "Overloaded"}
	seconds := max(1, int64(overload.RetryAfter.Round(time.Second)/time.Second))
	if edit, err := h1.SetField("Retry-After", strconv.FormatInt(seconds, 10)); err == nil {
		answer.Edits = []h1.Edit{edit}
	}
	return answer
}

// brokenBody is the answer to a body that could not be read to its end, nil for
// a client that is gone.
func brokenBody(err error) *filter.Answer {
	var fault h1.Fault
	switch {
	case errors.Is(err, h1.ErrBodyTooLarge):
		return tooLarge
	case errors.As(err, &fault):
		return &filter.Answer{Status: fault.Status(), Reason: fault.Error()}
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
