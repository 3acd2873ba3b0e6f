package main

import (
	"bufio"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// The client reads what the edge sends, and nothing of the next response.
func TestClientReads(t *testing.T) {
	const fine = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\nServer: x\r\n\r\n10.244.0.1"
	c := newClient("")
	c.reader = bufio.NewReader(strings.NewReader(fine + "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n" + fine))
	want := response{status: 200, backend: netip.MustParseAddr("10.244.0.1")}
	for i, want := range []response{want, {status: 404}, want} {
		if got, err := c.read(); err != nil || got != want {
			t.Errorf("answer %d is %+v, %v; want %+v", i, got, err, want)
		}
	}
	for _, bad := range []string{
		"HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n10.",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n",
		"",
	} {
		c.reader = bufio.NewReader(strings.NewReader(bad))
		if got, err := c.read(); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

// A response with Connection: close is the last of its connection.
func TestClientCloses(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := newClient("")
	c.use(ours)
	c.reader = bufio.NewReader(strings.NewReader("HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
	if got, err := c.read(); err != nil || got.status != 503 || c.conn != nil {
		t.Errorf("got %+v, %v, and the connection is open: %t", got, err, c.conn != nil)
	}
}
