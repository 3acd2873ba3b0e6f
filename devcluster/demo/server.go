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
	readHeaderTimeout = 10 * time.Second
	// Longer than /sleep may take; /stream and /bytes move their deadlines on.
	requestTimeout = 2 * time.Minute
	// Longer than the idle time of common proxies, so that they, not the
	// server, close a connection that is about to be used again.
	idleTimeout    = 3 * time.Minute
	maxHeaderBytes = 1 << 20
	maxLoggedURI   = 512
)

// identity is what the server says about itself.
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

// server answers requests on all listeners of one container.
type server struct {
	self   identity
	log    *slog.Logger
	http   *http.Server
	paths  map[string]http.HandlerFunc
	active activity

	ready    atomic.Bool // as --not-ready, POST /ready and POST /unready say
	stopping atomic.Bool // never ready again

	exitCode int
	exit     chan int // codes asked for by POST /exit
}

func newServer(self identity, opts options, log *slog.Logger) *server {
	s := &server{self: self, log: log, exitCode: opts.exitCode, exit: make(chan int, 1)}
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

// containerPortKey finds the container port of a request in its context.
type containerPortKey struct{}

// serve starts one accept loop per listener. The channel gets the error of a
// loop that ends although nobody stopped the server.
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

// drain stops a server that is no longer ready and reports whether every
// request finished within the timeout. New connections are accepted while
// earlier requests run, and at least for the delay before that: clients need a
// moment to learn from /readyz that the Pod goes away.
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

// close ends the server now, with a moment for answers that are on their way.
func (s *server) close(wait time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close()
	}
}

func (s *server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if s.active.begin() {
		defer s.active.end()
	}
	w.Header().Set("X-Slipway-Pod", s.self.name)
	w.Header().Set("X-Slipway-Version", s.self.version)
	if s.stopping.Load() {
		// The client goes elsewhere by itself, before its idle connection is
		// closed under it. In HTTP/2 net/http makes a GOAWAY of this.
		w.Header().Set("Connection", "close")
	}
	handle, ok := s.paths[r.URL.Path]
	if !ok {
		handle = s.echo
	}
	began := time.Now()
	rec := &recorder{ResponseWriter: w}
	// Deferred, because a handler may panic and its request still counts.
	defer func() {
		s.log.Info("request", "method", r.Method, "uri", shorten(r.RequestURI, maxLoggedURI), "host", shorten(r.Host, maxLoggedURI),
			"proto", r.Proto, "status", cmp.Or(rec.status, http.StatusOK), "bytes", rec.bytes,
			"duration", time.Since(began), "remote", r.RemoteAddr)
	}()
	handle(rec, r)
}

func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}

// recorder notes for the log what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// activity counts the requests that began before drain was called. Later ones
// are not waited for here, or steady traffic would never let the server go.
type activity struct {
	mu       sync.Mutex
	running  int
	draining bool
	finished chan struct{} // closed when draining and nothing runs
}

func (a *activity) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.draining {
		return false
	}
	a.running++
	return true
}

func (a *activity) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running--
	if a.draining && a.running == 0 {
		close(a.finished)
	}
}

func (a *activity) drain() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.draining = true
	if a.running == 0 {
		close(a.finished)
	}
	return a.finished
}
