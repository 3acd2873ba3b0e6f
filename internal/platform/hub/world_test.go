package hub_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/access/tunnel"
	"slipway.dev/slipway/internal/observe/sharedtls"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout bounds every wait of a test. It is never waited for when the code is
// right.
const testTimeout = 60 * time.Second

// world is what the replicas of a platform share.
type world struct {
	*directory
	*authority
}

func newWorld() *world {
	d := &directory{replicas: map[string]store.Replica{}, connections: map[[2]string]store.Connection{}, readers: map[chan store.Change]bool{}}
	return &world{directory: d, authority: &authority{directory: d, generations: map[string]int64{}, lifetime: time.Hour}}
}

// directory is a hub.Directory in memory.
type directory struct {
	mu          sync.Mutex
	replicas    map[string]store.Replica
	connections map[[2]string]store.Connection
	readers     map[chan store.Change]bool
}

func (d *directory) PutReplica(_ context.Context, r store.Replica) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replicas[r.ID] = r
	return nil
}

func (d *directory) Replicas(_ context.Context, since time.Time) ([]store.Replica, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []store.Replica
	for _, r := range d.replicas {
		if r.SeenAt.After(since) {
			list = append(list, r)
		}
	}
	return list, nil
}

func (d *directory) DeleteReplica(ctx context.Context, id string) error {
	d.mu.Lock()
	delete(d.replicas, id)
	d.mu.Unlock()
	return d.DeleteConnections(ctx, id)
}

func (d *directory) PutConnection(_ context.Context, c store.Connection) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := [2]string{c.RuntimeID, c.ReplicaID}
	if c.Count == 0 {
		delete(d.connections, key)
		return nil
	}
	d.connections[key] = c
	return nil
}

func (d *directory) Connections(_ context.Context, runtimeID string, since time.Time) ([]store.Connection, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []store.Connection
	for key, c := range d.connections {
		if key[0] == runtimeID && c.SeenAt.After(since) {
			list = append(list, c)
		}
	}
	return list, nil
}

func (d *directory) DeleteConnections(_ context.Context, replicaID string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range d.connections {
		if key[1] == replicaID {
			delete(d.connections, key)
		}
	}
	return nil
}

func (d *directory) Changes(ctx context.Context) <-chan store.Change {
	changes := make(chan store.Change, 64)
	d.mu.Lock()
	d.readers[changes] = true
	d.mu.Unlock()
	context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.readers, changes)
		close(changes)
	})
	return changes
}

func (d *directory) tell(change store.Change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for reader := range d.readers {
		reader <- change
	}
}

// authority makes tokens: runtime, generation and expiry, as they are. Signatures
// are the signer's business and tested there.
type authority struct {
	directory *directory

	mu          sync.Mutex
	generations map[string]int64
	lifetime    time.Duration
	away        bool // the database cannot be asked
	verified    int
}

func (a *authority) token(runtimeID string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return fmt.Sprintf("%s %d %d", runtimeID, a.generations[runtimeID], time.Now().Add(a.lifetime).UnixNano())
}

func (a *authority) verify(_ context.Context, token string) (signing.RuntimeIdentity, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.verified++
	var id string
	var generation, expires int64
	if _, err := fmt.Sscanf(token, "%s %d %d", &id, &generation, &expires); err != nil {
		return signing.RuntimeIdentity{}, signing.ErrToken
	}
	at := time.Unix(0, expires)
	switch {
	case a.away:
		return signing.RuntimeIdentity{}, fmt.Errorf("ask for the credential: %w", store.ErrUnavailable)
	case generation != a.generations[id] || time.Now().After(at):
		return signing.RuntimeIdentity{}, signing.ErrToken
	}
	return signing.RuntimeIdentity{RuntimeID: id, AccountID: "account", Name: "name-of-" + id, Generation: generation, Expires: at}, nil
}

// revoke makes all tokens of a runtime worthless.
func (a *authority) revoke(runtimeID string) {
	a.mu.Lock()
	a.generations[runtimeID]++
	a.mu.Unlock()
	a.directory.tell(store.Change{Kind: store.ChangeCredential, ID: runtimeID})
}

func (a *authority) Peer(replicaID string) (string, error) { return "peer of " + replicaID, nil }

func (a *authority) VerifyPeer(token string) (string, error) {
	if replica, ok := strings.CutPrefix(token, "peer of "); ok {
		return replica, nil
	}
	return "", signing.ErrToken
}

// replica is a running replica of the platform.
type replica struct {
	*hub.Hub
	url  string
	peer string // URL for other replicas
	stop func() // ends Run as the program does, and then the server
}

// peerTLS is the TLS of replicas that share a secret.
func peerTLS(t testing.TB, secret string) (server, client *tls.Config) {
	t.Helper()
	padded := []byte(fmt.Sprintf("%-40s", secret))
	server, err := sharedtls.Server(padded, "tests")
	if err != nil {
		t.Fatal(err)
	}
	client, err = sharedtls.Client(padded, "tests")
	if err != nil {
		t.Fatal(err)
	}
	return server, client
}

// start runs a replica on a real socket. adjust may change its options.
func (w *world) start(t testing.TB, id string, adjust func(*hub.Options)) *replica {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	url := "http://" + server.Listener.Addr().String()
	peerMux := http.NewServeMux()
	peers := httptest.NewUnstartedServer(peerMux)
	peers.Config.ErrorLog = server.Config.ErrorLog
	toUs, toPeers := peerTLS(t, "the secret of the replicas")
	peers.TLS = toUs
	peerURL := "http://" + peers.Listener.Addr().String() // the scheme does not matter
	options := hub.Options{
		Verify: w.verify, Directory: w.directory, Peer: w.authority, PeerTLS: toPeers,
		ReplicaID: id, PeerURL: peerURL, TunnelURL: url, Log: testLog(t),
		Timing: hub.Timing{HeartbeatInterval: 100 * time.Millisecond, Grace: time.Second, Drain: 10 * time.Second},
	}
	if adjust != nil {
		adjust(&options)
	}
	h, err := hub.New(options)
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle(wire.TunnelPath, h.Tunnel())
	mux.Handle(wire.PeerPath, h.PeerHandler())
	peerMux.Handle(wire.PeerPath, h.PeerHandler())
	server.Start()
	peers.StartTLS()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = h.Run(ctx)
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		<-ended
		for _, s := range []*httptest.Server{server, peers} {
			s.CloseClientConnections()
			s.Close()
		}
	})
	t.Cleanup(stop)
	return &replica{Hub: h, url: url, peer: peerURL, stop: stop}
}

// agent is a running agent.
type agent struct {
	stop      func()
	mu        sync.Mutex
	connected int
	changed   chan struct{}
}

// join runs an agent until the test ends.
func (w *world) join(t testing.TB, runtimeID string, handler http.Handler, adjust func(*tunnel.Options), replicas ...*replica) *agent {
	t.Helper()
	a := &agent{changed: make(chan struct{}, 1)}
	options := tunnel.Options{
		URLs: func() []string {
			var urls []string
			for _, r := range replicas {
				urls = append(urls, r.url)
			}
			return urls
		},
		Token:   func(context.Context) (string, error) { return w.token(runtimeID), nil },
		Handler: handler, Log: testLog(t), State: a.state,
		Timing: tunnel.Timing{MaxBackoff: 500 * time.Millisecond, TokenInterval: 300 * time.Millisecond, DrainTimeout: 5 * time.Second},
	}
	if adjust != nil {
		adjust(&options)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- tunnel.Run(ctx, options) }()
	a.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	})
	t.Cleanup(a.stop)
	return a
}

func (a *agent) state(connected int) {
	a.mu.Lock()
	a.connected = connected
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// await waits until the agent has as many connections.
func (a *agent) await(t testing.TB, want int) {
	t.Helper()
	timeout := time.After(testTimeout)
	for {
		a.mu.Lock()
		got := a.connected
		a.mu.Unlock()
		if got == want {
			return
		}
		select {
		case <-a.changed:
		case <-timeout:
			t.Fatalf("the agent has %d connections, not %d", got, want)
		}
	}
}

// ask sends a request to a runtime through a replica.
func (r *replica) ask(ctx context.Context, runtimeID, method, path string, body io.Reader) (int, string, error) {
	return askOver(ctx, r.Transport(runtimeID), method, path, body)
}

func askOver(ctx context.Context, transport http.RoundTripper, method, path string, body io.Reader) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://any.test"+path, body)
	if err != nil {
		return 0, "", err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// mustAsk returns the body of a response with status 200.
func (r *replica) mustAsk(t testing.TB, runtimeID, path string) string {
	t.Helper()
	status, text, err := r.ask(t.Context(), runtimeID, http.MethodGet, path, nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("GET %s of %s: %d %q, %v", path, runtimeID, status, text, err)
	}
	return text
}

// says is a handler that responds with one text.
func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// testLog shows the log of a failed test, if requested.
func testLog(t testing.TB) *slog.Logger {
	if !testing.Verbose() {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// listenLoopback is a listener on a port of the kernel's choice.
func listenLoopback(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
