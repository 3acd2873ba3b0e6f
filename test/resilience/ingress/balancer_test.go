package ingress

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// probePeriod is how often the balancer looks whether a replica is ready.
const probePeriod = 50 * time.Millisecond

// balancer is the load balancer in front of the replicas. It passes connections
// on to those that are ready and have been admitted, and lets connections be
// that it has passed on: ending them is for the edge.
type balancer struct {
	listeners []net.Listener
	running   sync.WaitGroup
	ctx       context.Context

	mu      sync.Mutex
	members []*replica
	next    int
	conns   map[net.Conn]struct{}
}

// newBalancer takes connections for both entry points until the end of the test.
func newBalancer(t *testing.T, address netip.Addr) *balancer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b := &balancer{ctx: ctx, conns: map[net.Conn]struct{}{}}
	for _, port := range []int{edgeprocess.PlainPort, edgeprocess.TLSPort} {
		listener := must.Get(net.Listen("tcp", netip.AddrPortFrom(address, uint16(port)).String()))(t)
		b.listeners = append(b.listeners, listener)
		b.running.Go(func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return // it was closed
				}
				b.running.Go(func() { b.pass(conn, port) })
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		for _, listener := range b.listeners {
			_ = listener.Close()
		}
		b.mu.Lock()
		for conn := range b.conns {
			_ = conn.Close()
		}
		b.mu.Unlock()
		b.running.Wait()
	})
	return b
}

// admit adds a replica. It is taken out for good when it is not ready any more.
func (b *balancer) admit(r *replica) {
	b.mu.Lock()
	b.members = append(b.members, r)
	b.mu.Unlock()
	b.running.Go(func() {
		for pause(b.ctx, probePeriod) {
			ctx, cancel := context.WithTimeout(b.ctx, patience)
			err := r.Ready(ctx)
			cancel()
			if err != nil {
				break
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		for i, member := range b.members {
			if member == r {
				b.members = append(b.members[:i:i], b.members[i+1:]...)
				return
			}
		}
	})
}

// lead sends new connections to these replicas and no others. Connections that it has
// passed on stay where they are, as with a load balancer whose targets change.
func (b *balancer) lead(to ...*replica) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.members = slices.Clone(to)
}

// add adds a replica, which stays until drop.
func (b *balancer) add(r *replica) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.members = append(b.members, r)
}

// drop takes a replica out, and reports whether it was there.
func (b *balancer) drop(r *replica) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.members, r)
	if at < 0 {
		return false
	}
	b.members = slices.Delete(slices.Clone(b.members), at, at+1)
	return true
}

// current are the replicas that get connections now.
func (b *balancer) current() []*replica {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*replica(nil), b.members...)
}

// choose takes turns.
func (b *balancer) choose() *replica {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.members) == 0 {
		return nil
	}
	b.next++
	return b.members[b.next%len(b.members)]
}

// pass carries bytes both ways until both ends have sent all.
func (b *balancer) pass(client net.Conn, port int) {
	defer func() { _ = client.Close() }()
	chosen := b.choose()
	if chosen == nil {
		return
	}
	server, err := chosen.Dialer(port)(b.ctx, "tcp", "")
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	if !b.keep(client, server) {
		return
	}
	defer b.forget(client, server)
	var back sync.WaitGroup
	back.Go(func() { carry(client, server) })
	carry(server, client)
	back.Wait()
}

// carry passes on what comes, and then that nothing more will. A connection that
// broke is broken on the other side too.
func carry(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		_ = to.Close()
		_ = from.Close()
		return
	}
	_ = to.(*net.TCPConn).CloseWrite() // it fails when the connection is gone
}

// keep remembers connections so that the end of the test ends them.
func (b *balancer) keep(conns ...net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return false
	}
	for _, conn := range conns {
		b.conns[conn] = struct{}{}
	}
	return true
}

func (b *balancer) forget(conns ...net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range conns {
		delete(b.conns, conn)
	}
}
