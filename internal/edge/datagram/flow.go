package datagram

import (
	"errors"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// flow is the exchange of one client with a backend.
type flow struct {
	relay   *Relay
	client  netip.AddrPort
	source  netip.Prefix // of the client
	backend Backend
	raw     syscall.RawConn
	// last is when a datagram came, either way, in nanoseconds.
	last     atomic.Int64
	up, down atomic.Int64
	// confirmed is set once the client has sent a datagram after a response.
	confirmed atomic.Bool
	ended     atomic.Bool
}

// moved restarts the idle timeout.
func (f *flow) moved() { f.last.Store(time.Now().UnixNano()) }

// interrupt makes receive end.
func (f *flow) interrupt() {
	f.ended.Store(true)
	_ = f.backend.Socket().SetReadDeadline(time.Unix(1, 0))
}

// send sends a datagram of the client to the backend. An error is that of an earlier
// one, and receive gets it too.
func (f *flow) send(data []byte) {
	f.moved()
	if !f.confirmed.Load() && f.down.Load() > 0 {
		f.confirmed.Store(true)
	}
	if n, err := f.backend.Socket().Write(data); err == nil {
		f.up.Add(int64(n))
	}
}

// receive sends the datagrams of the backend to the client, until the flow is idle or
// the backend refuses it. The next datagram of the client starts another flow then.
func (f *flow) receive() {
	defer f.end()
	respond := func(data []byte) {
		f.moved()
		f.down.Add(int64(len(data))) // before it is sent: the client's next datagram may come at once
		if _, err := f.relay.socket.WriteToUDPAddrPort(data, f.client); err != nil {
			f.down.Add(-int64(len(data)))
		}
	}
	for {
		until := time.Unix(0, f.last.Load()).Add(f.relay.config.IdleTimeout)
		if err := f.backend.Socket().SetReadDeadline(until); err != nil {
			return
		}
		if f.ended.Load() {
			return // interrupt may have come before the deadline was set
		}
		err := read(f.raw, respond)
		idle := time.Since(time.Unix(0, f.last.Load())) >= f.relay.config.IdleTimeout
		if err != nil && (idle || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return
		}
	}
}

// end removes the flow.
func (f *flow) end() {
	f.relay.mu.Lock()
	f.relay.remove(f)
	f.relay.mu.Unlock()
	f.backend.Done(f.up.Load(), f.down.Load())
	f.relay.mu.Lock()
	f.relay.open--
	f.relay.mu.Unlock()
}
