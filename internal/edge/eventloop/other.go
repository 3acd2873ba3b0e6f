//go:build !linux

package eventloop

import (
	"net"
	"net/netip"
	"time"
)

// Where there are no event loops, no Group can be made, and nothing else is reached.
type (
	// Group is a number of loops.
	Group struct{}
	// Loop is one thread of execution.
	Loop struct{}
	// Task is a coroutine of a loop.
	Task struct{ parkedBelow *Task }
	// Conn is a TCP connection of a loop.
	Conn struct{ net.Conn }
	// Acceptor accepts the connections of a listening socket.
	Acceptor struct{}
)

// New returns ErrUnsupported.
func New(int) (*Group, error) { return nil, ErrUnsupported }

// Close is not reached: there is no Group.
func (g *Group) Close() {}

// Accept is not reached: there is no Group.
func (g *Group) Accept(int, net.Addr, func(*Conn), func(error) time.Duration) (*Acceptor, error) {
	return nil, ErrUnsupported
}

// Stop is not reached: there is no Acceptor.
func (a *Acceptor) Stop() {}

// Index is not reached: there is no Loop.
func (l *Loop) Index() int { return 0 }

// Waits is not reached: there is no Loop.
func (l *Loop) Waits() uint64 { return 0 }

// Leave is not reached: there is no Task.
func (t *Task) Leave() {}

// Rejoin is not reached: there is no Task.
func (t *Task) Rejoin() {}

// Away is not reached: there is no Task.
func (t *Task) Away() bool { return false }

// OnLoop is not reached: there is no Task.
func (t *Task) OnLoop() bool { return false }

// Park is not reached: there is no Task.
func (t *Task) Park() {}

// Unpark is not reached: there is no Task.
func (t *Task) Unpark() {}

func (t *Task) unpark(*Task) {}

// Yield is not reached: there is no Task.
func (t *Task) Yield() {}

// Start is not reached: there is no Task.
func (t *Task) Start(func(*Task)) {}

// Start is not reached: there is no Loop.
func (l *Loop) Start(func(*Task)) {}

// Loop is not reached: there is no Task.
func (t *Task) Loop() *Loop { return nil }

// Dial is not reached: there is no Task.
func (t *Task) Dial(netip.AddrPort, time.Time) (*Conn, error) { return nil, ErrUnsupported }

// Move is not reached: there is no Conn.
func (c *Conn) Move(*Loop) error { return ErrUnsupported }

// Bind is not reached: there is no Conn.
func (c *Conn) Bind(*Task) {}

// Task is not reached: there is no Conn.
func (c *Conn) Task() *Task { return nil }

// Loop is not reached: there is no Conn.
func (c *Conn) Loop() *Loop { return nil }

// Serve is not reached: there is no Conn.
func (c *Conn) Serve(func(*Task)) {}

// ServeNext is not reached: there is no Conn.
func (c *Conn) ServeNext(func(*Task)) {}

// Watch has a function called on the loop when there is something to read.
type Watch struct{}

// NewWatch returns a watch that is never used.
func NewWatch(func()) *Watch { return nil }

// Watch is not reached: there is no Conn.
func (c *Conn) Watch(*Watch) {}

// ReadShared is not reached: there is no Conn.
func (c *Conn) ReadShared() ([]byte, bool, error) { return nil, false, ErrUnsupported }

// QueueWrites is not reached: there is no Conn.
func (c *Conn) QueueWrites() {}

// Queued is not reached: there is no Conn.
func (c *Conn) Queued() bool { return false }

// Drain is not reached: there is no Conn.
func (c *Conn) Drain(*Task) (int, error) { return 0, ErrUnsupported }

// Pipe has data in the kernel between two connections of loops.
type Pipe struct{}

// Pipe is not reached: there is no Conn.
func (c *Conn) Pipe(*Conn) *Pipe { return nil }

// Fill is not reached: there is no Pipe.
func (p *Pipe) Fill(int64) (int, error) { return 0, ErrUnsupported }

// Drain is not reached: there is no Pipe.
func (p *Pipe) Drain() error { return ErrUnsupported }

// Close is not reached: there is no Pipe.
func (p *Pipe) Close() {}

// WriteNow is not reached: there is no Conn.
func (c *Conn) WriteNow([][]byte) (int, error) { return 0, ErrUnsupported }

// Control is not reached: there is no Conn.
func (c *Conn) Control(func(fd uintptr)) error { return ErrUnsupported }

// CloseWrite is not reached: there is no Conn.
func (c *Conn) CloseWrite() error { return ErrUnsupported }

// ResetOnClose is not reached: there is no Conn.
func (c *Conn) ResetOnClose() error { return ErrUnsupported }

// Detach is not reached: there is no Conn.
func (c *Conn) Detach() (*net.TCPConn, error) { return nil, ErrUnsupported }

// Source is not reached: there is no Conn.
func (c *Conn) Source() netip.AddrPort { return netip.AddrPort{} }

// Quiet is not reached: there is no Conn.
func (c *Conn) Quiet(uint64) bool { return false }

// ReadOver is not reached: there is no Conn.
func (c *Conn) ReadOver() error { return ErrUnsupported }

// Descriptor is not reached: there is no Conn.
func (c *Conn) Descriptor() int { return -1 }
