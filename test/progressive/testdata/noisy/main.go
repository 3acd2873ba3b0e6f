// The program noisy serves HTTP with latencies as those of the simulations of
// internal/release/judge: log-normal, with times at which all Pods of an application are
// slower and fail more, and times at which one Pod is. In addition it may fail, or leak its
// connections.
package main

import (
	"context"
	"hash/fnv"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// median and sigma are those of the log-normal latency.
	median = 20 * time.Millisecond
	sigma  = 0.7
	// errorRate is that of quiet times.
	errorRate = 0.001
	// leaving is how long it serves after SIGTERM, until edges know that it is not ready.
	leaving  = 3 * time.Second
	draining = 10 * time.Second
)

// burst is a time at which requests take longer, of an exponential length.
type burst struct {
	every, length  float64 // in seconds
	factor, errors float64
}

var (
	shared = burst{every: 15, length: 3, factor: 4, errors: 0.02}
	own    = burst{every: 20, length: 1, factor: 4}
)

// active reports whether there is a burst at a time. All who have the seed see the same ones.
func (b burst) active(seed uint64, now time.Time) bool {
	at := float64(now.UnixMilli()) / 1000
	// A burst of ten times the usual length is rare enough to be left out.
	for second := math.Floor(at); at-second < 10*b.length; second-- {
		random := rand.New(rand.NewPCG(seed, uint64(second)))
		if random.Float64() < 1/b.every && at-second < random.ExpFloat64()*b.length {
			return true
		}
	}
	return false
}

type server struct {
	version string
	// application is the seed of the bursts of all Pods, and pod that of this one.
	application, pod uint64
	more             float64 // error rate beyond the usual one
	isQuiet          bool
	leaks            bool
	stopping         atomic.Bool

	mu     sync.Mutex // guards leaked
	leaked []net.Conn
}

func main() {
	s := &server{version: os.Getenv("VERSION"), application: seedOf(os.Getenv("APPLICATION")), pod: rand.Uint64()}
	s.isQuiet = os.Getenv("QUIET") != ""
	if text := os.Getenv("MORE_ERRORS"); text != "" {
		percent, err := strconv.ParseFloat(text, 64)
		if err != nil {
			log.Fatal(err)
		}
		s.more = percent / 100
	}
	if text := os.Getenv("LEAK"); text != "" {
		limit, err := strconv.ParseUint(text, 10, 16)
		if err == nil {
			err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: limit})
		}
		if err != nil {
			log.Fatal(err)
		}
		s.leaks = true
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	web := &http.Server{Addr: ":8080", Handler: s, ReadHeaderTimeout: draining, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { log.Print(web.ListenAndServe()) }()
	<-stop.Done()
	s.stopping.Store(true)
	time.Sleep(leaving)
	ctx, end := context.WithTimeout(context.Background(), draining)
	defer end()
	if err := web.Shutdown(ctx); err != nil {
		log.Print(err)
	}
}

// seedOf is the seed of a name.
func seedOf(name string) uint64 {
	sum := fnv.New64a()
	_, _ = io.WriteString(sum, name)
	return sum.Sum64()
}

// ServeHTTP responds with the version, after a while and at times with an error.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Slipway-Version", s.version)
	if r.URL.Path == "/readyz" {
		if s.stopping.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return
	}
	if s.leaks {
		s.leak(w)
		return
	}
	factor, errors := 1.0, errorRate+s.more
	if now := time.Now(); !s.isQuiet {
		if shared.active(s.application, now) {
			factor, errors = factor*shared.factor, errors+shared.errors
		}
		if own.active(s.pod, now) {
			factor *= own.factor
		}
	}
	time.Sleep(time.Duration(float64(median) * math.Exp(sigma*rand.NormFloat64()) * factor))
	if rand.Float64() < errors {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// leak responds and does not close its connection, until the process may open no more files
// and accepts no connection.
func (s *server) leak(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Slipway-Version: "+s.version+"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaked = append(s.leaked, conn)
}
