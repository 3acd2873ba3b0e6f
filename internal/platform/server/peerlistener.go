package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"slipway.dev/slipway/internal/observe/sharedtls"
	"slipway.dev/slipway/internal/secret"
)

// peerPurpose separates the TLS of replicas from other uses of the key file.
const peerPurpose = "slipway platform peers v1"

// tlsHandshake is the first byte of a TLS connection (RFC 8446, section 5.1).
const tlsHandshake = 0x16

// peerTLS returns the configurations of both sides of a connection between
// replicas. Their keys are derived from the key file, which all replicas share,
// so there is nothing to configure and no certificate to renew.
func peerTLS(key secret.Text) (server, client *tls.Config, err error) {
	if server, err = sharedtls.Server([]byte(key.Reveal()), peerPurpose); err == nil {
		client, err = sharedtls.Client([]byte(key.Reveal()), peerPurpose)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("TLS between replicas: %w", err)
	}
	// Requests may switch protocols, which HTTP/2 cannot.
	server.NextProtos = []string{"http/1.1"}
	return server, client, nil
}

// peerListener accepts TLS of other replicas on a port that is otherwise plain
// HTTP. The first byte of a connection decides: no HTTP request begins with that
// of a TLS handshake. It decides before the server gets the connection, because
// net/http recognizes TLS by the type of the connection.
type peerListener struct {
	net.Listener
	config   *tls.Config
	accepted chan acceptResult
	open     context.Context // done when the listener is closed
	close    context.CancelFunc
}

// acceptResult is what Accept returns.
type acceptResult struct {
	conn net.Conn
	err  error
}

// newPeerListener returns a listener and starts to accept.
func newPeerListener(listener net.Listener, config *tls.Config) *peerListener {
	l := &peerListener{Listener: listener, config: config, accepted: make(chan acceptResult)}
	l.open, l.close = context.WithCancel(context.Background())
	go l.acceptAll()
	return l
}

// acceptAll waits for the first byte of each connection in a goroutine, so that a
// silent client does not delay the others. It goes on after errors, such as too many
// open files: the server waits before it accepts again.
func (l *peerListener) acceptAll() {
	for l.open.Err() == nil {
		conn, err := l.Listener.Accept()
		if err == nil {
			go l.classify(conn)
			continue
		}
		l.deliver(acceptResult{err: err})
	}
}

// classify reads the first byte and hands the connection to Accept.
func (l *peerListener) classify(conn net.Conn) {
	stop := context.AfterFunc(l.open, func() { _ = conn.Close() })
	first := make([]byte, 1)
	_ = conn.SetReadDeadline(time.Now().Add(headerTimeout)) // a connection that is gone fails to read
	_, err := conn.Read(first)
	_ = conn.SetReadDeadline(time.Time{})
	var result net.Conn = &readConn{Conn: conn, first: first}
	if first[0] == tlsHandshake {
		result = tls.Server(result, l.config)
	}
	if !stop() || err != nil || !l.deliver(acceptResult{conn: result}) {
		_ = conn.Close()
	}
}

// deliver passes a result to Accept, unless the listener is closed.
func (l *peerListener) deliver(result acceptResult) bool {
	select {
	case l.accepted <- result:
		return true
	case <-l.open.Done():
		return false
	}
}

// Accept returns the next connection of which a byte has arrived.
func (l *peerListener) Accept() (net.Conn, error) {
	select {
	case result := <-l.accepted:
		return result.conn, result.err
	case <-l.open.Done():
		return nil, net.ErrClosed
	}
}

// Close closes the listener and the connections that Accept has not returned.
func (l *peerListener) Close() error {
	l.close()
	return l.Listener.Close()
}

// readConn is a connection whose first byte was read.
type readConn struct {
	net.Conn
	first []byte
}

// Read returns the byte before the others.
func (c *readConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 && len(p) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite lets net/http end a connection without a reset.
func (c *readConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}
