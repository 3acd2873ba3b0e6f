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

// answerTime bounds one request.
const answerTime = 20 * time.Second

// answer is what came back: a status, and which backend it came from.
type answer struct {
	status  int
	backend netip.Addr // not valid when the edge answered itself
}

// client asks the edge on a connection that is kept. It makes a new one when
// the edge has closed it. It is for one goroutine.
type client struct {
	address string
	conn    net.Conn
	reader  *bufio.Reader
	request []byte
	body    []byte
}

func newClient(address string) *client {
	return &client{address: address, body: make([]byte, seenBytes)}
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// ask sends a request for a host and reads the answer.
func (c *client) ask(ctx context.Context, host string) (answer, error) {
	if c.conn == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.address)
		if err != nil {
			return answer{}, err
		}
		c.use(conn)
	}
	got, err := c.exchange(host)
	if err != nil {
		c.close()
		return answer{}, fmt.Errorf("ask for %s: %w", host, err)
	}
	return got, nil
}

// askEncrypted makes a connection of its own and looks at the certificate.
func (c *client) askEncrypted(ctx context.Context, host string) (answer, error) {
	c.close()
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	// Nobody vouches for these certificates; that it is the one of the host is
	// what counts.
	dialer := tls.Dialer{Config: &tls.Config{ServerName: host, InsecureSkipVerify: true}}
	conn, err := dialer.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return answer{}, err
	}
	c.use(conn)
	defer c.close()
	if err := conn.(*tls.Conn).ConnectionState().PeerCertificates[0].VerifyHostname(host); err != nil {
		return answer{}, err
	}
	return c.exchange(host)
}

func (c *client) use(conn net.Conn) {
	c.conn = conn
	c.reader = bufio.NewReaderSize(conn, seenBytes)
}

func (c *client) exchange(host string) (answer, error) {
	if err := c.conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return answer{}, err
	}
	c.request = append(append(append(c.request[:0], "GET / HTTP/1.1\r\nHost: "...), host...), "\r\n\r\n"...)
	if _, err := c.conn.Write(c.request); err != nil {
		return answer{}, err
	}
	return c.read()
}

// read reads one answer. The edge is trusted to speak HTTP/1.1 well: others
// measure that.
func (c *client) read() (answer, error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return answer{}, err
	}
	var got answer
	if fields := bytes.Fields(line); len(fields) >= 2 {
		got.status, _ = strconv.Atoi(string(fields[1]))
	}
	length, keep := -1, true
	for {
		if line, err = c.reader.ReadSlice('\n'); err != nil {
			return answer{}, err
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
	if length < 0 || length > len(c.body) {
		return answer{}, fmt.Errorf("status %d with a body of %d bytes", got.status, length)
	}
	body := c.body[:length]
	if _, err := io.ReadFull(c.reader, body); err != nil {
		return answer{}, err
	}
	if got.status == 200 {
		if err := got.backend.UnmarshalText(body); err != nil {
			return answer{}, err
		}
	}
	if !keep {
		c.close()
	}
	return got, nil
}
