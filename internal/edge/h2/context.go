package h2

import (
	"context"
	"net"
	"time"
)

// streamContext is a stream as the context of its request. It is cancelled when
// the stream ends. A context of the context package would do the same, but each
// one has to be entered in its parent and removed again, for every request.
type streamContext stream

var _ context.Context = (*streamContext)(nil)

// afterFunc is a function that is called when the context is cancelled.
type afterFunc struct{ call func() }

// Deadline reports that there is none.
func (*streamContext) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Done returns a channel that is closed when the stream ends. It is made with
// the first call: few handlers need it.
func (s *streamContext) Done() <-chan struct{} {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if s.done == nil {
		s.done = make(chan struct{})
		if s.canceled {
			close(s.done)
		}
	}
	return s.done
}

// Err returns context.Canceled after the stream has ended.
func (s *streamContext) Err() error {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if s.canceled {
		return context.Canceled
	}
	return nil
}

// Value returns the value of the connection's context.
func (s *streamContext) Value(key any) any { return s.session.ctx.Value(key) }

// AfterFunc is what [context.AfterFunc] calls for a context that has it. With
// it no goroutine has to wait for Done.
func (s *streamContext) AfterFunc(call func()) (stop func() bool) {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if s.canceled {
		go call()
		return func() bool { return false }
	}
	entry := &afterFunc{call}
	s.afterFuncs = append(s.afterFuncs, entry)
	return func() bool {
		s.session.mu.Lock()
		defer s.session.mu.Unlock()
		stopped := entry.call != nil
		entry.call = nil
		return stopped
	}
}

// CloseOnCancel closes a connection when the context is cancelled. It is AfterFunc for
// what nearly every request needs, once at a time, and allocates nothing.
func (s *streamContext) CloseOnCancel(conn net.Conn) {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if s.canceled {
		go conn.Close()
		return
	}
	s.closeOnCancel = conn
}

// KeepOnCancel ends what CloseOnCancel began, and reports whether the connection is not
// going to be closed.
func (s *streamContext) KeepOnCancel() bool {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	kept := s.closeOnCancel != nil
	s.closeOnCancel = nil
	return kept
}

// cancel ends the context. It is called with the session's mu held, so the
// functions run in goroutines of their own.
func (s *streamContext) cancel() {
	if s.canceled {
		return
	}
	s.canceled = true
	if s.done != nil {
		close(s.done)
	}
	if s.closeOnCancel != nil {
		go s.closeOnCancel.Close()
		s.closeOnCancel = nil
	}
	for _, entry := range s.afterFuncs {
		if entry.call != nil {
			go entry.call()
			entry.call = nil
		}
	}
	s.afterFuncs = nil
}
