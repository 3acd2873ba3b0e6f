package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// responseTime bounds one exchange, and with TLS the dial and handshake as well.
const responseTime = 20 * time.Second

// response is the result of a request: the status, and the endpoint that served
// it.
type response struct {
	status  int
	backend netip.Addr // not valid for a response of the edge itself
}

// client sends requests to the edge on a persistent connection. It reconnects
// after an error or after the edge has closed the connection. It is for one
// goroutine. It does without net/http, whose CPU time would come from the
// machine that is measured.
type client struct {
	address string
	conn    net.Conn
	reader  *bufio.Reader
	request []byte
	body    []byte
}

// newClient returns a client that connects at its first request.
func newClient(address string) *client {
	return &client{address: address, body: make([]byte, seenBytes)}
}

// close closes the connection, if there is one. The client stays usable.
func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// do sends a request for a host and returns the response. After an error the
// connection is closed: the rest of a response may still be in it.
func (c *client) do(ctx context.Context, host string) (response, error) {
	if c.conn == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.address)
		if err != nil {
			return response{}, err
		}
		c.use(conn)
	}
	got, err := c.exchange(host)
	if err != nil {
		c.close()
		return response{}, fmt.Errorf("request %s: %w", host, err)
	}
	return got, nil
}

// requestEncrypted sends a request on a new TLS connection and verifies that the
// certificate is valid for the host. The edge selects the certificate by SNI,
// so each host needs a connection of its own.
func (c *client) requestEncrypted(ctx context.Context, host string) (response, error) {
	c.close()
	ctx, cancel := context.WithTimeout(ctx, responseTime)
	defer cancel()
	// The certificates have no trusted issuer, and the chain is not under test.
	// The host name is, and VerifyHostname below checks it.
	dialer := tls.Dialer{Config: &tls.Config{ServerName: host, InsecureSkipVerify: true}}
	conn, err := dialer.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return response{}, err
	}
	c.use(conn)
	defer c.close()
	if err := conn.(*tls.Conn).ConnectionState().PeerCertificates[0].VerifyHostname(host); err != nil {
		return response{}, err
	}
	return c.exchange(host)
}

// use makes conn the connection of the client. The reader is replaced, because
// the old one may have buffered bytes.
func (c *client) use(conn net.Conn) {
	c.conn = conn
	c.reader = bufio.NewReaderSize(conn, seenBytes)
}

// exchange writes one request and reads its response, both within answerTime.
// It reuses the request buffer, so that a load does not allocate.
func (c *client) exchange(host string) (response, error) {
	if err := c.conn.SetDeadline(time.Now().Add(responseTime)); err != nil {
		return response{}, err
	}
	c.request = append(append(append(c.request[:0], "GET / HTTP/1.1\r\nHost: "...), host...), "\r\n\r\n"...)
	if _, err := c.conn.Write(c.request); err != nil {
		return response{}, err
	}
	return c.read()
}

// read parses one response. It accepts what the edge and the backend send: a
// Content-Length and a small body. Conformance to HTTP is tested elsewhere.
func (c *client) read() (response, error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return response{}, err
	}
	var got response
	if fields := bytes.Fields(line); len(fields) >= 2 {
		got.status, _ = strconv.Atoi(string(fields[1]))
	}
	length, keep := -1, true
	for {
		if line, err = c.reader.ReadSlice('\n'); err != nil {
			return response{}, err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			length, _ = strconv.Atoi(string(value))
		case bytes.EqualFold(name, []byte("Connection")):
			keep = !bytes.EqualFold(value, []byte("close"))
		}
	}
	// A response without Content-Length ends with its connection, which this
	// client does not support.
	if length < 0 || length > len(c.body) {
		return response{}, fmt.Errorf("status %d with a body of %d bytes", got.status, length)
	}
	body := c.body[:length]
	if _, err := io.ReadFull(c.reader, body); err != nil {
		return response{}, err
	}
	if got.status == 200 {
		if err := got.backend.UnmarshalText(body); err != nil {
			return response{}, err
		}
	}
	if !keep {
		c.close()
	}
	return got, nil
}
