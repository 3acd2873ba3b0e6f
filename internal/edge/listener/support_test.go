package listener_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/edge/listener"
	"slipway.dev/slipway/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout bounds every exchange of a test. It is never waited for when
// the code is right.
const testTimeout = 30 * time.Second

// loopback is who the tests connect as.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// counters counts the calls of the hooks.
type counters struct {
	mu      sync.Mutex
	opened  int
	closed  int
	refused map[listener.RefuseReason]int
	failed  []error
	changed chan struct{} // closed at the next change
}

func newCounters() *counters {
	return &counters{refused: make(map[listener.RefuseReason]int), changed: make(chan struct{})}
}

func (c *counters) hooks() listener.Hooks {
	return listener.Hooks{
		Opened:       func() { c.change(func() { c.opened++ }) },
		Closed:       func(time.Duration) { c.change(func() { c.closed++ }) },
		Refused:      func(r listener.RefuseReason) { c.change(func() { c.refused[r]++ }) },
		AcceptFailed: func(err error) { c.change(func() { c.failed = append(c.failed, err) }) },
	}
}

func (c *counters) change(apply func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	apply()
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits until a condition holds.
func (c *counters) await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	timeout := time.After(testTimeout)
	for {
		c.mu.Lock()
		done, changed := holds(), c.changed
		c.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("it did not happen: %s", what)
		}
	}
}

func (c *counters) awaitRefused(t testing.TB, reason listener.RefuseReason, count int) {
	t.Helper()
	c.await(t, "refused for "+string(reason), func() bool { return c.refused[reason] >= count })
}

// open makes a listener that is closed at the end of the test.
func open(t testing.TB, config listener.Config) *listener.Listener {
	t.Helper()
	config.Address = cmp.Or(config.Address, "127.0.0.1:0")
	l := must.Get(listener.Listen(context.Background(), config))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		l.Drain(ctx, nil)
	})
	return l
}

// expectRefused connects and fails unless the connection is closed. That can
// happen so early that connecting itself fails.
func expectRefused(t testing.TB, l net.Listener, sent string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", l.Addr().String(), testTimeout)
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	must.Do(t, err)
	defer conn.Close()
	must.Do(t, conn.SetDeadline(time.Now().Add(testTimeout)))
	_, _ = conn.Write([]byte(sent)) // the read tells
	expectClosed(t, conn)
}

// connect makes a client connection.
func connect(t testing.TB, l net.Listener) *net.TCPConn {
	t.Helper()
	conn := must.Get(net.DialTimeout("tcp", l.Addr().String(), testTimeout))(t)
	must.Do(t, conn.SetDeadline(time.Now().Add(testTimeout)))
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// accept takes the next connection.
func accept(t testing.TB, l *listener.Listener) *listener.Conn {
	t.Helper()
	c := must.Get(l.AcceptConn())(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// send writes all pieces by themselves. TCP_NODELAY is on by default, so each
// is a segment unless the reader is slower.
func send(t testing.TB, conn net.Conn, pieces ...[]byte) {
	t.Helper()
	for _, piece := range pieces {
		must.Get(conn.Write(piece))(t)
	}
}

// receive reads exactly as many bytes as are wanted.
func receive(t testing.TB, conn net.Conn, want string) {
	t.Helper()
	buf := make([]byte, len(want))
	if n, err := io.ReadFull(conn, buf); err != nil || string(buf) != want {
		t.Fatalf("read %q, %v; want %q", buf[:n], err, want)
	}
}

// expectClosed fails unless the other side closed the connection.
func expectClosed(t testing.TB, conn net.Conn) {
	t.Helper()
	n, err := conn.Read(make([]byte, 1))
	if n != 0 || (!errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET)) {
		t.Fatalf("the connection is not closed: %d bytes, %v", n, err)
	}
}

// proxyV1 and proxyV2 make PROXY headers.
func proxyV1(line string) []byte { return []byte("PROXY " + line + "\r\n") }

func proxyV2(command, family byte, parts ...[]byte) []byte {
	var body []byte
	for _, part := range parts {
		body = append(body, part...)
	}
	header := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), command, family)
	header = binary.BigEndian.AppendUint16(header, uint16(len(body)))
	return append(header, body...)
}

// addresses is the address part of a version 2 header.
func addresses(source, destination string) []byte {
	from, to := netip.MustParseAddrPort(source), netip.MustParseAddrPort(destination)
	out := append(from.Addr().AsSlice(), to.Addr().AsSlice()...)
	out = binary.BigEndian.AppendUint16(out, from.Port())
	return binary.BigEndian.AppendUint16(out, to.Port())
}

// tlv is one addition to a version 2 header.
func tlv(kind byte, value string) []byte {
	out := binary.BigEndian.AppendUint16([]byte{kind}, uint16(len(value)))
	return append(out, value...)
}
