package proxy

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/upstream"
)

// handleResponse passes the endpoint's response on, in the form that the rule's
// policies give to it: buffered, replaced by an error page, or compressed.
func (a *attempt) handleResponse(outcome upstream.Outcome) attemptResult {
	x := a.x
	response := &x.conn.buffers.response
	x.record.Response, x.record.Reason = response, ""
	if response.Status == http.StatusSwitchingProtocols {
		a.setStickyCookie()
		x.rule.chain.Response(x.filters, x.ran, response.Status)
		a.countRevision(outcome) // not at the end of the tunnel, which can be hours away
		a.switchProtocols()
		return attemptResult{outcome: outcome}
	}
	if local := a.holdResponse(); local != nil {
		a.upstream.Close()
		a.upload.stop(x.conn)
		x.record.Response = nil
		return attemptResult{local: local, outcome: outcome}
	}
	if len(x.filters.Pages) > 0 {
		x.leave()
		x.page = x.fetchPage(response.Status)
	}
	a.setStickyCookie()
	x.rule.chain.Response(x.filters, x.ran, response.Status)
	if x.page == nil && x.filters.Compression != nil {
		if a.encoder = x.filters.Compression.Encoder(x.filters, response); a.encoder != nil {
			x.leave()
		}
	}
	keepAlive, clean := a.copyResponse()
	a.reusable = clean && response.Reusable
	return attemptResult{keepAlive: keepAlive, outcome: outcome}
}

// holdResponse reads the body of a response that must be complete, or inspected, before
// the client gets any of it. It returns the local response that takes its place.
func (a *attempt) holdResponse() *filter.LocalResponse {
	inspected := int64(0)
	if inspection := a.x.filters.Inspection; inspection != nil {
		var local *filter.LocalResponse
		if local, inspected = inspection.ResponseHead(&a.x.conn.buffers.response); local != nil {
			return local
		}
	}
	if a.x.filters.BufferResponse > 0 {
		if local := a.bufferResponse(); local != nil {
			return local
		}
	}
	if inspected > 0 {
		return a.inspectBody(inspected)
	}
	return nil
}

// copyResponse sends the endpoint's response to the client. keepAlive reports
// that the client's connection can go on, clean that the endpoint's can be used
// again.
func (a *attempt) copyResponse() (keepAlive, clean bool) {
	x, c := a.x, a.x.conn
	response := &c.buffers.response
	framing, reuse := h1.ResponseFraming(&c.head, response)
	transformed := x.page != nil || a.buffered != nil || a.encoder != nil
	length := response.Length
	if transformed {
		framing, length = a.transformedFraming()
		reuse = c.head.KeepAlive && framing != h1.UntilClose
	}
	// A response that comes before the end of the upload leaves bytes behind on
	// both sides: neither connection can be used again. Streams are full duplex,
	// so there the end of the response decides.
	grace := uploadGrace
	if c.stream {
		grace = 0
	}
	sent := a.upload.finished(grace)
	keepAlive = reuse && (sent || !a.upload.streaming) && !c.stream && c.proxy.keepsAlive()
	a.plan = h1.ResponsePlan{
		Edits: x.filters.ResponseEdits, Close: !keepAlive && !c.stream, Framing: framing, Length: length, Minor: c.head.Minor,
	}
	x.record.Status = response.Status
	var err error
	if !transformed {
		clean, err = a.sendWhole()
	}
	switch {
	case clean || err != nil:
	case transformed:
		clean, err = a.copyTransformed()
	case a.held != nil:
		clean, err = true, a.copyHeld()
	case response.Framing == h1.NoBody:
		c.buffers.responseHead = a.plan.AppendTo(c.buffers.responseHead[:0], response)
		_, err = c.writer.Write(c.buffers.responseHead)
		clean = true
	default:
		clean, err = true, a.copyBody()
	}
	return a.finishResponse(keepAlive && err == nil, clean && err == nil, err)
}

// responseSender is a stream that takes a parsed response, if that is complete and need not
// wait, and reports whether it did: most responses are short, and text of their heads
// would be parsed again.
type responseSender interface {
	SendResponse(plan *h1.ResponsePlan, head *h1.ResponseHead, body []byte) (sent bool, err error)
}

// sendWhole gives a response that has arrived as a whole to a stream, and reports whether
// the stream took it.
func (a *attempt) sendWhole() (sent bool, err error) {
	x, c := a.x, a.x.conn
	response, unread := &c.buffers.response, a.upstream.Reader.Unread()
	length := 0
	if c.sender == nil || a.held != nil {
		return false, nil
	}
	if response.Framing != h1.NoBody {
		if response.Framing != h1.Fixed || response.Length > int64(len(unread)) {
			return false, nil
		}
		length = int(response.Length)
	}
	sent, err = c.sender.SendResponse(&a.plan, response, unread[:length])
	if err != nil {
		err = &h1.WriteError{Err: err}
	}
	if sent {
		a.upstream.Reader.Discard(length)
		x.record.Sent, x.record.Origin = int64(length), int64(length)
	}
	return sent, err
}

// copyBody sends a response as it comes: what one read brings goes out in one
// write.
func (a *attempt) copyBody() error {
	x, c := a.x, a.x.conn
	response, body := &c.buffers.response, &c.buffers.responseBody
	c.buffers.responseHead = a.plan.AppendTo(c.buffers.responseHead[:0], response)
	framing := a.plan.Framing
	body.Reset(response.Framing, response.Length, framing != h1.Chunked, c.limits)
	transfer := h1.Transfer{
		From: a.upstream.Reader, To: c.writer, Head: c.buffers.responseHead, Body: body,
		Encode: framing == h1.Chunked && response.Framing != h1.Chunked,
	}
	err := transfer.Run()
	c.buffers.responseHead = transfer.Head
	x.record.Sent = body.Payload()
	x.record.Origin = x.record.Sent
	return err
}

// finishResponse ends an exchange whose response was passed on, or broke off
// with err. An upload that is still running is stopped: the endpoint has given
// its response without reading the rest.
func (a *attempt) finishResponse(keepAlive, clean bool, err error) (bool, bool) {
	x, c := a.x, a.x.conn
	if err != nil {
		x.record.Reason = err.Error()
		var write *h1.WriteError
		a.cutOff = !errors.As(err, &write)
	}
	sent := a.upload.finished(0)
	if !sent && c.stream && err == nil {
		sent = a.upload.finished(uploadGrace)
	}
	if !sent {
		a.upstream.NetConn().Close()
		a.upload.stop(c)
		keepAlive, clean = keepAlive && !a.upload.streaming, false
	}
	if a.upload.streaming {
		x.record.Received = c.buffers.requestBody.Payload()
		if !sent && err == nil {
			c.drainRead()
		}
	}
	return keepAlive, clean
}

// writeLocalResponse sends a response of the edge itself, in the form that error
// pages and the filters that ran give to it. It reports whether the connection
// can go on. A body that the client is sending is not read, so it cannot then.
func (x *exchange) writeLocalResponse(local *filter.LocalResponse) (keepAlive bool) {
	c := x.conn
	if len(x.filters.Pages) > 0 {
		x.leave()
		local = x.localPage(local)
	}
	if x.ran > 0 {
		x.rule.chain.Response(x.filters, x.ran, local.Status)
	}
	unread := c.head.Framing != h1.NoBody && x.body == nil
	keepAlive = c.head.KeepAlive && !unread && !c.stream && c.proxy.keepsAlive()
	if !x.sendLocalResponse(local, !keepAlive) {
		return false
	}
	if unread {
		c.drainRead()
	}
	return keepAlive
}

// sendLocalResponse composes a local response and writes it. A status of an
// error without a body gets a short text.
func (x *exchange) sendLocalResponse(local *filter.LocalResponse, last bool) bool {
	c := x.conn
	x.record.Status = local.Status
	if x.record.Reason == "" {
		x.record.Reason = local.Reason
	}
	body, contentType := local.Body, local.ContentType
	text := http.StatusText(local.Status)
	if body == nil && local.Status >= 400 {
		body, contentType = normalize.Bytes(text+"\n"), "text/plain; charset=utf-8"
	}
	out := append(c.buffers.responseHead[:0], "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(local.Status), 10)
	out = append(out, ' ')
	out = append(out, text...)
	out = append(out, "\r\nDate: "...)
	out = append(out, c.proxy.dateHeader(time.Now())...)
	if contentType != "" {
		out = append(out, "\r\nContent-Type: "...)
		out = append(out, contentType...)
	}
	if local.Status != http.StatusNoContent && local.Status != http.StatusNotModified {
		out = append(out, "\r\nContent-Length: "...)
		out = strconv.AppendInt(out, int64(len(body)), 10)
	}
	out = append(out, "\r\n"...)
	// One list: the edits of filters come later and win.
	c.buffers.edits = append(append(c.buffers.edits[:0], local.Edits...), x.filters.ResponseEdits...)
	out = h1.AppendEdits(out, c.buffers.edits)
	switch {
	case c.stream:
		// Streams end in their own protocol.
	case last:
		out = append(out, "Connection: close\r\n"...)
	case c.head.Minor == 0:
		out = append(out, "Connection: keep-alive\r\n"...)
	}
	out = append(out, "\r\n"...)
	if c.head.MethodID != h1.MethodHead {
		out = append(out, body...)
		x.record.Sent = int64(len(body))
	}
	c.buffers.responseHead = out
	_, err := c.writer.Write(out)
	return err == nil
}
