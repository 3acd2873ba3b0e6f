package demo

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// readHeaderTimeout closes connections of clients that never finish a
	// header.
	readHeaderTimeout = 10 * time.Second
	// requestTimeout is longer than /sleep may take; /stream and /bytes extend
	// their deadlines.
	requestTimeout = 2 * time.Minute
	// idleTimeout is longer than that of common proxies, so that they, not the
	// server, close a connection that is about to be used again.
	idleTimeout    = 3 * time.Minute
	maxHeaderBytes = 1 << 20
	// maxLoggedURI bounds the part of a URI or host in a log line; a header may
	// have a megabyte.
	maxLoggedURI = 512
)

// identity is the Pod that the server reports in each response.
type identity struct {
	name, namespace, ip string
	version, colour     string
}

// identify reads the environment. POD_NAMESPACE and POD_IP are the customary
// names for the fields of the downward API.
func identify(getenv func(string) string) identity {
	hostname, _ := os.Hostname()
	return identity{
		name:      cmp.Or(getenv("POD_NAME"), getenv("HOSTNAME"), hostname, "demo"),
		namespace: getenv("POD_NAMESPACE"),
		ip:        getenv("POD_IP"),
		version:   cmp.Or(getenv("VERSION"), getenv(envVersion), "v1"),
		colour:    cmp.Or(getenv("COLOUR"), getenv(envColour), palette[0].name),
	}
}

// server handles the requests of all listeners of one container.
type server struct {
	self   identity
	log    *slog.Logger
	http   *http.Server
	paths  map[string]http.HandlerFunc
	active activity
	fault  *fault

	ready    atomic.Bool // set by --not-ready, POST /ready and POST /unready
	stopping atomic.Bool // draining: never ready again

	exitCode int
	exit     chan int // exit code of POST /exit; holds one
}

// newServer returns a server that does not listen yet. Besides HTTP/1.1 it
// accepts HTTP/2 without TLS (h2c), so that proxies can be tested with both.
func newServer(self identity, opts options, fault *fault, log *slog.Logger) *server {
	s := &server{self: self, log: log, fault: fault, exitCode: opts.exitCode, exit: make(chan int, 1)}
	s.ready.Store(!opts.notReady)
	s.active.finished = make(chan struct{})
	// Exact paths. A ServeMux would redirect unclean paths, and an echo has
	// to show what reached it.
	s.paths = map[string]http.HandlerFunc{
		"/api":     s.echoJSON,
		"/healthz": s.healthz,
		"/readyz":  s.readyz,
		"/ready":   s.setReady,
		"/unready": s.setUnready,
		"/exit":    s.crash,
		"/bytes":   s.bytes,
		"/stream":  s.stream,
		"/sleep":   s.sleep,
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serveHTTP),
		Protocols:         protocols,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		BaseContext: func(l net.Listener) context.Context {
			return context.WithValue(context.Background(), containerPortKey{}, l.(listener).containerPort)
		},
	}
	return s
}

// containerPortKey is the context key of a request's container port.
type containerPortKey struct{}

// serve starts one accept loop per listener. The channel receives the error of
// a loop that ends without a shutdown; it has room for all, so no loop blocks.
func (s *server) serve(listeners []listener) <-chan error {
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		s.log.Info("listening", "port", l.containerPort, "address", l.Addr())
		go func() {
			if err := s.http.Serve(l); err != http.ErrServerClosed {
				failed <- err
			}
		}()
	}
	return failed
}

// drain shuts down a server that is no longer ready, and reports whether every
// request finished within the timeout. It accepts new connections for at least
// the delay, and then while earlier requests run: clients need a moment to
// learn from /readyz that the Pod is terminating.
func (s *server) drain(timeout, delay time.Duration) bool {
	if delay > 0 {
		<-time.After(delay)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	select {
	case <-s.active.drain():
	case <-ctx.Done():
	}
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close()
		return false
	}
	return true
}

// close shuts the server down, with a moment for responses that are being
// written.
func (s *server) close(wait time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close()
	}
}

// serveHTTP dispatches a request by its exact path and logs it. Every response
// carries the Pod and its version, so that a client can count how a rollout
// shifts traffic.
func (s *server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if s.active.begin() {
		defer s.active.end()
	}
	w.Header().Set("X-Slipway-Pod", s.self.name)
	w.Header().Set("X-Slipway-Version", s.self.version)
	if s.stopping.Load() {
		// The client opens a connection to another Pod, before its idle one is
		// closed under it. In HTTP/2 net/http sends a GOAWAY for this header.
		w.Header().Set("Connection", "close")
	}
	handle, ok := s.paths[r.URL.Path]
	if !ok {
		handle = s.echo
	}
	began := time.Now()
	rec := &recorder{ResponseWriter: w}
	// Deferred, because a handler may panic and its request is logged all the
	// same.
	defer func() {
		s.log.Info("request", "method", r.Method, "uri", shorten(r.RequestURI, maxLoggedURI), "host", shorten(r.Host, maxLoggedURI),
			"proto", r.Proto, "status", cmp.Or(rec.status, http.StatusOK), "bytes", rec.bytes,
			"duration", time.Since(began), "remote", r.RemoteAddr)
	}()
	if !controls(r.URL.Path) && s.fault.applies(rec, r) {
		return
	}
	handle(rec, r)
}

// shorten cuts a string for the log.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}

// recorder records status and size of a response for the log.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// WriteHeader implements http.ResponseWriter; the first status is the one that
// is sent.
func (r *recorder) WriteHeader(status int) {
	r.status = cmp.Or(r.status, status)
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter and counts the bytes of the body.
func (r *recorder) Write(p []byte) (int, error) {
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// activity counts the requests that began before drain was called. Later ones
// do not count: under steady traffic the server would otherwise never stop.
type activity struct {
	mu       sync.Mutex
	running  int
	draining bool
	finished chan struct{} // closed when draining and nothing runs
}

// begin counts a request; it returns false once the drain has begun. Only a
// request that was counted may call end.
func (a *activity) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.draining {
		return false
	}
	a.running++
	return true
}

// end removes a request, and completes the drain with the last one.
func (a *activity) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running--
	if a.draining && a.running == 0 {
		close(a.finished)
	}
}

// drain stops the counting and returns a channel that is closed when the
// counted requests have finished. It must be called only once, because it may
// close the channel.
func (a *activity) drain() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.draining = true
	if a.running == 0 {
		close(a.finished)
	}
	return a.finished
}
