package proxy

import (
	"errors"
	"os"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/upstream"
)

// uploadGrace is how long an answer waits for the end of the upload before it
// counts as early.
const uploadGrace = 10 * time.Millisecond

// stopPeriod is how often an upload is told to end that does not.
const stopPeriod = 10 * time.Millisecond

// sending is the state of a request's body on its way to the endpoint.
type sending struct {
	streaming bool // the body is taken from the client while it is sent
	done      chan error
	ended     bool
	err       error
}

// send writes the request. A body that is here goes with its head; one that is
// not, or is large, is sent beside the caller, because the answer may come first.
func (c *client) send(b *binding, lane *target, conn *upstream.Conn) error {
	transport := lane.lease.Transport()
	c.forward = h1.ForwardPlan{Peer: c.peer, Edits: c.x.RequestEdits, Host: transport.Host}
	if transport.HostOfEndpoint {
		c.forward.Host = lane.lease.Endpoint().Address()
	}
	c.forward.Upgrade = c.head.Upgrade() != nil && c.head.Framing == h1.NoBody && !c.stream
	if c.held != nil {
		c.forward.Framing, c.forward.Length = h1.Fixed, c.held.size
	}
	c.setTarget(&c.forward)
	var err error
	if c.outgoing, err = c.forward.AppendTo(c.outgoing[:0], &c.head); err != nil {
		return err
	}
	switch {
	case c.held != nil:
		return c.sendHeld(conn)
	case c.head.Framing == h1.NoBody:
		return conn.Reader.DeferWrite(conn.Writer, c.outgoing)
	}
	c.up.streaming = true
	if err := c.allowBody(); err != nil {
		return err
	}
	relayed := c.head.Framing == h1.Chunked && b.chain.Guarded() || len(c.copies) > 0
	c.upload.Reset(c.head.Framing, c.head.Length, relayed, c.limits)
	c.transfer = h1.Transfer{From: c.reader, To: conn.Writer, Head: c.outgoing, Body: &c.upload, Most: c.x.MaxBody}
	switch {
	case relayed:
		c.relay = relay{to: conn.Writer, chunked: c.head.Framing == h1.Chunked, copy: c.copied}
		c.transfer.To, c.transfer.Head = c.upDrain.into(&c.relay, c.proxy.cfg.Pool), nil
		c.sendBeside(conn, func() error { return c.runRelay(b) })
	case c.head.Framing == h1.Fixed && c.head.Length <= int64(len(c.reader.Unread())):
		c.up.ended = true
		c.up.err = c.transfer.Run()
		return c.up.err
	default:
		c.sendBeside(conn, c.transfer.Run)
	}
	return nil
}

// setTarget says what the backend is asked for, when a filter changed it.
func (c *client) setTarget(plan *h1.ForwardPlan) {
	if c.x.Rewritten() {
		c.target = c.x.AppendTarget(c.target[:0])
		plan.Target = c.target
	}
}

// sendBeside sends a body while the caller waits for the answer.
func (c *client) sendBeside(conn *upstream.Conn, run func() error) {
	done := make(chan error, 1)
	c.up.done = done
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

// sendHeld sends a body that is in memory.
func (c *client) sendHeld(conn *upstream.Conn) error {
	run := func() error {
		if err := conn.Writer.Queue(c.outgoing); err != nil {
			return err
		}
		if err := c.held.each(conn.Writer.Queue); err != nil {
			return err
		}
		return conn.Writer.Flush()
	}
	if c.held.size > largePiece {
		c.sendBeside(conn, run)
		return nil
	}
	return run()
}

// allowBody tells a client that waits for it to send its body, once.
func (c *client) allowBody() error {
	if !c.head.ExpectContinue || c.continued {
		return nil
	}
	c.continued = true
	_, err := c.writer.Write(normalize.Bytes(h1.Continue))
	return err
}

// stop ends an upload that goes on, and waits for it. The connection to the
// endpoint has been closed by then.
func (s *sending) stop(c *client) {
	if s.done == nil || s.ended {
		return
	}
	s.ended = true
	select {
	case s.err = <-s.done:
		return
	default:
	}
	if !s.streaming {
		s.err = <-s.done
		return
	}
	again := time.NewTicker(stopPeriod)
	defer again.Stop()
	for {
		// It may be waiting for the client, whose connection ends after this. If it
		// is just about to wait, it sets a deadline of its own after this one.
		_ = c.net.SetReadDeadline(time.Unix(1, 0))
		select {
		case s.err = <-s.done:
			return
		case <-again.C:
		}
	}
}

// finished reports whether the whole body has been sent. An endpoint can be
// quicker with its answer than we are with noticing that we sent the last byte,
// so that is waited for a moment.
func (s *sending) finished(grace time.Duration) bool {
	if s.done == nil || s.ended {
		return s.err == nil
	}
	select {
	case s.err = <-s.done:
		s.ended = true
		return s.err == nil
	default:
	}
	if grace == 0 {
		return false
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case s.err = <-s.done:
		s.ended = true
		return s.err == nil
	case <-timer.C:
		return false
	}
}

// replayable reports whether the request can be sent once more: none of its
// body has left, or all of it is in memory.
func (c *client) replayable() bool {
	return c.held != nil || !c.up.streaming || c.head.Framing == h1.Fixed && c.head.Length == 0
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
			// Too large for a copy, or there is no room: the request goes on.
			r.copy.invalid = true
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

// runRelay passes a body on piece by piece. Trailers that are named like a
// header that filters remove or set end here.
func (c *client) runRelay(b *binding) error {
	if _, err := c.relay.to.Write(c.outgoing); err != nil {
		return err
	}
	if err := c.transfer.Run(); err != nil || !c.relay.chunked {
		return err
	}
	last := append(c.lastChunk[:0], "0\r\n"...)
	trailers := &c.upload.Trailers
	for i := range trailers.Len() {
		if b.chain.Guards(trailers.Name(i)) {
			continue
		}
		last = append(last, trailers.Name(i)...)
		last = append(last, ": "...)
		last = append(last, trailers.Value(i)...)
		last = append(last, "\r\n"...)
	}
	c.lastChunk = append(last, "\r\n"...)
	_, err := c.relay.to.Write(c.lastChunk)
	return err
}

// holdRequest reads the body where the rule buffers it. A body that a filter had
// read is held to the limits of all filters once more.
func (c *client) holdRequest() (answer *filter.LocalResponse) {
	if c.x.BufferRequest > 0 {
		_, answer = c.BufferBody(c.x.BufferRequest)
	} else if c.held != nil && c.x.MaxBody > 0 && c.held.size > c.x.MaxBody {
		answer = tooLarge
	}
	return answer
}

// BufferBody implements [filter.Owner]: it reads the request's body into memory,
// for a filter or because the rule buffers it. What is held already is held to
// the limit too. The trailers of such a body are dropped: it has a length now.
func (c *client) BufferBody(most int64) (filter.BufferedBody, *filter.LocalResponse) {
	if c.x.MaxBody > 0 {
		most = min(most, c.x.MaxBody)
	}
	switch {
	case c.held != nil && c.held.size > most, c.head.Framing == h1.Fixed && c.head.Length > most:
		return nil, tooLarge
	case c.held != nil:
		return c.held, nil
	case c.head.Framing == h1.NoBody:
		return nil, nil
	}
	body := c.proxy.memory.hold(most)
	err := c.allowBody()
	if err == nil {
		c.upload.Reset(c.head.Framing, c.head.Length, true, c.limits)
		c.transfer = h1.Transfer{From: c.reader, To: c.upDrain.into(body, c.proxy.cfg.Pool), Body: &c.upload}
		err = c.transfer.Run()
	}
	if err != nil {
		body.release()
		c.record.Reason = err.Error()
		if answer := brokenBody(err); answer != nil {
			return nil, answer
		}
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, h1.ErrTooSlow) {
			return nil, &filter.LocalResponse{Status: 408, Reason: "BodyTooSlow"}
		}
		return nil, &filter.LocalResponse{Status: 400, Reason: "BodyBroken"}
	}
	c.record.Received = body.size
	c.held = body
	return body, nil
}
