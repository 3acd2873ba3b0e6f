package acme

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"slipway.dev/slipway/internal/programs"
)

// balancer is the address that names lead to. It hands each connection to
// another replica than the one before, unless it is set to hold it.
type balancer struct {
	mu    sync.Mutex
	to    []string
	turn  int
	asked map[string]int // connections to each replica
	// hold keeps connections until it is closed, and held gets a value for each; both
	// are nil while nothing is held.
	hold, held chan struct{}
}

func startBalancer(t *testing.T, at netip.Addr, to ...string) *balancer {
	t.Helper()
	b := &balancer{to: to, asked: map[string]int{}}
	programs.Serve(t, netip.AddrPortFrom(at, challengePort).String(), b.serve)
	t.Cleanup(b.release)
	return b
}

// choose is the replica whose turn it is, after the time that connections are
// held for.
func (b *balancer) choose() string {
	b.mu.Lock()
	hold, held := b.hold, b.held
	b.mu.Unlock()
	if hold != nil {
		select {
		case held <- struct{}{}:
		default:
		}
		<-hold
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	chosen := b.to[b.turn%len(b.to)]
	b.asked[chosen]++
	return chosen
}

func (b *balancer) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", b.choose())
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(client, server) // one of them closes
		_ = client.Close()
	}()
	_, _ = io.Copy(server, client)
	_ = server.Close()
	<-back
}

// holdAll keeps what comes. The channel gets a value for each connection.
func (b *balancer) holdAll() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hold, b.held = make(chan struct{}), make(chan struct{}, 1)
	return b.held
}

// release lets everything go on.
func (b *balancer) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hold != nil {
		close(b.hold)
		b.hold = nil
	}
}

// lead makes these the replicas.
func (b *balancer) lead(to ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to = to
}

// spread reports whether every replica was asked.
func (b *balancer) spread() (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, to := range b.to {
		if b.asked[to] == 0 {
			return to, false
		}
	}
	return strings.Join(b.to, ", "), true
}
