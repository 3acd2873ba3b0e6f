package proxy

import (
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

// The local responses in place of a backend's.
var (
	noEndpoint = &filter.LocalResponse{Status: 503, Reason: "NoEndpoint"}
	badGateway = &filter.LocalResponse{Status: 502, Reason: "BadGateway"}
	timedOut   = &filter.LocalResponse{Status: 504, Reason: "GatewayTimeout"}
)

// attempt is one try at one endpoint. It is part of its exchange; begin resets
// it by one assignment for the next try.
type attempt struct {
	x      *exchange
	target target
	start  time.Duration // after the start of the exchange, where the rule bounds attempts

	upstream *upstream.Conn // nil until connected, and after releaseUpstream
	reusable bool           // upstream ended its exchange cleanly
	// totalTimer closes upstream when the rule's timeout for the attempt or for all is
	// over; canceler or cancelHook do when the client of a stream has left.
	totalTimer *time.Timer
	canceler   canceler
	cancelHook func() bool

	// headerTimeout is how long the head of the response is waited for, waited
	// how much of that is over; clientGone ends the wait, and so does isOverdue, of
	// a canary.
	headerTimeout, waited time.Duration
	clientGone, isOverdue bool
	// counted is set once the attempt counts for its revision, cutOff if the
	// endpoint ended its response too early, and abandoned if the client has left
	// after it waited for long.
	counted, cutOff, abandoned bool

	upload   upload
	transfer h1.Transfer // of the request's body
	relay    relay
	forward  h1.ForwardPlan

	plan     h1.ResponsePlan
	buffered *bufferedBody   // the response's body, when it is in memory
	held     *bufferedBody   // its start, when that was inspected and the rest follows
	encoder  *filter.Encoder // compresses the response
}

// failure is why an attempt brought no response that was passed on.
type failure uint8

const (
	succeeded   failure = iota // the exchange is over, one way or the other
	unconnected                // there was no connection, so nothing was sent
	broken                     // the connection ended before the head of a response
	overdue                    // the head did not come in time
	refused                    // the status is one that the policy retries
)

// attemptResult is how an attempt ended: with the endpoint's response passed on,
// or with a local response in its place.
type attemptResult struct {
	keepAlive bool
	local     *filter.LocalResponse
	failure   failure
	stale     bool // a pooled connection had died
	outcome   upstream.Outcome
	// retry orders another attempt, after wait at least. The rule's budget has
	// paid for it.
	retry bool
	wait  time.Duration
}

// proxy forwards the request to a backend. It returns a local response when no
// endpoint gave one.
func (x *exchange) proxy() (keepAlive bool, local *filter.LocalResponse) {
	if trace := x.conn.proxy.cfg.Trace; trace != nil {
		if x.rule.chain.Empty() {
			x.describe()
		}
		x.finishTrace = trace(&x.record, x.filters)
	}
	x.proxied = time.Since(x.record.Began)
	if len(x.filters.Mirrors) > 0 {
		x.leave()
		x.mirror()
		defer x.mirrorStreamed()
	}
	if idle := x.rule.timeouts.idle; idle > 0 {
		defer x.conn.setIdleTimeout(idle)()
	}
	if x.filters.Retry != nil {
		if budget := x.rule.budget.Load(); budget != nil {
			budget.earn(time.Now())
		}
	}
	return x.proxyWithRetries()
}

// proxyWithRetries makes one attempt after the other, until one is the last. An
// attempt is the phases pick, send, receive and respond.
func (x *exchange) proxyWithRetries() (keepAlive bool, local *filter.LocalResponse) {
	a := &x.attempt
	fresh, rerouted := false, false
	err := a.pick()
	for {
		if errors.Is(err, upstream.ErrNoBackend) && !rerouted && x.reroute() {
			rerouted, err = true, a.pick()
		}
		if err != nil {
			x.record.Reason = err.Error()
			return false, unavailable(err)
		}
		x.record.Attempts++
		endpoint := a.target.lease.Endpoint()
		if revision := a.target.lease.Revision(); revision != nil {
			revision.Start()
		}
		result := a.run(fresh)
		a.countRevision(result.outcome)
		a.target.lease.Done(result.outcome)
		switch {
		case result.failure == succeeded:
			return result.keepAlive, result.local
		case result.stale && !fresh:
			// A pooled connection that had died is no sign about its endpoint: try
			// the same one again, on a new connection.
			fresh = true
		case result.retry || x.mayRetry(result.failure):
			if !x.backOff(result.wait) {
				return false, timedOut
			}
			fresh, a.target.options.Avoid = false, endpoint
			a.leaveCanary()
		default:
			return result.keepAlive, result.local
		}
		a.target.lease, err = a.target.handle.Pick(a.target.options)
	}
}

// run sends the request to the endpoint that was picked and passes its response
// on. A fresh attempt uses no pooled connection.
func (a *attempt) run(fresh bool) attemptResult {
	a.begin()
	x := a.x
	if err := a.connect(fresh); err != nil {
		x.record.Reason = err.Error()
		local := badGateway
		if isTimeout(err) {
			local = timedOut
		}
		return attemptResult{local: local, failure: unconnected, outcome: upstream.ConnectFailed}
	}
	if err := a.sendAndReceive(); err != nil {
		a.upstream.Close()
		a.upload.stop(x.conn)
		return a.failed(err)
	}
	a.target.lease.ResponseStarted()
	x.record.Responded = time.Since(x.record.Began)
	outcome := upstream.OK
	if x.conn.buffers.response.Status >= 500 {
		outcome = upstream.ServerError
	}
	if wait, retry := a.mayRetryResponse(); retry {
		a.dropResponse()
		return attemptResult{failure: refused, retry: true, wait: wait, outcome: outcome}
	}
	if outcome == upstream.ServerError && a.mayRetryStable() {
		a.dropResponse()
		return attemptResult{failure: refused, retry: true, outcome: outcome}
	}
	return a.handleResponse(outcome)
}

// begin ends the use of the attempt before, if there was one, and resets
// everything but the target.
func (a *attempt) begin() {
	if a.x.record.Attempts > 1 {
		a.releaseUpstream()
		*a = attempt{x: a.x, target: a.target}
	}
	if a.x.filters.Retry != nil || a.x.rule.timeouts.attempt > 0 {
		a.start = time.Since(a.x.record.Began)
	}
}

// sendAndReceive sends the request and reads the head of the final response, in
// the time that an attempt may take.
func (a *attempt) sendAndReceive() error {
	var timer *time.Timer
	if retry := a.x.filters.Retry; retry != nil && retry.AttemptTimeout > 0 {
		left := max(retry.AttemptTimeout-(time.Since(a.x.record.Began)-a.start), time.Millisecond)
		timer = closeAfter(a.upstream, left)
	}
	err := a.send()
	if err == nil {
		err = a.receive()
	}
	if timer != nil && !timer.Stop() {
		return errAttemptTimeout
	}
	return err
}

// closeAfter closes a connection after a time, which ends every wait on it.
func closeAfter(conn *upstream.Conn, wait time.Duration) *time.Timer {
	return time.AfterFunc(wait, func() { conn.NetConn().Close() })
}

// errAttemptTimeout is why an attempt was given up.
var errAttemptTimeout = errors.New("the attempt's timeout is over")

// failed judges an attempt that brought no response. Only what is the endpoint's
// fault may be held against it: a client that left or broke off its body cancels
// the attempt.
func (a *attempt) failed(err error) attemptResult {
	x := a.x
	gone := x.conn.from.Gone
	if a.clientGone || gone != nil && gone.Err() != nil {
		x.record.Reason = "the client has left"
		a.abandoned = time.Since(x.record.Began)-x.record.Connected >= abandonedAfter
		return attemptResult{outcome: upstream.Cancelled}
	}
	if a.isOverdue {
		// Whether that is a fault of the canary shows at the stable revision.
		x.record.Reason = "the canary did not respond in time"
		return attemptResult{local: timedOut, failure: overdue, retry: true, outcome: upstream.Cancelled}
	}
	if total := x.rule.timeouts.total; total > 0 && time.Since(x.record.Began) >= total {
		x.record.Reason = "the rule's total timeout is over"
		return attemptResult{local: timedOut, outcome: upstream.TimedOut}
	}
	if attempt := x.rule.timeouts.attempt; attempt > 0 && time.Since(x.record.Began)-a.start >= attempt {
		x.record.Reason = errAttemptTimeout.Error()
		return attemptResult{local: timedOut, failure: overdue, outcome: upstream.TimedOut}
	}
	var write *h1.WriteError
	if a.upload.err != nil && !errors.As(a.upload.err, &write) {
		x.record.Reason = a.upload.err.Error()
		return attemptResult{local: brokenBody(a.upload.err), outcome: upstream.Cancelled}
	}
	x.record.Reason = err.Error()
	if errors.Is(err, h1.ErrIdle) || errors.Is(err, errAttemptTimeout) || isTimeout(err) {
		return attemptResult{local: timedOut, failure: overdue, outcome: upstream.TimedOut}
	}
	result := attemptResult{local: badGateway, failure: broken, outcome: upstream.Reset}
	unprocessed := errors.Is(err, upstream.ErrRefused) // the endpoint states so itself
	if a.replayable() && (unprocessed || idempotent(x.conn.head.MethodID)) && a.upstream.Reused() && beforeFirstByte(err) {
		// The connection had died of age, which is no sign about the endpoint.
		result.stale, result.outcome = true, upstream.Cancelled
	}
	return result
}

// replayable reports whether the request can be sent once more: none of its body
// has left, or all of it is in memory.
func (a *attempt) replayable() bool {
	head := &a.x.conn.head
	return a.x.body != nil || !a.upload.streaming || head.Framing == h1.Fixed && head.Length == 0
}

// releaseUpstream ends the use of the connection to the endpoint. The pool gets
// it back only after a clean exchange, and only if nothing is going to close it:
// a timer that can no longer be stopped may fire in the next exchange.
func (a *attempt) releaseUpstream() {
	if a.upstream == nil {
		return
	}
	if a.totalTimer != nil {
		a.reusable = a.totalTimer.Stop() && a.reusable
		a.totalTimer = nil
	}
	if a.canceler != nil {
		a.reusable = a.canceler.KeepOnCancel() && a.reusable
		a.canceler = nil
	}
	if a.cancelHook != nil {
		a.reusable = a.cancelHook() && a.reusable
		a.cancelHook = nil
	}
	if a.reusable {
		a.upstream.Release()
	} else {
		a.upstream.Close()
	}
	a.upstream, a.reusable = nil, false
}

// release ends the use of the endpoint and gives back the memory of the response.
func (a *attempt) release() {
	a.releaseUpstream()
	a.buffered.release()
	a.held.release()
	a.buffered, a.held = nil, nil
	if a.encoder != nil {
		a.encoder.Release()
		a.encoder = nil
	}
}

// remaining cuts a wait to the rest of the rule's total timeout; at least to a
// moment, because 0 means the default. Without a wait it returns all that is
// left.
func (x *exchange) remaining(wait time.Duration) time.Duration {
	total := x.rule.timeouts.total
	if total == 0 {
		return wait
	}
	left := max(total-time.Since(x.record.Began), time.Millisecond)
	if wait == 0 {
		return left
	}
	return min(wait, left)
}

// remaining returns what is left of the rule's timeout for an attempt, at least a
// moment; 0 without one.
func (a *attempt) remaining() time.Duration {
	limit := a.x.rule.timeouts.attempt
	if limit == 0 {
		return 0
	}
	return max(limit-(time.Since(a.x.record.Began)-a.start), time.Millisecond)
}

// endAttemptTimeout leaves the rule's total timeout alone: the response has come, and a
// tunnel is no part of it.
func (a *attempt) endAttemptTimeout() {
	if a.x.rule.timeouts.attempt == 0 {
		return
	}
	a.totalTimer.Stop()
	if a.totalTimer = nil; a.x.rule.timeouts.total > 0 {
		a.totalTimer = closeAfter(a.upstream, a.x.remaining(0))
	}
}

// unavailable is the response when no endpoint could be picked.
func unavailable(err error) *filter.LocalResponse {
	overload, ok := errors.AsType[*upstream.OverloadError](err)
	if !ok {
		return noEndpoint
	}
	return retryLater("Overloaded", overload.RetryAfter)
}

// retryLater is 503 with the time after which to try again.
func retryLater(reason string, after time.Duration) *filter.LocalResponse {
	local := &filter.LocalResponse{Status: 503, Reason: reason}
	seconds := max(1, int64(after.Round(time.Second)/time.Second))
	if edit, err := h1.SetField("Retry-After", strconv.FormatInt(seconds, 10)); err == nil {
		local.Edits = []h1.Edit{edit}
	}
	return local
}

// beforeFirstByte reports whether a connection ended without any response, as
// one does that the endpoint closed while it was idle.
func beforeFirstByte(err error) bool {
	var write *h1.WriteError
	return errors.Is(err, io.EOF) || errors.As(err, &write) || errors.Is(err, os.ErrClosed) || errors.Is(err, net.ErrClosed) || isReset(err)
}

// idempotent reports whether a method may be sent twice (RFC 9110, 9.2.2).
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
