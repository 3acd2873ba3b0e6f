package h3

import (
	"context"
	"time"
)

const (
	// drainPoll is how often Drain checks for running requests, and closePoll
	// how often awaitClosed checks for open connections. The library has no
	// event for either.
	drainPoll = 50 * time.Millisecond
	closePoll = 2 * time.Millisecond
	// closeTimeout bounds the wait of awaitClosed.
	closeTimeout = time.Second
)

// Drain refuses new connections, sends GOAWAY on open ones, waits for the
// running requests, and closes everything. Streams that come after GOAWAY are
// rejected, and clients may retry them elsewhere. When ctx ends first,
// everything is closed then, and its error returned. Handlers that ignore the
// end of their context may outlive that.
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
			// Idle clients often stay connected for as long as they may.
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

// awaitClosed waits until the close of all connections was sent. Shutdown of
// the library also waits for handlers, which may never return.
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

// Close closes everything at once.
func (s *Server) Close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Drain(ctx) // the error is that of ctx
}

// release closes what the library does not.
func (s *Server) release() {
	// Errors do not matter: none of them is used again.
	_ = s.listener.Close()
	_ = s.transport.Close()
	_ = s.socket.Close()
}
