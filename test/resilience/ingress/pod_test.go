package ingress

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	podPort = 8080
	// nonceHeader has the nonce of a request a second time; the path has it too.
	nonceHeader = "X-Nonce"
	// holdHeader has how long a request is to be kept.
	holdHeader = "X-Hold"
)

// echoed is what a pod reports of a request.
type echoed struct {
	Service string
	Pod     string
	Host    string
	Nonces  []string // in the path, in the header, in the body
}

// pod is a server of a Service. It responds with its name and all of the nonces
// of a request.
type pod struct {
	service string
	address netip.Addr
	born    time.Time
	// end finishes what is under way and takes nothing new, as a program does that
	// got SIGTERM; cut ends the server at once.
	end func(context.Context) error
	cut func()

	// leaves is when it was published as terminating; zero while it is not. unready
	// is set while it is published as not ready. Both belong to the Service.
	leaves  time.Time
	unready bool

	mu   sync.Mutex
	last time.Time // of the last request
}

// protocol starts the server of a pod, and returns its end and cut.
type protocol func(*pod) (end func(context.Context) error, cut func(), err error)

// startPod listens on an address. The caller ends it.
func startPod(service string, address netip.Addr, serve protocol) (*pod, error) {
	p := &pod{service: service, address: address, born: time.Now()}
	var err error
	p.end, p.cut, err = serve(p)
	return p, err
}

// listensAt is the address of its server.
func (p *pod) listensAt() string { return netip.AddrPortFrom(p.address, podPort).String() }

// note records a request.
func (p *pod) note() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
}

// echo is the response to a request.
func (p *pod) echo(host string, nonces ...string) []byte {
	text, err := json.Marshal(echoed{Service: p.service, Pod: p.address.String(), Host: host, Nonces: nonces})
	if err != nil {
		panic(err) // plain values
	}
	return text
}

// serveHTTP is the protocol HTTP/1.1.
func serveHTTP(p *pod) (func(context.Context) error, func(), error) {
	listener, err := net.Listen("tcp", p.listensAt())
	if err != nil {
		return nil, nil, err
	}
	server, done := &http.Server{Handler: p, ReadHeaderTimeout: patience}, make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // it ends when it is shut down
	}()
	end := func(ctx context.Context) error {
		err := server.Shutdown(ctx)
		<-done
		return err
	}
	return end, func() {
		_ = server.Close() // the test is over
		<-done
	}, nil
}

// ServeHTTP responds to a request.
func (p *pod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.note()
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<10))
	if err != nil {
		return
	}
	if held, err := time.ParseDuration(r.Header.Get(holdHeader)); err == nil {
		pause(r.Context(), held)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(p.echo(r.Host, r.URL.Path, r.Header.Get(nonceHeader), string(body))) // the client may have left
}

// asked is when the last request came.
func (p *pod) asked() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// addresses are those that pods can have. One that is given back comes last, so
// that another Service gets it soon enough, and not at once.
type addresses struct {
	mu   sync.Mutex
	free []netip.Addr
}

func newAddresses(network netip.Prefix) *addresses {
	a := &addresses{}
	for at := network.Addr().Next(); network.Contains(at.Next()); at = at.Next() {
		a.free = append(a.free, at)
	}
	return a
}

func (a *addresses) take() (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.free) == 0 {
		return netip.Addr{}, errors.New("no address is left")
	}
	first := a.free[0]
	a.free = a.free[1:]
	return first, nil
}

func (a *addresses) give(address netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = append(a.free, address)
}
