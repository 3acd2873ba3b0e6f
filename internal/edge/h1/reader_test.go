package h1_test

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

func write(t testing.TB, conn net.Conn, text string) {
	t.Helper()
	must.Get(io.WriteString(conn, text))(t)
}

func TestReadRequests(t *testing.T) {
	client, server := programs.Pipe(t)
	var pool h1.BufferPool
	limits := h1.DefaultLimits()
	reader := h1.NewReader(server, &pool, h1.DefaultTimeouts())
	defer reader.Close()

	cookie := strings.Repeat("c", 20_000)
	sent := "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n" +
		"GET /2 HTTP/1.1\r\nHost: a\r\nCookie: " + cookie + "\r\n\r\n" +
		"\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n" +
		strings.Repeat("GET /more HTTP/1.1\r\nHost: a\r\nX: "+strings.Repeat("x", 500)+"\r\n\r\n", 40)
	done := make(chan error, 1)
	go func() {
		_, err := io.WriteString(client, sent)
		client.CloseWrite()
		done <- err
	}()
	var head h1.Head
	var paths []string
	for {
		err := reader.ReadRequest(&head, &limits)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("after %v: %v", paths, err)
		}
		paths = append(paths, string(head.URI.Path))
		if value, ok := head.Find("Cookie"); ok && string(value) != cookie {
			t.Errorf("%s has a cookie of %d bytes", head.URI.Path, len(value))
		}
	}
	must.Do(t, <-done)
	if want := "/1 /2 /3" + strings.Repeat(" /more", 40); strings.Join(paths, " ") != want {
		t.Errorf("read %v", paths)
	}
}

func TestReadLargeHead(t *testing.T) {
	client, server := programs.Pipe(t)
	var pool h1.BufferPool
	limits := h1.DefaultLimits()
	limits.HeadBytes = 200 << 10
	reader := h1.NewReader(server, &pool, h1.DefaultTimeouts())
	defer reader.Close()
	value := strings.Repeat("v", 150_000)
	go func() { _, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: a\r\nX: "+value+"\r\n\r\n") }()
	var head h1.Head
	must.Do(t, reader.ReadRequest(&head, &limits))
	if got, _ := head.Find("X"); string(got) != value {
		t.Errorf("a value of %d bytes, want %d", len(got), len(value))
	}
}

func TestReadErrors(t *testing.T) {
	tests := []struct {
		name   string
		sent   string
		want   error
		status int
	}{
		{"nothing", "", io.EOF, 0},
		{"cut short", "GET / HTTP/1.1\r\nHo", io.ErrUnexpectedEOF, 0},
		{"not HTTP", "\x16\x03\x01", h1.ErrMethod, 400},
		{"too large", "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 40_000), h1.ErrHeadTooLarge, 431},
		{"target too long", "GET /" + strings.Repeat("x", 40_000), h1.ErrTargetTooLong, 414},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			client, server := programs.Pipe(t)
			var pool h1.BufferPool
			limits := h1.DefaultLimits()
			reader := h1.NewReader(server, &pool, h1.DefaultTimeouts())
			defer reader.Close()
			go func() {
				// The reader may hang up before all of it is sent.
				_, _ = io.WriteString(client, test.sent)
				_ = client.CloseWrite()
			}()
			var head h1.Head
			err := reader.ReadRequest(&head, &limits)
			if !errors.Is(err, test.want) || h1.StatusOf(err) != test.status {
				t.Errorf("error %v, status %d, want %v, %d", err, h1.StatusOf(err), test.want, test.status)
			}
		})
	}
}

// TestTimeouts has clients that stall at each stage. The clock is the test's.
func TestTimeouts(t *testing.T) {
	tests := []struct {
		name string
		// client sends what it does before it stalls.
		client func(conn net.Conn)
		want   error
		status int
		// The reader must give up in this span.
		least, most time.Duration
	}{
		{"never sends a byte", func(net.Conn) {}, h1.ErrIdle, 0, 10 * time.Second, 11 * time.Second},
		{"sends half a head", func(conn net.Conn) { _, _ = io.WriteString(conn, "GET / HT") },
			os.ErrDeadlineExceeded, 408, 10 * time.Second, 11 * time.Second},
		{"drips a head", func(conn net.Conn) { drip(conn, "GET / HTTP/1.1\r\nX: "+strings.Repeat("x", 1000), time.Second) },
			os.ErrDeadlineExceeded, 408, 10 * time.Second, 11 * time.Second},
		{"idle after a request", func(conn net.Conn) { _, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") },
			h1.ErrIdle, 0, 75 * time.Second, 76 * time.Second},
		{"drips a second head", func(conn net.Conn) {
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			drip(conn, "GET / HTTP/1.1\r\nX: "+strings.Repeat("x", 1000), 5*time.Second)
		}, os.ErrDeadlineExceeded, 408, 10 * time.Second, 17 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				ended := run(func() { test.client(client) })
				defer func() {
					client.Close()
					server.Close()
					<-ended
				}()
				var pool h1.BufferPool
				limits := h1.DefaultLimits()
				reader := h1.NewReader(server, &pool, h1.DefaultTimeouts())
				var head h1.Head
				began := time.Now()
				err := reader.ReadRequest(&head, &limits)
				if err == nil {
					began = time.Now()
					err = reader.ReadRequest(&head, &limits)
				}
				took := time.Since(began)
				if !errors.Is(err, test.want) || h1.StatusOf(err) != test.status {
					t.Errorf("error %v, status %d, want %v, %d", err, h1.StatusOf(err), test.want, test.status)
				}
				if took < test.least || took > test.most {
					t.Errorf("gave up after %v, want %v to %v", took, test.least, test.most)
				}
			})
		})
	}
}

// run starts f and returns a channel that is closed when it has ended.
func run(f func()) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	return ended
}

// drip sends text byte by byte until it is sent or the connection ends. It
// runs on a test's own clock, where a sleep takes no time.
func drip(conn net.Conn, text string, every time.Duration) {
	for i := range len(text) {
		if _, err := conn.Write([]byte{text[i]}); err != nil {
			return
		}
		<-time.After(every)
	}
}

// TestBodyTimeouts has clients that stall, or drip, in a body.
func TestBodyTimeouts(t *testing.T) {
	tests := []struct {
		name        string
		body        string
		every       time.Duration
		want        error
		least, most time.Duration
	}{
		{"stalls", "x", time.Hour, os.ErrDeadlineExceeded, 30 * time.Second, 32 * time.Second},
		{"drips", strings.Repeat("x", 1000), 20 * time.Second, h1.ErrTooSlow, 60 * time.Second, 81 * time.Second},
		{"drips, but fast enough", strings.Repeat("x", 30_000), 4 * time.Millisecond, nil, 119 * time.Second, 121 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				ended := run(func() {
					_, _ = io.WriteString(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30000\r\n\r\n")
					drip(client, test.body, test.every)
				})
				defer func() {
					client.Close()
					server.Close()
					<-ended
				}()
				sink, far := net.Pipe()
				defer sink.Close()
				defer far.Close()
				go func() { _, _ = io.Copy(io.Discard, far) }()

				var pool h1.BufferPool
				limits, times := h1.DefaultLimits(), h1.DefaultTimeouts()
				reader := h1.NewReader(server, &pool, times)
				var head h1.Head
				must.Do(t, reader.ReadRequest(&head, &limits))
				began := time.Now()
				var body h1.Body
				body.Reset(head.Framing, head.Length, false, &limits)
				transfer := h1.Transfer{From: reader, To: h1.NewWriter(sink, &pool, times), Body: &body}
				err := transfer.Run()
				took := time.Since(began)
				if !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v", err, test.want)
				}
				if took < test.least || took > test.most {
					t.Errorf("ended after %v, want %v to %v", took, test.least, test.most)
				}
			})
		})
	}
}

// TestWriteTimeout has a client that does not read.
func TestWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		defer server.Close()
		var pool h1.BufferPool
		writer := h1.NewWriter(server, &pool, h1.DefaultTimeouts())
		began := time.Now()
		_, err := writer.Write([]byte("x"))
		var side *h1.WriteError
		if !errors.As(err, &side) || !errors.Is(err, os.ErrDeadlineExceeded) || h1.StatusOf(err) != 0 {
			t.Errorf("error %v, status %d", err, h1.StatusOf(err))
		}
		if took := time.Since(began); took < 30*time.Second || took > 32*time.Second {
			t.Errorf("gave up after %v", took)
		}
	})
}

func TestInterrupt(t *testing.T) {
	t.Run("while idle", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			defer client.Close()
			defer server.Close()
			var pool h1.BufferPool
			limits := h1.DefaultLimits()
			reader := h1.NewReader(server, &pool, h1.DefaultTimeouts())
			result := make(chan error, 1)
			go func() {
				var head h1.Head
				result <- reader.ReadRequest(&head, &limits)
			}()
			synctest.Wait()
			reader.Interrupt()
			if err := <-result; err != h1.ErrInterrupted {
				t.Errorf("error %v", err)
			}
		})
	})
	t.Run("before the wait", func(t *testing.T) {
		_, server := programs.Pipe(t)
		var pool h1.BufferPool
		limits := h1.DefaultLimits()
		reader := h1.NewReader(server, &pool, h1.DefaultTimeouts())
		defer reader.Close()
		reader.Interrupt()
		var head h1.Head
		if err := reader.ReadRequest(&head, &limits); err != h1.ErrInterrupted {
			t.Errorf("error %v", err)
		}
	})
	t.Run("in the middle of a head", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			defer client.Close()
			defer server.Close()
			var pool h1.BufferPool
			limits := h1.DefaultLimits()
			reader := h1.NewReader(server, &pool, h1.DefaultTimeouts())
			result := make(chan error, 1)
			var head h1.Head
			go func() { result <- reader.ReadRequest(&head, &limits) }()
			_, _ = io.WriteString(client, "GET / HTTP/1.1\r\n")
			synctest.Wait()
			reader.Interrupt()
			// The worst that a race can do: the deadline is spoilt.
			_ = server.SetReadDeadline(time.Unix(1, 0))
			synctest.Wait()
			_, _ = io.WriteString(client, "Host: a\r\n\r\n")
			if err := <-result; err != nil {
				t.Errorf("error %v", err)
			}
		})
	})
}

// TestHeadStays checks that a head is intact while its body is read, however
// long that is, and that the next request is found behind it.
func TestHeadStays(t *testing.T) {
	client, server := programs.Pipe(t)
	sink, far := programs.Pipe(t)
	var pool h1.BufferPool
	limits, times := h1.DefaultLimits(), h1.DefaultTimeouts()
	reader := h1.NewReader(server, &pool, times)
	defer reader.Close()
	go func() { _, _ = io.Copy(io.Discard, far) }()

	const size = 300_000
	go func() {
		for range 3 {
			_, _ = io.WriteString(client, "POST /upload HTTP/1.1\r\nHost: a\r\nX-Nonce: 4711\r\nTransfer-Encoding: chunked\r\n\r\n")
			_, _ = client.Write(h1.AppendLastChunk(appendChunk(nil, []byte(strings.Repeat("x", size))), nil))
		}
		_ = client.CloseWrite()
	}()
	var head h1.Head
	count := 0
	for ; ; count++ {
		err := reader.ReadRequest(&head, &limits)
		if err == io.EOF {
			break
		}
		must.Do(t, err)
		var body h1.Body
		body.Reset(head.Framing, head.Length, false, &limits)
		transfer := h1.Transfer{From: reader, To: h1.NewWriter(sink, &pool, times), Body: &body}
		must.Do(t, transfer.Run())
		if nonce, _ := head.Find("X-Nonce"); string(nonce) != "4711" || string(head.URI.Path) != "/upload" || body.Payload() != size {
			t.Errorf("after %d bytes: nonce %q, path %q", body.Payload(), nonce, head.URI.Path)
		}
	}
	if count != 3 {
		t.Errorf("%d requests", count)
	}
}
