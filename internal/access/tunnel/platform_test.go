package tunnel_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/access/tunnel"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary is the token of every agent here. It must not appear anywhere.
const canary = "canary-c1a9d0"

// alone is the directory of a platform that has one replica.
type alone struct{}

func (alone) PutReplica(context.Context, store.Replica) error              { return nil }
func (alone) Replicas(context.Context, time.Time) ([]store.Replica, error) { return nil, nil }
func (alone) DeleteReplica(context.Context, string) error                  { return nil }
func (alone) PutConnection(context.Context, store.Connection) error        { return nil }
func (alone) DeleteConnections(context.Context, string) error              { return nil }
func (alone) Peer(string) (string, error)                                  { return "", signing.ErrToken }
func (alone) VerifyPeer(string) (string, error)                            { return "", signing.ErrToken }
func (alone) Connections(context.Context, string, time.Time) ([]store.Connection, error) {
	return nil, nil
}

func (alone) Changes(ctx context.Context) <-chan store.Change {
	changes := make(chan store.Change)
	context.AfterFunc(ctx, func() { close(changes) })
	return changes
}

// platform is a real hub on a socket.
type platform struct {
	*hub.Hub
	*httptest.Server
}

// serve runs a platform; secure gives it TLS, and nil plain HTTP.
func serve(t testing.TB, secure *tls.Config) *platform {
	t.Helper()
	h := must.Get(hub.New(hub.Options{
		Verify: func(_ context.Context, token string) (signing.RuntimeIdentity, error) {
			if token != canary {
				return signing.RuntimeIdentity{}, signing.ErrToken
			}
			return signing.RuntimeIdentity{RuntimeID: "a", Name: "runtime", Expires: time.Now().Add(time.Hour)}, nil
		},
		Directory: alone{}, Peer: alone{}, ReplicaID: "one", Timing: hub.Timing{Grace: 100 * time.Millisecond},
	}))(t)
	mux := http.NewServeMux()
	mux.Handle(wire.TunnelPath, h.Tunnel())
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	if secure == nil {
		server.Start()
	} else {
		server.TLS = secure
		server.StartTLS()
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = h.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		server.CloseClientConnections()
		server.Close()
	})
	return &platform{Hub: h, Server: server}
}

// run runs an agent until the test ends, or the function ends it.
func run(t testing.TB, options tunnel.Options) (stop func()) {
	t.Helper()
	if options.Token == nil {
		options.Token = func(context.Context) (string, error) { return canary, nil }
	}
	if options.Handler == nil {
		options.Handler = http.NotFoundHandler()
	}
	options.Timing.MaxBackoff = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- tunnel.Run(ctx, options) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// to is the URLs of one platform.
func to(url string) func() []string { return func() []string { return []string{url} } }
