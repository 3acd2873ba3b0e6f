package smuggling

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// tap stands before a backend and keeps what it is sent, byte for byte.
type tap struct {
	listener net.Listener
	socket   string // of the backend
	turns    *atomic.Int64
	working  sync.WaitGroup

	mu    sync.Mutex
	flows []*flow
}

// flow is what came on one connection.
type flow struct {
	mu    sync.Mutex
	bytes []byte
	marks []mark
}

// mark records when the bytes from an offset on came, in the order of all reads of
// all connections.
type mark struct{ offset, turn int }

// openTap listens until the end of the test.
func openTap(t *testing.T, socket string, turns *atomic.Int64) *tap {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &tap{listener: listener, socket: socket, turns: turns}
	p.working.Go(p.accept)
	t.Cleanup(p.finish)
	return p
}

func (p *tap) address() netip.AddrPort { return p.listener.Addr().(*net.TCPAddr).AddrPort() }

// finish takes no more connections, and waits for the end of those that are
// open. Their clients have to be gone.
func (p *tap) finish() {
	_ = p.listener.Close()
	p.working.Wait()
}

func (p *tap) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		f := &flow{}
		p.mu.Lock()
		p.flows = append(p.flows, f)
		p.mu.Unlock()
		p.working.Go(func() { p.join(conn, f) })
	}
}

// join passes bytes both ways until both have ended.
func (p *tap) join(client net.Conn, f *flow) {
	defer client.Close()
	server, err := net.Dial("unix", p.socket)
	if err != nil {
		return
	}
	defer server.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.(*net.TCPConn).CloseWrite()
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if n > 0 {
			f.add(buf[:n], int(p.turns.Add(1)))
			if _, err := server.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			_ = server.Close() // broken off, not ended
			break
		}
		if err != nil {
			_ = server.(*net.UnixConn).CloseWrite()
			break
		}
	}
	back.Wait()
}

func (f *flow) add(b []byte, turn int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.marks = append(f.marks, mark{len(f.bytes), turn})
	f.bytes = append(f.bytes, b...)
}

// turnAt is when the byte at an offset came.
func (f *flow) turnAt(offset int) int {
	turn := 0
	for _, m := range f.marks {
		if m.offset > offset {
			break
		}
		turn = m.turn
	}
	return turn
}
