package h2

import (
	"context"
	"time"
)

// lifetime is a stream as a context, which ends with the stream. It exists
// beside the context package's own because one of those for every request has to
// be entered in the connection's and taken out again.
type lifetime stream

var _ context.Context = (*lifetime)(nil)

// afterwards is a function that is called when a lifetime is over.
type afterwards struct{ call func() }

// Deadline says that there is none.
func (*lifetime) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Done is closed when the stream is over.
func (l *lifetime) Done() <-chan struct{} {
	l.session.mu.Lock()
	defer l.session.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.canceled {
			close(l.done)
		}
	}
	return l.done
}

// Err says whether the stream is over.
func (l *lifetime) Err() error {
	l.session.mu.Lock()
	defer l.session.mu.Unlock()
	if l.canceled {
		return context.Canceled
	}
	return nil
}

// Value is that of the connection's context.
func (l *lifetime) Value(key any) any { return l.session.ctx.Value(key) }

// AfterFunc does for a lifetime what [context.AfterFunc] does, which calls it.
func (l *lifetime) AfterFunc(call func()) (stop func() bool) {
	l.session.mu.Lock()
	defer l.session.mu.Unlock()
	if l.canceled {
		go call()
		return func() bool { return false }
	}
	entry := &afterwards{call}
	l.after = append(l.after, entry)
	return func() bool {
		l.session.mu.Lock()
		defer l.session.mu.Unlock()
		stopped := entry.call != nil
		entry.call = nil
		return stopped
	}
}

// cancel ends the lifetime. It is called with the session's mu held.
func (l *lifetime) cancel() {
	if l.canceled {
		return
	}
	l.canceled = true
	if l.done != nil {
		close(l.done)
	}
	for _, entry := range l.after {
		if entry.call != nil {
			go entry.call()
			entry.call = nil
		}
	}
	l.after = nil
}
