package proxy

import (
	"errors"
	"net"
	"net/http"
	"time"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h1"
)

// goneCheckPeriod is how often the proxy checks for its client while it waits
// for the response. A client that has left keeps a backend busy for no longer.
const goneCheckPeriod = time.Second

// goneDetector is a connection that can detect that its client has left.
type goneDetector interface{ Gone() bool }

// goneDetectorOf finds the detector below TLS too. It is nil for streams, whose
// protocol reports it: see [Accepted.Gone].
func goneDetectorOf(conn net.Conn) goneDetector {
	detector, _ := eventloop.BelowTLS(conn).(goneDetector)
	return detector
}

// errInterim is why an endpoint is given up that sends interim responses only.
var errInterim = errors.New("too many interim responses")

// receive reads the head of the final response. Interim responses are passed on
// while it waits.
func (a *attempt) receive() error {
	c, conn := a.x.conn, a.upstream
	response := &c.buffers.response
	for interim := 0; ; interim++ {
		err := conn.Reader.ReadResponse(response, a.forward.RequestInfo(&c.head), conn.Limits)
		for errors.Is(err, h1.ErrIdle) && a.keepWaiting() {
			err = conn.Reader.ReadResponse(response, a.forward.RequestInfo(&c.head), conn.Limits)
		}
		switch {
		case err != nil:
			return err
		case !response.Interim():
			return nil
		case interim == h1.MaxInterim:
			return errInterim
		}
		a.copyInterim()
	}
}

// setTimeouts sets the timeouts of an attempt. The wait for the head of the
// response is cut into pieces, between which the client is checked for, and whether a
// canary is overdue.
func (a *attempt) setTimeouts() {
	timeouts := a.x.rule.timeouts
	a.headerTimeout = a.upstream.SetTimeouts(timeouts.header, timeouts.idle)
	if a.polls() {
		a.upstream.Reader.SetPollInterval(goneCheckPeriod)
	}
}

// polls reports whether the wait for the response is cut into pieces.
func (a *attempt) polls() bool {
	return a.headerTimeout > goneCheckPeriod && (a.x.conn.gone != nil || a.target.lease.Revision() != nil)
}

// keepWaiting is called when a piece of the wait is over. It reports whether to
// wait on: the header timeout is not over, the client has not left, and the request is not
// sent to another revision.
func (a *attempt) keepWaiting() bool {
	detector, reader := a.x.conn.gone, a.upstream.Reader
	if !a.polls() {
		return false
	}
	if a.waited += reader.LastWait(); a.waited >= a.headerTimeout {
		return false
	}
	reader.SetPollInterval(min(goneCheckPeriod, a.headerTimeout-a.waited))
	a.clientGone = detector != nil && detector.Gone()
	return !a.clientGone && !a.leavesOverdue()
}

// copyInterim sends an interim response to a client that can read it. 100 is the
// edge's own to send: it has sent it, or the client did not expect it.
func (a *attempt) copyInterim() {
	c := a.x.conn
	response := &c.buffers.response
	if response.Status == http.StatusContinue || c.head.Minor == 0 {
		return
	}
	plan := h1.ResponsePlan{Minor: c.head.Minor}
	c.buffers.responseHead = plan.AppendTo(c.buffers.responseHead[:0], response)
	// A write that fails here fails again with the final response.
	_, _ = c.writer.Write(c.buffers.responseHead)
}
