package tunnel

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/access/tunnel"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/platform/store/pgtest"
	"slipway.dev/slipway/internal/programs"
)

// hello responds with a name.
func hello(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })
}

// crowd connects agents, all with the timing that the program has.
func (p *platform) crowd(t testing.TB, size int, address string) []store.Runtime {
	t.Helper()
	runtimes := make([]store.Runtime, size)
	for i := range runtimes {
		runtimes[i] = p.register(t, fmt.Sprintf("agent-%d", i))
	}
	var joining sync.WaitGroup
	for _, runtime := range runtimes {
		joining.Go(func() { p.join(t, runtime, address, hello(runtime.Name), tunnel.Timing{}) })
	}
	joining.Wait()
	return runtimes
}

// A platform that is killed and started again has all 200 agents back within 30 s, and
// they do not come all at once.
func TestPlatformRestart(t *testing.T) {
	const agents = 200
	p := openPlatform(t, sqlite(t))
	first := p.start(t, "one", "", hub.Timing{})
	runtimes := p.crowd(t, agents, first.address)
	first.kill()
	// A balancer that has no platform behind it. Agents try at once, and then less and
	// less often; after three tries each the platform is back.
	tries, open := turnAway(t, first.address)
	programs.Until(t, "the agents have tried", func() bool { return tries.Load() >= 3*2*agents })
	open()
	p.mu.Lock()
	p.moments = nil
	p.mu.Unlock()
	p.most.Store(0)

	began := time.Now()
	second := p.start(t, "two", first.address, hub.Timing{})
	programs.Until(t, "all agents are back", func() bool {
		for _, runtime := range runtimes {
			if !second.Connected(runtime.ID) {
				return false
			}
		}
		return true
	})
	took := time.Since(began)
	t.Logf("all back within %v", took.Round(time.Millisecond))
	if took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	for _, runtime := range runtimes {
		if text, err := ask(t.Context(), second, runtime.ID, "/app-proxy/x"); err != nil || text != runtime.Name {
			t.Errorf("%s answers %q, %v", runtime.Name, text, err)
		}
	}
	if most := p.most.Load(); most > 64 {
		t.Errorf("%d handshakes at a time", most)
	}
	if busiest := p.busiest(250 * time.Millisecond); busiest > agents {
		t.Errorf("%d of %d handshakes in a quarter of a second", busiest, 2*agents)
	}
}

// turnAway closes every connection to an address, and counts them.
func turnAway(t testing.TB, address string) (tries *atomic.Int64, stop func()) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", address))(t)
	tries = &atomic.Int64{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			tries.Add(1)
			_ = conn.Close()
		}
	}()
	return tries, func() {
		_ = listener.Close()
		<-done
	}
}

// busiest is the most handshakes in any such time.
func (p *platform) busiest(span time.Duration) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	most, first := 0, 0
	for i, at := range p.moments {
		for at.Sub(p.moments[first]) > span {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// Two replicas that share a PostgreSQL: requests reach agents through either, one of
// them may end without a failed request, and revoking at one cuts the agent off from
// both within five seconds.
func TestReplicasShareStore(t *testing.T) {
	p := openPlatform(t, pgtest.URL(t))
	timing := hub.Timing{HeartbeatInterval: 500 * time.Millisecond, Grace: 2 * time.Second}
	one, two := p.start(t, "one", "", timing), p.start(t, "two", "", timing)
	a, b := p.register(t, "a"), p.register(t, "b")
	p.join(t, a, one.address, hello("a"), tunnel.Timing{})
	p.join(t, b, two.address, hello("b"), tunnel.Timing{})
	programs.Until(t, "each replica reaches both agents", func() bool {
		for _, r := range []*replica{one, two} {
			for _, runtime := range []store.Runtime{a, b} {
				if text, err := ask(t.Context(), r, runtime.ID, "/app-proxy/x"); err != nil || text != runtime.Name {
					return false
				}
			}
		}
		return true
	})
	began := time.Now()
	must.Do(t, p.store.RevokeCredential(t.Context(), a.ID))
	programs.Until(t, "the revoked agent is gone", func() bool {
		_, atOne := ask(t.Context(), one, a.ID, "/app-proxy/x")
		_, atTwo := ask(t.Context(), two, a.ID, "/app-proxy/x")
		return atOne != nil && atTwo != nil && !one.Connected(a.ID)
	})
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if text, err := ask(t.Context(), one, b.ID, "/app-proxy/x"); err != nil || text != "b" {
		t.Errorf("%q, %v", text, err)
	}
}
