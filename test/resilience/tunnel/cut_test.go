package tunnel

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/access/tunnel"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/programs"
)

// network is a TCP proxy between agents and the platform that can misbehave.
type network struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup

	mu    sync.Mutex
	pairs map[*pair]bool
}

// pair is one connection and its other half.
type pair struct {
	near, far net.Conn
	hole      chan struct{} // closed: nothing is read or written any more
	end       chan struct{} // closed: both are closed
}

func newNetwork(t testing.TB, target string) *network {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	n := &network{listener: listener, target: target, pairs: map[*pair]bool{}}
	n.running.Go(n.serve)
	t.Cleanup(func() {
		_ = listener.Close()
		n.reset()
		n.running.Wait()
	})
	return n
}

func (n *network) address() string { return n.listener.Addr().String() }

func (n *network) serve() {
	for {
		near, err := n.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", n.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		p := &pair{near: near, far: far, hole: make(chan struct{}), end: make(chan struct{})}
		n.mu.Lock()
		n.pairs[p] = true
		n.mu.Unlock()
		n.running.Go(func() { p.pump(near, far) })
		n.running.Go(func() { p.pump(far, near) })
	}
}

// pump copies until the pair is a hole, in which it stays until the end.
func (p *pair) pump(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		k, err := from.Read(buffer)
		select {
		case <-p.hole:
			<-p.end
			return
		default:
		}
		if err == nil {
			_, err = to.Write(buffer[:k])
		}
		select {
		case <-p.hole:
			<-p.end
			return
		default:
		}
		if err != nil {
			_, _ = from.Close(), to.Close()
			return
		}
	}
}

// reset cuts every connection with RST on both sides.
func (n *network) reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := range n.pairs {
		for _, conn := range []net.Conn{p.near, p.far} {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
		close(p.end)
	}
	clear(n.pairs)
}

// swallow makes a hole of every connection: it stays open, and nothing comes through.
// New connections work. The function ends them.
func (n *network) swallow() (end func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var swallowed []*pair
	for p := range n.pairs {
		close(p.hole)
		// Reads that wait would take one more piece.
		_, _ = p.near.SetReadDeadline(time.Now()), p.far.SetReadDeadline(time.Now())
		swallowed = append(swallowed, p)
	}
	clear(n.pairs)
	return func() {
		for _, p := range swallowed {
			_, _ = p.near.Close(), p.far.Close()
			close(p.end)
		}
	}
}

// live serves streams that last: data without end, events that do not come, and a body
// that is awaited. It reports when a request was cancelled.
func live(cancelled chan<- string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/app-proxy/ping":
			_, _ = io.WriteString(w, "pong")
			return
		case "/app-proxy/data":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 16<<10)); err != nil {
					break
				}
			}
		case "/app-proxy/events":
			_, _ = io.WriteString(w, "first\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case "/app-proxy/upload":
			_ = http.NewResponseController(w).EnableFullDuplex()
			_, _ = io.WriteString(w, "first\n")
			_ = http.NewResponseController(w).Flush()
			_, _ = io.Copy(io.Discard, r.Body)
		}
		cancelled <- r.URL.Path
	})
}

// paths are the streams of live.
var paths = []string{"/app-proxy/data", "/app-proxy/events", "/app-proxy/upload"}

// endless is a body that never ends.
type endless struct{ ctx context.Context }

func (e endless) Read(p []byte) (int, error) {
	if e.ctx.Err() != nil {
		return 0, e.ctx.Err()
	}
	return len(p), nil
}

// A cut with streams under way, which the network signals (RST) or does not (black
// hole), is noticed by both ends in time, fails the streams and nothing else: the agent
// is back, and the next request gets its response.
func TestCut(t *testing.T) {
	short := [2]time.Duration{500 * time.Millisecond, time.Second}
	for name, tt := range map[string]struct {
		hole    bool
		pulse   [2]time.Duration // ping and dead; zero is the default
		within  time.Duration
		waiting bool
	}{
		"reset":               {hole: false, within: 30 * time.Second},
		"black hole":          {hole: true, pulse: short, within: 30 * time.Second},
		"black hole, patient": {hole: true, within: 60 * time.Second, waiting: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.waiting && !long() {
				t.Skip("it takes 30 s, with RESILIENCE=long")
			}
			p := openPlatform(t, sqlite(t))
			r := p.start(t, "one", "", hub.Timing{Ping: tt.pulse[0], Dead: tt.pulse[1]})
			n := newNetwork(t, r.address)
			a := p.register(t, "a")
			cancelled := make(chan string, len(paths))
			p.join(t, a, n.address(), live(cancelled), tunnel.Timing{Ping: tt.pulse[0], Dead: tt.pulse[1], MaxBackoff: time.Second})

			failed := make(chan error, len(paths))
			for _, path := range paths {
				begin(t, r, a.ID, path, failed)
			}
			began := time.Now()
			if tt.hole {
				defer n.swallow()()
			} else {
				n.reset()
			}
			for range paths {
				if err := <-failed; err == nil {
					t.Error("a stream ended as if it were complete")
				}
			}
			for range paths {
				<-cancelled
			}
			took := time.Since(began)
			t.Logf("both ends noticed within %v", took.Round(time.Millisecond))
			if took > tt.within {
				t.Errorf("it took %v for both ends to notice", took)
			}
			programs.Until(t, "requests are answered again", func() bool {
				text, err := ask(t.Context(), r, a.ID, "/app-proxy/ping")
				return err == nil && text == "pong"
			})
		})
	}
}

// begin starts a stream and reads it to its end.
func begin(t testing.TB, r *replica, runtimeID, path string, failed chan<- error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	method, body := http.MethodGet, io.Reader(nil)
	if path == "/app-proxy/upload" {
		method, body = http.MethodPost, endless{ctx}
	}
	request, _ := http.NewRequestWithContext(ctx, method, "http://any.test"+path, body)
	response := must.Get(r.Transport(runtimeID).RoundTrip(request))(t)
	reader := bufio.NewReader(response.Body)
	must.Get(reader.ReadByte())(t)
	go func() {
		_, err := io.Copy(io.Discard, reader)
		failed <- errors.Join(err, response.Body.Close())
	}()
}
