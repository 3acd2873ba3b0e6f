package listener

import (
	"context"
	"net"
	"sync"
)

// Handoff is a net.Listener for an http.Server, whose connections come from
// Deliver after they were peeked at.
type Handoff struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

var _ net.Listener = (*Handoff)(nil)

// NewHandoff makes a Handoff with an address.
func NewHandoff(addr net.Addr) *Handoff {
	return &Handoff{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Deliver hands a connection to Accept, and waits until it is taken. After an
// error the connection still belongs to the caller.
func (h *Handoff) Deliver(ctx context.Context, c net.Conn) error {
	select {
	case <-h.closed:
		return net.ErrClosed
	default:
	}
	select {
	case h.conns <- c:
		return nil
	case <-h.closed:
		return net.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Accept waits for a connection. It returns net.ErrClosed after Close.
func (h *Handoff) Accept() (net.Conn, error) {
	select {
	case <-h.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Deliver.
func (h *Handoff) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr is the address that NewHandoff was given.
func (h *Handoff) Addr() net.Addr { return h.addr }
