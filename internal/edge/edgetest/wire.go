package edgetest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
)

// wireTimeout bounds all that happens on a Wire. Only a failing test waits that
// long.
const wireTimeout = 20 * time.Second

// Wire is a connection on which a test sends exactly what it wants.
type Wire struct {
	net.Conn
	Reader *bufio.Reader
	// T fails when something goes wrong; a subtest may take its place.
	T testing.TB
}

// Dial connects to an address until the end of the test.
func Dial(t testing.TB, address string) *Wire {
	t.Helper()
	conn := must.Get(net.Dial("tcp", address))(t)
	return NewWire(t, conn)
}

// NewWire makes a Wire of a connection. It is closed at the end of the test.
func NewWire(t testing.TB, conn net.Conn) *Wire {
	t.Helper()
	t.Cleanup(func() { _ = conn.Close() })
	must.Do(t, conn.SetDeadline(time.Now().Add(wireTimeout)))
	return &Wire{Conn: conn, Reader: bufio.NewReader(conn), T: t}
}

// Send writes a text.
func (w *Wire) Send(text string) {
	w.T.Helper()
	must.Get(io.WriteString(w, text))(w.T)
}

// Response reads the response to a request with the method.
func (w *Wire) Response(method string) (*http.Response, string) {
	w.T.Helper()
	response := must.Get(http.ReadResponse(w.Reader, &http.Request{Method: method}))(w.T)
	defer response.Body.Close()
	body := must.Get(io.ReadAll(response.Body))(w.T)
	return response, string(body)
}

// Get requests a path, with more header lines.
func (w *Wire) Get(path string, lines ...string) (*http.Response, string) {
	w.T.Helper()
	w.Send("GET " + path + " HTTP/1.1\r\nHost: shop.example\r\n" + strings.Join(append(lines, "", ""), "\r\n"))
	return w.Response(http.MethodGet)
}

// Post sends a body of known length, with more header lines.
func (w *Wire) Post(path, body string, lines ...string) (*http.Response, string) {
	w.T.Helper()
	lines = append(lines, fmt.Sprintf("Content-Length: %d", len(body)), "", body)
	w.Send("POST " + path + " HTTP/1.1\r\nHost: shop.example\r\n" + strings.Join(lines, "\r\n"))
	return w.Response(http.MethodPost)
}

// RequireClosed fails the test unless the other side has closed the connection.
func (w *Wire) RequireClosed() {
	w.T.Helper()
	if b, err := w.Reader.ReadByte(); err != io.EOF {
		w.T.Errorf("got byte %q and %v, want a closed connection", b, err)
	}
}
