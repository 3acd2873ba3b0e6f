package datagram

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// The defaults of Config.
const (
	DefaultIdleTimeout = time.Minute
	DefaultMaxFlows    = 16384
)

// maxDatagram is the size of the largest datagram.
const maxDatagram = 1 << 16

// Backend is the side of a flow that a route has chosen.
type Backend interface {
	// Socket is connected to the endpoint.
	Socket() *net.UDPConn
	// Current reports whether the endpoint may still get datagrams.
	Current() bool
	// Done closes the socket and ends the use of the backend; up and down are the
	// bytes that went to it and came from it. It is called once.
	Done(up, down int64)
}

// Config is the configuration of a Relay.
type Config struct {
	Address netip.AddrPort
	// Connect chooses the backend of a new flow. It is called one at a time, and must
	// not block.
	Connect func(client netip.AddrPort) (Backend, error)
	// IdleTimeout ends a flow without datagrams, and MaxFlows bounds the flows. 0 means
	// the default.
	IdleTimeout time.Duration
	MaxFlows    int
	// Full is called for each datagram of a new client at the limit, with whether another
	// flow had to end for it; nil for none.
	Full func(evicted bool)
}

// Relay relays the datagrams of one address.
type Relay struct {
	config Config
	socket *net.UDPConn
	wait   sync.WaitGroup

	mu     sync.Mutex // guards what follows
	closed bool
	flows  map[netip.AddrPort]*flow
	// sources counts the flows by network.
	sources map[netip.Prefix]int
	// open is the number of flows with a socket: those of the index, and those that are
	// about to end.
	open int
}

// Listen opens the socket. Datagrams wait in its buffer until Serve.
func Listen(config Config) (*Relay, error) {
	config.IdleTimeout = cmp.Or(config.IdleTimeout, DefaultIdleTimeout)
	config.MaxFlows = cmp.Or(config.MaxFlows, DefaultMaxFlows)
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(config.Address))
	if err != nil {
		return nil, err
	}
	return &Relay{config: config, socket: socket, flows: map[netip.AddrPort]*flow{}, sources: map[netip.Prefix]int{}}, nil
}

// Address is the address of the socket.
func (r *Relay) Address() netip.AddrPort { return r.socket.LocalAddr().(*net.UDPAddr).AddrPort() }

// Serve relays until Close.
func (r *Relay) Serve() {
	buf := make([]byte, maxDatagram)
	for {
		n, client, err := r.socket.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // of one datagram, such as an error of the network that it caused
		}
		if f := r.flowOf(client); f != nil {
			f.send(buf[:n])
		}
	}
}

// Close closes the relay with its flows, and returns when all have ended.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	for _, f := range r.flows {
		f.interrupt()
	}
	r.mu.Unlock()
	r.socket.Close()
	r.wait.Wait()
}

// flowOf returns the flow of a client, and starts one if there is none or if its
// backend has left. It returns nil if the datagram is dropped.
func (r *Relay) flowOf(client netip.AddrPort) *flow {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.flows[client]
	if before != nil && before.backend.Current() {
		return before
	}
	if before != nil {
		r.remove(before)
		before.interrupt()
	}
	source := networkOf(client)
	if r.closed || !r.makeRoom(source) {
		return nil
	}
	backend, err := r.config.Connect(client)
	if err != nil {
		return nil
	}
	raw, err := backend.Socket().SyscallConn()
	if err != nil {
		backend.Done(0, 0)
		return nil
	}
	f := &flow{relay: r, client: client, source: source, backend: backend, raw: raw}
	f.moved()
	r.flows[client] = f
	r.sources[source]++
	r.open++
	r.wait.Go(f.receive)
	return f
}

// remove removes a flow from the index. The caller holds mu.
func (r *Relay) remove(f *flow) {
	if r.flows[f.client] != f {
		return
	}
	delete(r.flows, f.client)
	if r.sources[f.source]--; r.sources[f.source] == 0 {
		delete(r.sources, f.source)
	}
}

// buffers are shared by all relays: a flow that waits holds none.
var buffers = sync.Pool{New: func() any { return new([maxDatagram]byte) }}

// read waits for one datagram of a socket and passes it to use. The buffer is taken
// only once there is one, because most flows wait most of the time.
func read(raw syscall.RawConn, use func([]byte)) error {
	var failed error
	err := raw.Read(func(fd uintptr) bool {
		buf := buffers.Get().(*[maxDatagram]byte)
		defer buffers.Put(buf)
		n, err := receive(fd, buf[:])
		for errors.Is(err, syscall.EINTR) {
			n, err = receive(fd, buf[:])
		}
		if errors.Is(err, syscall.EAGAIN) {
			return false
		}
		if failed = err; err == nil {
			use(buf[:n])
		}
		return true
	})
	return cmp.Or(err, failed)
}
