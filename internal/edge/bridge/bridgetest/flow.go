package bridgetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/must"
)

// testFlowsAtOnce checks that every write arrives before the next one, in both
// directions: each side sends only after it got the last message of the other.
// A buffer that waits for more data would deadlock.
func testFlowsAtOnce(t *testing.T, start Start) {
	// Enough rounds that a write which waits for more would block the test.
	const rounds = 20
	// heard carries each piece of the body from the origin to the test.
	heard := make(chan string, 1)
	w := start(t, Handler(func(x *Exchange) {
		if err := x.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
			t.Error(err)
			return
		}
		var body h1.Body
		limits := h1.DefaultLimits()
		body.Reset(x.Head.Framing, 0, true, &limits)
		transfer := h1.Transfer{From: x.Reader, Body: &body, To: h1.NewWriter(&sink{w: writerFunc(func(p []byte) (int, error) {
			heard <- string(p)
			return len(p), x.Send(fmt.Sprintf("%x\r\n%s\r\n", len(p), p))
		})}, new(h1.BufferPool), h1.Timeouts{})}
		if err := transfer.Run(); err != nil {
			t.Error(err)
		}
		_ = x.Send("0\r\n\r\n")
	}))
	// The pipe lets the test decide when the client sends more.
	up, feed := io.Pipe()
	response := must.Get(w.Client.Do(request(t, w, "POST", "/", up).WithContext(t.Context())))(t)
	defer response.Body.Close()
	buf := make([]byte, 100)
	for i := range rounds {
		word := fmt.Sprintf("event %d", i)
		must.Get(io.WriteString(feed, word))(t)
		if got := Within(t, "upload", heard); got != word {
			t.Fatalf("the origin heard %q", got)
		}
		n, err := io.ReadFull(response.Body, buf[:len(word)])
		if err != nil || string(buf[:n]) != word {
			t.Fatalf("the client heard %q, %v", buf[:n], err)
		}
	}
	feed.Close()
	if n, err := response.Body.Read(buf); err != io.EOF {
		t.Errorf("after the end: %d bytes, %v", n, err)
	}
}

// writerFunc adapts a function to io.Writer.
type writerFunc func([]byte) (int, error)

// Write calls f.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// testLarge sends 20 MB through the bridge and back, and checks that the heap
// stays bounded. The origin returns each piece at once, so nothing may
// accumulate.
func testLarge(t *testing.T, start Start) {
	const size = 20 << 20
	var peak atomic.Uint64
	w := start(t, Handler(func(x *Exchange) {
		head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n", x.Field("X-Size"))
		if err := x.Send(head); err != nil {
			t.Error(err)
			return
		}
		seen := 0
		_, err := x.UploadTo(writerFunc(func(p []byte) (int, error) {
			// Reading memory statistics stops the world, so it is done once a megabyte.
			if seen += len(p); seen%(1<<20) < len(p) {
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				peak.Store(max(peak.Load(), now.HeapInuse))
			}
			return x.Conn.Write(p)
		}))
		if err != nil {
			t.Errorf("after %d bytes: %v", seen, err)
		}
	}))
	// A collection first gives a baseline without garbage of earlier tests.
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	// With a length and in chunks: the second passes through frameChunk.
	for _, tt := range []struct{ size, length int64 }{{size, size}, {size / 10, -1}} {
		r := request(t, w, "POST", "/", unsized{pattern(tt.size)})
		r.ContentLength = tt.length
		r.Header.Set("X-Size", fmt.Sprint(tt.size))
		response := must.Get(w.Client.Do(r.WithContext(t.Context())))(t)
		must.Do(t, same(response.Body, pattern(tt.size)))
		response.Body.Close()
	}
	// 16 MiB leave room for windows, buffers and garbage, and are less than the
	// body.
	if grown := int64(peak.Load()) - int64(before.HeapInuse); grown > 16<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

// pattern returns a reader of size bytes that do not repeat at the boundaries
// of buffers.
func pattern(size int64) io.Reader { return io.LimitReader(new(counting), size) }

// counting repeats block without end.
type counting struct{ at int }

// block has a prime length, so that its repetition never aligns with a buffer:
// a lost or duplicated buffer changes the content.
var block = func() (b [65521]byte) {
	for i := range b {
		b[i] = byte(i*i>>7) ^ byte(i)
	}
	return b
}()

func (c *counting) Read(p []byte) (int, error) {
	n := copy(p, block[c.at:])
	c.at = (c.at + n) % len(block)
	return n, nil
}

// same compares two readers to their ends. It reads in blocks, so that large
// bodies are never in memory as a whole.
func same(got, want io.Reader) error {
	a, b := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := 0; ; {
		n, err := io.ReadFull(got, a)
		// The wanted reader is in memory and ends only at its end, so its error
		// adds nothing.
		m, _ := io.ReadFull(want, b)
		if n != m || !bytes.Equal(a[:n], b[:n]) {
			return fmt.Errorf("differs after %d bytes: %d and %d more, %v", at, n, m, err)
		}
		if at += n; err != nil {
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return nil
			}
			return err
		}
	}
}

// stalled waits until a counter stops growing, and returns it. It detects that
// back pressure has stopped a sender, for which there is no event.
func stalled(t *testing.T, count *atomic.Int64) int64 {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	give := time.After(Timeout)
	// Six ticks without progress count as a stall. A slow machine makes the test longer,
	// not wrong.
	for last, steady := int64(-1), 0; ; {
		select {
		case <-tick.C:
		case <-give:
			t.Fatal("it does not stop")
		}
		if now := count.Load(); now != last {
			last, steady = now, 0
		} else if steady++; steady == 6 {
			return now
		}
	}
}

// maxBuffered is more than the flow-control windows of both protocols and all
// buffers hold, and less than the bodies of the tests.
const maxBuffered = 8 << 20

// testPressureDown checks back pressure from client to origin: the writes of
// the origin block while the client does not read, and the whole body arrives
// once it does.
func testPressureDown(t *testing.T, start Start) {
	// More than the windows, so that an unbounded buffer would take all of it.
	const size = 14 << 20
	var written atomic.Int64
	w := start(t, Handler(func(x *Exchange) {
		if err := x.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size)); err != nil {
			t.Error(err)
			return
		}
		// The origin writes as fast as the stream takes it, and counts only
		// completed writes.
		buf := make([]byte, 32<<10)
		for source := pattern(size); ; {
			n, err := io.ReadFull(source, buf)
			if n == 0 {
				return
			}
			if _, werr := x.Conn.Write(buf[:n]); werr != nil {
				t.Error(werr)
				return
			}
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	response := must.Get(w.Client.Do(request(t, w, "GET", "/", nil).WithContext(t.Context())))(t)
	defer response.Body.Close()
	if n := stalled(t, &written); n > maxBuffered {
		t.Errorf("%d bytes were buffered without a reader", n)
	}
	if err := same(response.Body, pattern(size)); err != nil {
		t.Error(err)
	}
}

// testPressureUp checks back pressure from origin to client: the upload stops
// while the origin does not read, and continues once it does.
func testPressureUp(t *testing.T, start Start) {
	const size = 14 << 20
	// The origin waits until the test has measured the stall.
	goOn := make(chan struct{})
	w := start(t, Handler(func(x *Exchange) {
		<-goOn
		hash := int64(0)
		_, err := x.UploadTo(writerFunc(func(p []byte) (int, error) {
			hash += int64(len(p))
			return len(p), nil
		}))
		if err != nil {
			t.Error(err)
		}
		_ = x.Respond(200, fmt.Sprint(hash))
	}))
	var sent atomic.Int64
	source := pattern(size)
	// The count is of bytes that the client has taken from the body, so it
	// includes its own buffers.
	body := unsized{readerFunc(func(p []byte) (int, error) {
		n, err := source.Read(p)
		sent.Add(int64(n))
		return n, err
	})}
	response := make(chan string, 1)
	go func() {
		_, got := do(t, w, request(t, w, "POST", "/", body))
		response <- got
	}()
	// The window of the client's side is smaller than that of the server's.
	if n := stalled(t, &sent); n > 3<<20 {
		t.Errorf("%d bytes were buffered without a reader", n)
	}
	close(goOn)
	if got := Within(t, "answer", response); got != fmt.Sprint(size) {
		t.Errorf("got %s", got)
	}
}

// readerFunc adapts a function to io.Reader.
type readerFunc func([]byte) (int, error)

// Read calls f.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// testEarlyResponse checks that a response arrives while the upload is still
// open, and that the server then stops the upload (RFC 9113, section 8.1; RFC
// 9114, section 4.1).
func testEarlyResponse(t *testing.T, start Start) {
	w := start(t, Handler(func(x *Exchange) { _ = x.Respond(413, "too much") }))
	up, feed := io.Pipe()
	defer feed.Close()
	response := must.Get(w.Client.Do(request(t, w, "POST", "/", up).WithContext(t.Context())))(t)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != 413 || string(body) != "too much" || err != nil {
		t.Errorf("got %d %q, %v", response.StatusCode, body, err)
	}
	// The rest is not read: the client stops by itself.
	// 64 MB do not fit any window: the copy ends only if the stream is stopped.
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(feed, pattern(64<<20))
		ended <- err
	}()
	if err := Within(t, "the upload's end", ended); err == nil {
		t.Error("64 MB were taken after the response")
	}
}

// testCancel checks that the origin learns that its client has gone: by the
// context of the stream while it is idle, and by an error of the next read.
func testCancel(t *testing.T, start Start) {
	arrived := make(chan struct{})
	outcome := make(chan error, 2)
	w := start(t, Handler(func(x *Exchange) {
		// The context of the stream is the only signal while no call reads or writes.
		close(arrived)
		<-x.Stream.Context().Done()
		outcome <- nil
		_, _, err := x.Upload()
		outcome <- err
	}))
	up, feed := io.Pipe()
	defer feed.Close()
	// The client cancels by its context, which resets the stream.
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		response, err := w.Client.Do(request(t, w, "POST", "/", up).WithContext(ctx))
		if err == nil {
			response.Body.Close()
		}
		failed <- err
	}()
	Within(t, "request", arrived)
	cancel()
	if err := Within(t, "client", failed); err == nil {
		t.Error("the client got a response")
	}
	_ = Within(t, "context", outcome)
	if err := Within(t, "upload", outcome); err == nil {
		t.Error("the upload looks complete")
	}
}

// testBrokenUpload checks that an upload which the client aborts ends in an
// error, with and without a length. A truncated body must never look complete.
func testBrokenUpload(t *testing.T, start Start) {
	for _, length := range []int64{100, -1} {
		t.Run(fmt.Sprint("length ", length), func(t *testing.T) {
			outcome, arrived := make(chan error, 1), make(chan struct{})
			w := start(t, Handler(func(x *Exchange) {
				close(arrived)
				_, _, err := x.Upload()
				outcome <- err
			}))
			// The client resets its stream when the body fails, after the origin has begun to
			// read.
			body := io.MultiReader(strings.NewReader("hello"), readerFunc(func([]byte) (int, error) {
				<-arrived
				return 0, errors.New("the disk is gone")
			}))
			r := request(t, w, "POST", "/", body)
			r.ContentLength = length
			if response, err := w.Client.Do(r.WithContext(t.Context())); err == nil {
				response.Body.Close()
				t.Error("the client got a response")
			}
			if err := Within(t, "upload", outcome); err == nil {
				t.Error("the upload looks complete")
			}
		})
	}
}

// testDeadlines checks that a deadline or Close ends a blocked Read and a
// blocked Write, and that the response then does not look complete.
func testDeadlines(t *testing.T, start Start) {
	// Each must end a call that is blocked already. The third replaces a
	// deadline by an earlier one: the timer of the first must not win.
	endings := map[string]func(net.Conn) error{
		"deadline in the past":   func(c net.Conn) error { return c.SetDeadline(time.Unix(1, 0)) },
		"deadline in the future": func(c net.Conn) error { return c.SetDeadline(time.Now().Add(20 * time.Millisecond)) },
		"a deadline brought near": func(c net.Conn) error {
			return errors.Join(c.SetDeadline(time.Now().Add(time.Hour)), c.SetDeadline(time.Now()))
		},
		"close": func(c net.Conn) error { return c.Close() },
	}
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			outcome := make(chan error, 2)
			w := start(t, Handler(func(x *Exchange) {
				// Both directions block at once: the upload has no data and the
				// client does not read.
				var calls sync.WaitGroup
				calls.Go(func() {
					_, _, err := x.Upload()
					outcome <- err
				})
				var written atomic.Int64
				calls.Go(func() {
					err := x.Send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
					for err == nil {
						err = x.Send(strings.Repeat("x", 32<<10))
						written.Add(1)
					}
					outcome <- err
				})
				// The window is full now, so that the write is blocked.
				stalled(t, &written)
				if err := end(x.Conn); err != nil {
					t.Error(err)
				}
				calls.Wait()
			}))
			up, feed := io.Pipe()
			defer feed.Close()
			response := must.Get(w.Client.Do(request(t, w, "POST", "/", up).WithContext(t.Context())))(t)
			defer response.Body.Close()
			for range 2 {
				err := Within(t, "end", outcome)
				want := os.ErrDeadlineExceeded
				if name == "close" {
					want = net.ErrClosed
				}
				// HTTP/2 ends both directions when one is too slow.
				if !errors.Is(err, want) && !strings.Contains(fmt.Sprint(err), want.Error()) {
					t.Errorf("ended with %v", err)
				}
			}
			if _, err := io.Copy(io.Discard, response.Body); err == nil {
				t.Error("the response looks complete")
			}
		})
	}
	t.Run("no call waits", func(t *testing.T) { testSlowOrigin(t, start) })
}

// testSlowOrigin checks that a deadline which expires while no call waits fails
// only calls that start after it. Once the deadline is cleared, the stream
// works again: a slow origin is not the fault of the client.
func testSlowOrigin(t *testing.T, start Start) {
	w := start(t, Handler(func(x *Exchange) {
		soon := time.Now().Add(time.Millisecond)
		if err := x.Conn.SetDeadline(soon); err != nil {
			t.Error(err)
		}
		// The deadline passes while neither Read nor Write runs.
		<-time.After(time.Until(soon) + 20*time.Millisecond)
		if n, err := x.Conn.Read(make([]byte, 100)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a Read after the deadline: %d, %v", n, err)
		}
		if n, err := x.Conn.Write([]byte("HTTP/1.1")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a Write after the deadline: %d, %v", n, err)
		}
		if err := x.Conn.SetDeadline(time.Time{}); err != nil {
			t.Error(err)
		}
		body, _, err := x.Upload()
		_ = x.Respond(200, fmt.Sprint(string(body), err))
	}))
	if _, body := do(t, w, request(t, w, "POST", "/", unsized{strings.NewReader("hello")})); body != "hello<nil>" {
		t.Errorf("got %q", body)
	}
}

// testPanic checks that a panic in Serve resets its own stream, and that the
// server continues.
func testPanic(t *testing.T, start Start) {
	w := start(t, Handler(func(x *Exchange) {
		if x.Head.MethodID == h1.MethodPost {
			_ = x.Respond(200, "ok")
			return
		}
		// The value of net/http for an abort, which servers do not log.
		panic(http.ErrAbortHandler)
	}))
	if response, err := w.Client.Do(request(t, w, "GET", "/", nil).WithContext(t.Context())); err == nil {
		response.Body.Close()
		t.Errorf("the client got %d", response.StatusCode)
	}
	if _, body := do(t, w, request(t, w, "POST", "/", nil)); body != "ok" {
		t.Errorf("after it: %q", body)
	}
}
