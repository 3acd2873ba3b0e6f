package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// backendPort is that of every Pod.
const backendPort = 8080

// seenBytes is the most of an answer or a request that is read at a time. There
// are as many connections as endpoints, so buffers are small.
const seenBytes = 1024

// backend answers on every Pod address with that address. It speaks just enough
// HTTP/1.1: what it costs is taken from the machine that is measured.
type backend struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil when stopped
}

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

// stop ends all connections.
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

// serveConn answers requests without a body until the client leaves.
func serveConn(conn net.Conn) {
	address := netip.MustParseAddrPort(conn.LocalAddr().String()).Addr().String()
	answer := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nContent-Type: text/plain\r\n\r\n%s", len(address), address)
	reader := bufio.NewReaderSize(conn, seenBytes)
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return
		}
		if len(bytes.TrimRight(line, "\r\n")) > 0 {
			continue
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}
