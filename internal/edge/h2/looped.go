package h2

import "slipway.dev/slipway/internal/edge/eventloop"

// On an event loop a connection is a task, and so is each of its requests. They run on one
// thread, so that a request costs no wake-up of a goroutine, and whoever writes takes along
// what all requests that were ready have added. A task must not wait with the session's mu:
// what else wants it would have the loop wait. Goroutines may have it, but not for long.

// maxDepartures is after how many requests in a row that had to leave the event loop the
// connection leaves it too: its requests are of a kind that goroutines serve, such as those
// of gRPC, which may last as long as the connection.
const maxDepartures = 4

// loopedStreams counts the requests on the event loop of a connection. The session's mu guards it.
type loopedStreams struct {
	active     int // requests that have not left it
	departures int // in a row
}

// startLooped starts a request as a task, and reports whether that is how the requests of the
// connection are served. by is the task that calls it, if any.
func (c *session) startLooped(s *stream, by *eventloop.Task) bool {
	if !c.writer.Looped() || c.looped.departures >= maxDepartures {
		return false
	}
	c.looped.active++
	if by != nil {
		by.Start(s.runLooped)
	} else {
		c.task.Loop().Start(s.runLooped)
	}
	return true
}

// runLooped is run for a task.
func (s *stream) runLooped(task *eventloop.Task) {
	s.task = task
	s.run()
}

// Task is the task that serves the stream; nil where a goroutine does.
func (s *stream) Task() *eventloop.Task { return s.task }

// Leave makes the rest of the request that of a goroutine.
func (s *stream) Leave() {
	if !s.task.OnLoop() {
		return
	}
	c := s.session
	c.mu.Lock()
	c.looped.active--
	c.looped.departures++
	c.mu.Unlock()
	s.task.Leave()
}

// finishLooped counts the end of a request on the event loop. It is called with mu held.
func (s *stream) finishLooped() {
	if s.task.OnLoop() {
		s.session.looped.active--
		s.session.looped.departures = 0
	}
}

// shouldDepart reports whether the connection is to leave its event loop, and can: nothing uses
// it but the reader.
func (c *session) shouldDepart() bool {
	return c.looped.departures >= maxDepartures && c.looped.active == 0 && c.writer.Idle() && !c.over
}

// depart makes the connection one of goroutines. The reader calls it with mu held.
func (c *session) depart() {
	err := c.writer.Detach(c.task.Leave, func() bool { return !c.over }) // otherwise the end is all that is left to write
	if err != nil {
		c.abort(err)
	}
}
