package programs

import (
	"cmp"
	"net"
	"net/netip"
	"sync"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// Serve accepts TCP connections at an address, of which an empty one is a free
// port of the loopback interface, and serves each in a goroutine of its own.
// At the end of the test it closes what is open and waits for them.
func Serve(t testing.TB, address string, serve func(net.Conn)) netip.AddrPort {
	t.Helper()
	listener := Listen(t, address)
	s := &sockets{open: map[net.Conn]bool{}}
	s.running.Go(func() { s.accept(listener, serve) })
	t.Cleanup(func() {
		_ = listener.Close()
		s.close()
		s.running.Wait()
	})
	return listener.Addr().(*net.TCPAddr).AddrPort()
}

// Listen opens a TCP socket at an address, of which an empty one is a free port
// of the loopback interface. It is closed at the end of the test.
func Listen(t testing.TB, address string) net.Listener {
	t.Helper()
	address = cmp.Or(address, "127.0.0.1:0")
	listener := must.Get(net.Listen("tcp", address))(t)
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// FreeAddress returns an address of the loopback interface at which nothing
// listens.
func FreeAddress(t testing.TB) netip.AddrPort {
	t.Helper()
	listener := Listen(t, "")
	_ = listener.Close()
	return listener.Addr().(*net.TCPAddr).AddrPort()
}

// Pipe returns both ends of a TCP connection on the loopback interface. They are
// closed at the end of the test.
func Pipe(t testing.TB) (client, server *net.TCPConn) {
	t.Helper()
	listener := Listen(t, "")
	defer listener.Close()
	dialed := must.Get(net.Dial("tcp", listener.Addr().String()))(t)
	t.Cleanup(func() { _ = dialed.Close() })
	accepted := must.Get(listener.Accept())(t)
	t.Cleanup(func() { _ = accepted.Close() })
	return dialed.(*net.TCPConn), accepted.(*net.TCPConn)
}

// sockets are the connections that Serve has accepted. mu guards the fields
// below it.
type sockets struct {
	running sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

// accept serves connections until the listener is closed.
func (s *sockets) accept(listener net.Listener, serve func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		if !s.add(conn) {
			_ = conn.Close()
			return
		}
		s.running.Go(func() {
			defer s.remove(conn)
			serve(conn)
		})
	}
}

// add reports whether a connection may be served: not after close.
func (s *sockets) add(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[conn] = true
	return !s.closed
}

// remove closes a connection that was served.
func (s *sockets) remove(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, conn)
}

// close closes the open connections.
func (s *sockets) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for conn := range s.open {
		_ = conn.Close()
	}
}
