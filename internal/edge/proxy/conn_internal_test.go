package proxy

import (
	"net"
	"testing"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/must"
)

// The memory of a conn has another user afterwards, whom a drain of the one before does not interrupt.
func TestInterruptOfLastUser(t *testing.T) {
	p := New(Config{Pool: new(h1.BufferPool), Limits: h1.DefaultLimits(), Timeouts: h1.DefaultTimeouts()})
	defer p.Close()
	first, _ := net.Pipe()
	defer first.Close()
	c := newConn(p, first, &Accepted{}, false)
	p.add(c)
	p.Drain()
	if err := c.reader.ReadRequest(&c.head, c.limits); err != h1.ErrInterrupted {
		t.Errorf("while it is registered: got %v", err)
	}
	p.remove(c)
	c.detach()

	second, client := net.Pipe()
	defer second.Close()
	defer client.Close()
	c.attach(p, second, &Accepted{})
	p.Drain() // it is not registered yet
	go func() { _, _ = client.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")) }()
	must.Do(t, c.reader.ReadRequest(&c.head, c.limits))
}
