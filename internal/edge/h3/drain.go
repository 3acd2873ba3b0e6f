package h3

import (
	"context"
	"time"
)

const (
	// drainPoll is how often Drain looks whether requests run, and partingLook
	// whether connections are closed.
	drainPoll = 50 * time.Millisecond
	closePoll = 2 * time.Millisecond
	// closeTimeout bounds the wait for that.
	closeTimeout = time.Second
)

// Drain refuses new connections, sends GOAWAY on those that are open, waits for
// the requests that run, and closes everything. Streams that come after GOAWAY
// are rejected, and clients know that they may ask again elsewhere. When ctx
// ends first, everything is closed then, and its error returned. Requests that
// ignore the end of their context may outlive that.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	defer s.release()
	quiet, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.lib.Shutdown(quiet) }()
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for since := time.Now(); ; {
		select {
		case <-ended:
			return ctx.Err()
		case <-ctx.Done():
			s.awaitClosed(ended)
			return ctx.Err()
		case now := <-tick.C:
			// Clients that have nothing to ask often stay for as long as they
			// are let.
			if s.running.Load() > 0 {
				since = now
			} else if now.Sub(since) >= s.cfg.DrainQuiet {
				cancel()
				<-ended
				return nil
			}
		}
	}
}

// awaitClosed waits until clients have been told that their connections are closed.
// The library waits for requests, too, which may take for ever.
func (s *Server) awaitClosed(ended <-chan error) {
	tick := time.NewTicker(closePoll)
	defer tick.Stop()
	give := time.After(closeTimeout)
	for s.established.Load() > 0 {
		select {
		case <-ended:
			return
		case <-give:
			return
		case <-tick.C:
		}
	}
}

// Close closes everything now.
func (s *Server) Close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Drain(ctx) // it says that there was no time
}

// release closes what the library leaves to us.
func (s *Server) release() {
	// All are closed for good; there is nothing to be done about errors.
	_ = s.listener.Close()
	_ = s.transport.Close()
	_ = s.socket.Close()
}
