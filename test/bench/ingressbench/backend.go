package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// backendPort is the port of every pod. One listener on the wildcard address
// serves all of them, because the whole pod network is local.
const backendPort = 8080

// seenBytes is the size of the read buffers of backend and client. There are as
// many connections as endpoints, so buffers are small.
const seenBytes = 1024

// backend is an HTTP server on every pod address that returns that address, so
// that a client can check which endpoint was selected. It implements just
// enough of HTTP/1.1, because its CPU time comes from the machine that is
// measured.
type backend struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil when stopped
}

// startBackend starts the server. The caller must stop it.
func startBackend() (*backend, error) {
	listener, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", backendPort))
	if err != nil {
		return nil, err
	}
	b := &backend{listener: listener, conns: map[net.Conn]struct{}{}}
	b.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			b.take(conn)
		}
	})
	return b, nil
}

// take registers a connection and serves it in a goroutine. A connection that
// is accepted during stop is closed at once: after conns is nil, nothing else
// would close it.
func (b *backend) take(conn net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conns == nil {
		_ = conn.Close()
		return
	}
	b.conns[conn] = struct{}{}
	b.serving.Go(func() {
		serveConn(conn)
		_ = conn.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.conns, conn)
	})
}

// stop closes the listener and all connections, and waits for their goroutines.
func (b *backend) stop() {
	_ = b.listener.Close()
	b.mu.Lock()
	for conn := range b.conns {
		_ = conn.Close()
	}
	b.conns = nil
	b.mu.Unlock()
	b.serving.Wait()
}

// serveConn responds to requests without a body until the client closes the
// connection. An empty line ends a request; the header lines before it are
// skipped unparsed.
func serveConn(conn net.Conn) {
	address := netip.MustParseAddrPort(conn.LocalAddr().String()).Addr().String()
	// The response is the same for all requests of a connection, so it is
	// formatted once.
	body := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nContent-Type: text/plain\r\n\r\n%s", len(address), address)
	reader := bufio.NewReaderSize(conn, seenBytes)
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return
		}
		if len(bytes.TrimRight(line, "\r\n")) > 0 {
			continue
		}
		if _, err := conn.Write(body); err != nil {
			return
		}
	}
}
