package proxy

import (
	"net"
	"time"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h1"
)

// One departure proves little: most clients that upload also read. Two in a row are a client
// whose requests all need a goroutine, for which changing sides is work without use.

// maxDepartures is after how many exchanges in a row that had to leave the event loop a
// connection stays away: its requests are of a kind that goroutines serve.
const maxDepartures = 2

// taskConn is a stream that is a task of the event loop which has its connection. It takes note
// of leaving that.
type taskConn interface {
	Task() *eventloop.Task
	Leave()
}

// splicer is a client's connection that takes long bodies of endpoints within the kernel.
type splicer struct{ *eventloop.Conn }

// PipeFrom implements [h1.Splicer].
func (s splicer) PipeFrom(from net.Conn) h1.Pipe {
	if looped, ok := from.(*eventloop.Conn); ok {
		if pipe := s.Pipe(looped); pipe != nil {
			return pipe
		}
	}
	return nil
}

// leave makes the rest of the exchange that of a goroutine. It comes before whatever may wait for
// anything but a connection of the loop, computes for long, or uses connections of the
// exchange in another goroutine (decision 0087).
func (x *exchange) leave() {
	c := x.conn
	if c.task == nil {
		return
	}
	x.departed = true
	if stream, ok := c.net.(taskConn); ok {
		stream.Leave()
	} else {
		c.task.Leave()
	}
}

// rejoin returns to the event loop after an exchange, unless it would be left again soon. It reports
// whether the connection can go on.
func (c *conn) rejoin() bool {
	switch {
	case c.task == nil || !c.task.Away():
		return true
	case !c.exchange.departed:
		c.departures = 0
	default:
		if c.departures++; c.departures == maxDepartures {
			return c.depart() == nil
		}
	}
	c.task.Rejoin()
	return true
}

// depart takes the client's socket out of the event loop, which the task has left.
func (c *conn) depart() error {
	if err := eventloop.Detach(c.net); err != nil {
		return err
	}
	c.writer.UseSocket(nil)
	c.bindSocket()
	return nil
}

// detach takes both sockets out of the event loop, for a tunnel that two goroutines serve. It
// returns the connection to the endpoint.
func (a *attempt) detach() (net.Conn, error) {
	a.x.leave()
	if err := a.x.conn.depart(); err != nil {
		return nil, err
	}
	// The timer that ends the attempt has the connection as it was.
	if timer := a.totalTimer; timer != nil {
		timer.Stop()
	}
	upstream, err := a.upstream.Detach()
	if a.totalTimer != nil && err == nil {
		a.totalTimer = time.AfterFunc(a.x.remaining(0), func() { upstream.Close() })
	}
	return upstream, err
}
