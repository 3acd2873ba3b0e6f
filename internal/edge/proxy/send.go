package proxy

import (
	"errors"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
)

const (
	// uploadGrace is how long a response waits for the end of the upload before
	// it counts as early.
	uploadGrace = 10 * time.Millisecond
	// stopPeriod is how often an upload is interrupted that does not end.
	stopPeriod = 10 * time.Millisecond
)

// upload is the state of a request's body on its way to the endpoint. The
// goroutine that runs the upload reports through done, and only then may its
// buffers be used again: see stop and finished.
type upload struct {
	streaming bool // the body is read from the client while it is sent
	done      chan error
	ended     bool
	err       error
}

// send writes the request. A body that has arrived goes with its head, if the endpoint takes
// it; one that has not, or is large, is sent by a goroutine of its own, because the
// response may come first.
func (a *attempt) send() error {
	x, c := a.x, a.x.conn
	if err := a.composeHead(); err != nil {
		return err
	}
	switch {
	case x.body != nil:
		return a.sendBuffered()
	case c.head.Framing == h1.NoBody:
		return a.upstream.Reader.DeferWrite(a.upstream.Writer, c.buffers.requestHead)
	}
	a.upload.streaming = true
	if err := x.sendContinue(); err != nil {
		return err
	}
	size, arrived := c.arrivedBody()
	body := &c.buffers.requestBody
	relayed := c.head.Framing == h1.Chunked && x.rule.chain.Guarded() || len(x.mirrors) > 0
	body.Reset(c.head.Framing, c.head.Length, relayed, c.limits)
	a.transfer = h1.Transfer{From: c.reader, To: a.upstream.Writer, Head: c.buffers.requestHead, Body: body, Most: x.filters.MaxBody}
	run := a.transfer.Run
	if relayed {
		a.relay = relay{to: a.upstream.Writer, chunked: c.head.Framing == h1.Chunked, copy: x.mirrorBody}
		a.transfer.To, a.transfer.Head = c.buffers.requestSink.to(&a.relay, c.proxy.cfg.Pool), nil
		run = a.runRelay
	}
	if arrived && a.upstream.Takes(size) {
		a.upload.ended = true
		a.upload.err = run()
		return a.upload.err
	}
	a.sendInBackground(run)
	return nil
}

// arrival is a stream that knows how much of its body has come, and whether that is all.
type arrival interface {
	Arrived() (size int64, all bool)
}

// arrivedBody reports whether the whole body is in memory and small, and returns its size, or a bit
// more: sending it waits for nothing but the endpoint.
func (c *conn) arrivedBody() (size int, arrived bool) {
	if stream, ok := c.net.(arrival); ok {
		size, all := stream.Arrived()
		return int(size), all && size <= largePiece
	}
	unread := c.reader.Unread()
	if c.head.Framing == h1.Fixed {
		return int(c.head.Length), c.head.Length <= int64(len(unread))
	}
	body := &c.buffers.requestBody
	body.Reset(c.head.Framing, c.head.Length, true, c.limits)
	for rest := unread; !body.Done(); {
		_, used, err := body.Next(rest)
		if err != nil || used == 0 {
			return 0, false
		}
		rest = rest[used:]
	}
	return len(unread), true
}

// composeHead writes the head for the backend into the connection's buffer.
func (a *attempt) composeHead() error {
	x, c := a.x, a.x.conn
	transport := a.target.lease.Transport()
	a.forward = h1.ForwardPlan{Peer: c.peer, Edits: x.filters.RequestEdits, Host: transport.Host}
	if transport.HostOfEndpoint {
		a.forward.Host = a.target.lease.Endpoint().Address()
	}
	if host := x.filters.Host(); host != "" {
		a.forward.Host = host
	}
	a.forward.Upgrade = c.head.Upgrade() != nil && c.head.Framing == h1.NoBody && !c.stream
	if x.body != nil {
		a.forward.Framing, a.forward.Length = h1.Fixed, x.body.size
	}
	x.setTarget(&a.forward)
	var err error
	c.buffers.requestHead, err = a.forward.AppendTo(c.buffers.requestHead[:0], &c.head)
	return err
}

// setTarget puts the request target into a plan, when a filter rewrote it.
func (x *exchange) setTarget(plan *h1.ForwardPlan) {
	if x.filters.Rewritten() {
		target := &x.conn.buffers.target
		*target = x.filters.AppendTarget((*target)[:0])
		plan.Target = *target
	}
}

// sendInBackground sends a body while the caller waits for the response.
func (a *attempt) sendInBackground(run func() error) {
	a.x.leave()
	conn, done := a.upstream, make(chan error, 1)
	a.upload.done = done
	go func() {
		err := run()
		var write *h1.WriteError
		if err != nil && !errors.As(err, &write) {
			// The client broke off: the endpoint must not take this for the end.
			conn.NetConn().Close()
		}
		done <- err
	}()
}

// sendBuffered sends a body that is in memory.
func (a *attempt) sendBuffered() error {
	body, writer, head := a.x.body, a.upstream.Writer, a.x.conn.buffers.requestHead
	run := func() error {
		if err := writer.Queue(head); err != nil {
			return err
		}
		if err := body.Each(writer.Queue); err != nil {
			return err
		}
		return writer.Flush()
	}
	if body.size > largePiece {
		a.sendInBackground(run)
		return nil
	}
	return run()
}

// stop ends an upload that is still running, and waits for it. The connection to
// the endpoint has been closed by then, so only a read from the client can hold
// the upload up.
func (u *upload) stop(c *conn) {
	if u.done == nil || u.ended {
		return
	}
	u.ended = true
	select {
	case u.err = <-u.done:
		return
	default:
	}
	if !u.streaming {
		u.err = <-u.done
		return
	}
	again := time.NewTicker(stopPeriod)
	defer again.Stop()
	for {
		// The client's connection ends after this, so its deadline may be spoilt. An
		// upload that is just about to wait sets its own deadline after this one:
		// hence the ticker.
		_ = c.net.SetReadDeadline(time.Unix(1, 0))
		select {
		case u.err = <-u.done:
			return
		case <-again.C:
		}
	}
}

// finished reports whether the whole body has been sent. An endpoint can respond
// before the upload has reported its last byte, so finished waits for that up to
// grace.
func (u *upload) finished(grace time.Duration) bool {
	if u.done == nil || u.ended {
		return u.err == nil
	}
	select {
	case u.err = <-u.done:
		u.ended = true
		return u.err == nil
	default:
	}
	if grace == 0 {
		return false
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case u.err = <-u.done:
		u.ended = true
		return u.err == nil
	case <-timer.C:
		return false
	}
}

// relay passes the data of a body on, in the framing that it came with, and
// keeps a copy for mirrors.
type relay struct {
	to      *h1.Writer
	chunked bool
	copy    *bufferedBody
}

// Write passes one piece on.
func (r *relay) Write(piece []byte) (int, error) {
	if r.copy != nil {
		if _, err := r.copy.Write(piece); err != nil {
			// Too large for a copy, or out of memory: the request itself goes on, and a
			// stream can go on for hours.
			r.copy.invalidate()
			r.copy = nil
		}
	}
	if !r.chunked {
		return r.to.Write(piece)
	}
	if err := r.to.QueueChunk(piece); err != nil {
		return 0, err
	}
	return len(piece), r.to.Flush()
}

// runRelay passes a body on piece by piece. Trailers named like a header that
// filters remove or set are dropped: many backends merge trailers into headers.
func (a *attempt) runRelay() error {
	buffers := &a.x.conn.buffers
	if _, err := a.relay.to.Write(buffers.requestHead); err != nil {
		return err
	}
	if err := a.transfer.Run(); err != nil || !a.relay.chunked {
		return err
	}
	last := append(buffers.requestEnd[:0], "0\r\n"...)
	trailers := &buffers.requestBody.Trailers
	for i := range trailers.Len() {
		if a.x.rule.chain.Guards(trailers.Name(i)) {
			continue
		}
		last = append(last, trailers.Name(i)...)
		last = append(last, ": "...)
		last = append(last, trailers.Value(i)...)
		last = append(last, "\r\n"...)
	}
	buffers.requestEnd = append(last, "\r\n"...)
	_, err := a.relay.to.Write(buffers.requestEnd)
	return err
}
