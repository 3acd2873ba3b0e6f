package resilience

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/test/conformance/rawh2"
)

const (
	// attackers is how many connections flood at a time.
	attackers = 4
	// burst is how many frames are written with one system call.
	burst = 200
	// overtime is how much longer a flood may last until all attackers were
	// thrown out.
	overtime = 20 * time.Second
	// closings is how often each of them is thrown out at least: as often as it
	// takes to be banned, and once more.
	closings = 4
	// respite is the pause of an attacker that was thrown out.
	respite = 20 * time.Millisecond
)

// memoryLimit is how much more memory an edge under attack may take. In a short
// test that includes garbage: a busy machine does not get to collect it in time.
func memoryLimit() int64 {
	if long() {
		return 64 << 20
	}
	return 128 << 20
}

// breath is the pause of an attacker between two waves. In a short test the
// attackers must not be what slows down the honest client, which is in the same
// process: they send 8,000 frames a second each.
func breath() time.Duration {
	if long() {
		return 0
	}
	return 25 * time.Millisecond
}

// flood is an attack with frames of HTTP/2.
type flood struct {
	name string
	// begin prepares a connection.
	begin func(c *rawh2.Conn) error
	// wave writes some frames. first is the stream to use, and those after it
	// are free: each wave has burst of them.
	wave func(c *rawh2.Conn, first uint32) error
	// byMany is set when it is also tried with a new address for each connection.
	byMany bool
	// tolerated is set when the edge may keep the connection: what comes costs no
	// more than honest requests.
	tolerated bool
}

// request are the fields of an honest request.
func request(method, path string) []rawh2.Field {
	return []rawh2.Field{rawh2.F(":method", method), rawh2.F(":scheme", "http"), rawh2.F(":authority", "flood.test"), rawh2.F(":path", path)}
}

// each calls back for every stream of a wave.
func each(first uint32, call func(stream uint32) error) error {
	for i := range uint32(burst) {
		if err := call(first + 2*i); err != nil {
			return err
		}
	}
	return nil
}

func floods() []flood {
	get := func(c *rawh2.Conn, stream uint32, end bool) error {
		return c.Headers(stream, end, request("GET", "/flood")...)
	}
	return []flood{
		{name: "rapid reset (CVE-2023-44487)", byMany: true, wave: func(c *rawh2.Conn, first uint32) error {
			return each(first, func(stream uint32) error {
				return errors.Join(get(c, stream, true), c.WriteRSTStream(stream, http2.ErrCodeCancel))
			})
		}},
		{name: "provoked reset, window (CVE-2025-8671)", wave: func(c *rawh2.Conn, first uint32) error {
			return each(first, func(stream uint32) error {
				return errors.Join(get(c, stream, false), c.WriteWindowUpdate(stream, 0))
			})
		}},
		{name: "provoked reset, closed stream (CVE-2025-8671)", wave: func(c *rawh2.Conn, first uint32) error {
			return each(first, func(stream uint32) error {
				return errors.Join(get(c, stream, true), c.WriteData(stream, true, []byte("x")))
			})
		}},
		{name: "provoked reset, priority of itself (CVE-2025-8671)", wave: func(c *rawh2.Conn, first uint32) error {
			return each(first, func(stream uint32) error {
				return errors.Join(get(c, stream, true), c.WritePriority(stream, http2.PriorityParam{StreamDep: stream}))
			})
		}},
		{name: "continuation (CVE-2023-45288)", byMany: true, begin: func(c *rawh2.Conn) error {
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.Block(request("GET", "/flood")...)})
		}, wave: func(c *rawh2.Conn, _ uint32) error {
			return each(1, func(uint32) error { return c.WriteContinuation(1, false, c.Block(rawh2.F("x-a", "b"))) })
		}},
		{name: "empty continuation", begin: func(c *rawh2.Conn) error {
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.Block(request("GET", "/flood")...)})
		}, wave: func(c *rawh2.Conn, _ uint32) error {
			return each(1, func(uint32) error { return c.WriteContinuation(1, false, nil) })
		}},
		{name: "ping (CVE-2019-9512)", byMany: true, wave: func(c *rawh2.Conn, _ uint32) error {
			return each(1, func(uint32) error { return c.WritePing(false, [8]byte{1}) })
		}},
		{name: "settings (CVE-2019-9515)", byMany: true, wave: func(c *rawh2.Conn, _ uint32) error {
			return each(1, func(uint32) error { return c.WriteSettings() })
		}},
		{name: "empty data (CVE-2019-9518)", byMany: true, begin: func(c *rawh2.Conn) error {
			return c.Headers(1, false, request("POST", "/flood")...)
		}, wave: func(c *rawh2.Conn, _ uint32) error {
			return each(1, func(uint32) error { return c.WriteData(1, false, nil) })
		}},
		{name: "priority (CVE-2019-9513)", wave: func(c *rawh2.Conn, first uint32) error {
			return each(first, func(stream uint32) error {
				return c.WritePriority(stream, http2.PriorityParam{StreamDep: stream - 1, Weight: uint8(stream)})
			})
		}},
		{name: "window update", wave: func(c *rawh2.Conn, _ uint32) error {
			return each(1, func(uint32) error { return c.WriteWindowUpdate(0, 1) })
		}},
		{name: "unknown frames", wave: func(c *rawh2.Conn, _ uint32) error {
			return each(1, func(uint32) error { return c.WriteRawFrame(0xbe, 0, 0, nil) })
		}},
		{name: "streams beyond the limit", wave: func(c *rawh2.Conn, first uint32) error {
			return each(first, func(stream uint32) error { return c.Headers(stream, false, request("POST", "/flood")...) })
		}},
		{name: "header bomb (CVE-2016-6581)", tolerated: true, wave: bomb},
		{name: "cookie bomb", tolerated: true, wave: cookies},
	}
}

// bomb sends header blocks of a few kilobytes that unpack to tens of megabytes:
// one large entry of the dynamic table, named again and again.
func bomb(c *rawh2.Conn, first uint32) error {
	for i := range uint32(10) {
		block := c.Block(append(request("GET", "/flood"), rawh2.F("x-bomb", strings.Repeat("b", 3900)))...)
		block = append(block, bytes.Repeat([]byte{0x80 | 62}, 8000)...)
		err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: first + 2*i, BlockFragment: block, EndStream: true, EndHeaders: true})
		if err != nil {
			return err
		}
	}
	return nil
}

// cookies sends as many small cookies as fit a frame.
func cookies(c *rawh2.Conn, first uint32) error {
	for i := range uint32(10) {
		block := c.Block(append(request("GET", "/flood"), rawh2.F("cookie", "a=b"))...)
		block = append(block, bytes.Repeat([]byte{0x80 | 62}, 12000)...)
		err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: first + 2*i, BlockFragment: block, EndStream: true, EndHeaders: true})
		if err != nil {
			return err
		}
	}
	return nil
}

// batched is a connection that writes many frames at once.
type batched struct {
	net.Conn
	out *bufio.Writer
}

// Write keeps what is written until there is enough of it.
func (b batched) Write(p []byte) (int, error) { return b.out.Write(p) }

// lives is what became of the connections of attackers.
type lives struct {
	mu      sync.Mutex
	closed  int
	longest time.Duration
}

// enough reports whether a flood may end: it had its time, and the attackers were
// thrown out often enough. A machine that is busy with other things gets more time.
func (l *lives) enough(f flood, lasted, wanted time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return lasted >= wanted && (f.tolerated || l.closed >= closings*attackers || lasted >= wanted+overtime)
}

// ended notes a connection that the edge ended.
func (l *lives) ended(lasted time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed++
	l.longest = max(l.longest, lasted)
}

// attack floods with one connection after the other until the context ends. It
// reports those that the edge ended.
func (f flood) attack(ctx context.Context, address string, from place, ended func(lasted time.Duration)) {
	for ctx.Err() == nil {
		began := time.Now()
		if f.once(ctx, address, from()) {
			ended(time.Since(began))
		}
		select {
		case <-ctx.Done():
		case <-time.After(respite):
		}
	}
}

// once floods until the connection ends, and reports whether it was the edge
// that ended it.
func (f flood) once(ctx context.Context, address string, from net.IP) bool {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		// A banned client may be disconnected while it still connects.
		return errors.Is(err, syscall.ECONNRESET) && ctx.Err() == nil
	}
	defer func() { _ = conn.Close() }()
	var reading sync.WaitGroup
	defer reading.Wait()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	// An attacker who does not read would only slow itself down.
	ended := make(chan struct{})
	reading.Go(func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, conn)
	})
	out := bufio.NewWriterSize(conn, 64<<10)
	c, err := rawh2.New(batched{conn, out})
	if err == nil && f.begin != nil {
		err = f.begin(c)
	}
	for first := uint32(3); err == nil && first < 1<<30; first += 2 * burst {
		if err = f.wave(c, first); err == nil {
			err = out.Flush()
		}
		select {
		case <-ended:
			return ctx.Err() == nil
		case <-time.After(breath()):
		}
	}
	return ctx.Err() == nil
}
