// Package tunnel puts both ends of the tunnel through what networks and platforms do
// to them: connections that are reset or swallow everything, readers that stop, more
// data than memory, replicas that end with 200 agents connected. The store and the
// signer are the real ones, and everything goes over sockets.
//
// RESILIENCE=long waits for the timeouts that the program has by default.
package tunnel

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/access/tunnel"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe/sharedtls"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"))
}

// long reports whether there is time.
func long() bool { return os.Getenv("RESILIENCE") == "long" }

// testTimeout bounds every wait. It is never waited for when the code is right.
const testTimeout = 90 * time.Second

// platform is what replicas share.
type platform struct {
	store    *store.Store
	signer   *signing.Signer
	account  string
	verified atomic.Int64
	entering atomic.Int64 // verifications at this moment
	most     atomic.Int64 // of them
	mu       sync.Mutex
	moments  []time.Time // of handshakes
}

// openPlatform opens a store and makes an account.
func openPlatform(t testing.TB, url string) *platform {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{URL: url})
	must.Do(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	signer, err := signing.New(t.Context(), s, secret.New("a key of the test, which is long enough"), time.Now)
	must.Do(t, err)
	account, err := s.CreateAccount(t.Context(), store.Account{Name: "account"})
	must.Do(t, err)
	return &platform{store: s, signer: signer, account: account.ID}
}

// sqlite is the URL of a new database.
func sqlite(t testing.TB) string {
	return "sqlite://" + filepath.Join(t.TempDir(), "platform.db")
}

// register makes a runtime with a credential.
func (p *platform) register(t testing.TB, name string) store.Runtime {
	t.Helper()
	runtime, err := p.store.CreateRuntime(t.Context(), store.Runtime{AccountID: p.account, Name: name})
	must.Do(t, err)
	must.Do(t, p.store.PutCredential(t.Context(), store.RuntimeCredential{RuntimeID: runtime.ID, Generation: 1, RefreshHash: []byte(name)}))
	return runtime
}

// verify is what the platform does with a token.
func (p *platform) verify(ctx context.Context, token string) (signing.RuntimeIdentity, error) {
	p.verified.Add(1)
	now := p.entering.Add(1)
	defer p.entering.Add(-1)
	for most := p.most.Load(); now > most && !p.most.CompareAndSwap(most, now); most = p.most.Load() {
	}
	p.mu.Lock()
	p.moments = append(p.moments, time.Now())
	p.mu.Unlock()
	identity, err := p.signer.VerifyRuntimeAccess(ctx, token)
	if err != nil {
		return identity, err
	}
	credential, err := p.store.Credential(ctx, identity.RuntimeID)
	switch {
	case err != nil:
		return identity, err
	case credential.Revoked || credential.Generation != identity.Generation:
		return identity, signing.ErrToken
	}
	return identity, nil
}

// replica is a running replica.
type replica struct {
	*hub.Hub
	address string
	end     func() // in good order
	kill    func() // at once
}

// start runs a replica at an address; empty is any.
func (p *platform) start(t testing.TB, id, address string, timing hub.Timing) *replica {
	t.Helper()
	address = cmp.Or(address, "127.0.0.1:0")
	listener, err := net.Listen("tcp", address)
	must.Do(t, err)
	url := "http://" + listener.Addr().String()
	peers, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	toUs, err := sharedtls.Server([]byte(strings.Repeat("s", sharedtls.MinSecret)), "tests")
	must.Do(t, err)
	toPeers, err := sharedtls.Client([]byte(strings.Repeat("s", sharedtls.MinSecret)), "tests")
	must.Do(t, err)
	h, err := hub.New(hub.Options{
		Verify: p.verify, Directory: p.store, Peer: p.signer, ReplicaID: id, TunnelURL: url,
		PeerURL: "https://" + peers.Addr().String(), PeerTLS: toPeers,
		Limits: hub.Limits{BodyBytes: 2 << 30}, Timing: timing, Log: logOf(t),
	})
	must.Do(t, err)
	mux := http.NewServeMux()
	mux.Handle(wire.TunnelPath, h.Tunnel())
	mux.Handle(wire.PeerPath, h.PeerHandler())
	connections := &tracker{Listener: listener, open: map[net.Conn]bool{}}
	peerConnections := &tracker{Listener: peers, open: map[net.Conn]bool{}}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan struct{})
	running.Go(func() { _ = server.Serve(connections) })
	running.Go(func() { _ = server.Serve(tls.NewListener(peerConnections, toUs)) })
	running.Go(func() {
		defer close(ran)
		_ = h.Run(ctx)
	})
	end := sync.OnceFunc(func() {
		cancel()
		<-ran
		_ = server.Close()
		connections.cut()
		peerConnections.cut()
		running.Wait()
	})
	kill := func() {
		_, _ = listener.Close(), peers.Close()
		connections.cut()
		peerConnections.cut()
		end()
	}
	t.Cleanup(end)
	return &replica{Hub: h, address: listener.Addr().String(), end: end, kill: kill}
}

// tracker knows the connections of a listener, also those that were upgraded.
type tracker struct {
	net.Listener
	mu   sync.Mutex
	open map[net.Conn]bool
}

func (t *tracker) Accept() (net.Conn, error) {
	conn, err := t.Listener.Accept()
	if err == nil {
		t.mu.Lock()
		t.open[conn] = true
		t.mu.Unlock()
	}
	return conn, err
}

// cut resets everything, as the kernel does for a process that was killed.
func (t *tracker) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for conn := range t.open {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
	clear(t.open)
}

// join runs an agent until the test ends, and waits for its connections.
func (p *platform) join(t testing.TB, runtime store.Runtime, address string, handler http.Handler, timing tunnel.Timing) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended, connected := make(chan error, 1), make(chan struct{})
	once := sync.OnceFunc(func() { close(connected) })
	options := tunnel.Options{
		URLs: func() []string { return []string{"http://" + address} },
		Token: func(context.Context) (string, error) {
			token, _, err := p.signer.RuntimeAccess(runtime, 1)
			return token, err
		},
		Handler: handler, Runtime: runtime.Name, Timing: timing, Log: logOf(t),
		State: func(n int) {
			if n == 2 {
				once()
			}
		},
	}
	go func() { ended <- tunnel.Run(ctx, options) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the agent ended with %v", err)
		}
	})
	t.Cleanup(stop)
	select {
	case <-connected:
	case <-time.After(testTimeout):
		t.Fatal("the agent does not connect")
	}
	return stop
}

// ask gets the whole response of a runtime.
func ask(ctx context.Context, r *replica, runtimeID, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://any.test"+path, nil)
	if err != nil {
		return "", err
	}
	response, err := r.Transport(runtimeID).RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %s", response.Status)
	}
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// logOf shows what happens, when asked with TUNNEL_LOG=1.
func logOf(t testing.TB) *slog.Logger {
	if os.Getenv("TUNNEL_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}
