package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"slipway.dev/slipway/internal/access/tunnel"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire"
)

// runtimeID and token identify the only runtime of the benchmark.
const (
	runtimeID = "runtime"
	token     = "token"
)

// world is the system under test: one RoundTripper through hub and agent, and
// one straight to a server with the same handler. close stops everything and
// must be called.
type world struct {
	tunnel, direct http.RoundTripper
	directURL      string
	close          func()
}

// alone implements the hub's directory and peer interfaces for a platform with
// one replica: there are no other replicas and no connections to look up, and
// every peer token is invalid.
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

// Changes returns a channel without changes, and closes it when ctx is done.
func (alone) Changes(ctx context.Context) <-chan store.Change {
	changes := make(chan store.Change)
	context.AfterFunc(ctx, func() { close(changes) })
	return changes
}

// verify accepts the benchmark's token and no other. The identity outlives the
// run, so no token refresh disturbs a measurement.
func verify(_ context.Context, presented string) (signing.RuntimeIdentity, error) {
	if presented != token {
		return signing.RuntimeIdentity{}, signing.ErrToken
	}
	return signing.RuntimeIdentity{RuntimeID: runtimeID, Name: runtimeID, Expires: time.Now().Add(24 * time.Hour)}, nil
}

// response is the handler behind both paths. It serves /app-proxy/<n> with a body
// of n bytes.
func response(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Path[len(wire.AppProxyPath):])
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(n))
	// Writes of 32 KiB are what io.Copy in a real handler would do.
	piece := make([]byte, min(n, 32<<10))
	for n > 0 {
		k, err := w.Write(piece[:min(n, len(piece))])
		if err != nil {
			return
		}
		n -= k
	}
}

// newWorld starts the hub, the agent and the direct server, and waits up to 30
// seconds for the agent to connect. On an error it has stopped all of them.
func newWorld(ctx context.Context, secure bool) (*world, error) {
	certificate, roots, err := selfSigned()
	if err != nil {
		return nil, err
	}
	h, err := hub.New(hub.Options{Verify: verify, Directory: alone{}, Peer: alone{}, ReplicaID: "one"})
	if err != nil {
		return nil, err
	}
	// The hub and the agent must outlive an interrupt until closeAll stops them
	// in order, so ctx does not cancel them.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	var servers []*http.Server
	// closeAll stops the agent and the hub together, waits for both, and then
	// closes the servers with the connections that are left.
	closeAll := func() {
		stop()
		parts.Wait()
		for _, server := range servers {
			_ = server.Close()
		}
	}
	// serve starts an HTTP server on a free loopback port and returns its URL.
	// Its error log is discarded, because the end of a run closes connections
	// abruptly.
	serve := func(handler http.Handler) (string, error) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		address, scheme := listener.Addr().String(), "http://"
		if secure {
			listener, scheme = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate}}), "https://"
		}
		server := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
		servers = append(servers, server)
		go func() { _ = server.Serve(listener) }()
		return scheme + address, nil
	}
	platformURL, err1 := serve(h.Tunnel())
	directURL, err2 := serve(http.HandlerFunc(response))
	if err := errors.Join(err1, err2); err != nil {
		closeAll()
		return nil, err
	}
	// State reports every change of the number of connections; the first one
	// means that the agent is connected. State must not block, so the channel
	// has room for reconnects.
	connected := make(chan struct{}, 8)
	parts.Go(func() { _ = h.Run(running) })
	parts.Go(func() {
		_ = tunnel.Run(running, tunnel.Options{
			URLs: func() []string { return []string{platformURL} }, Connections: 1,
			Token:   func(context.Context) (string, error) { return token, nil },
			Handler: http.HandlerFunc(response), TLS: &tls.Config{RootCAs: roots},
			State: func(int) { connected <- struct{}{} },
		})
	})
	select {
	case <-connected:
	case <-ctx.Done():
		closeAll()
		return nil, ctx.Err()
	case <-time.After(30 * time.Second):
		closeAll()
		return nil, errors.New("the agent does not connect")
	}
	// The idle pool exceeds any sensible number of streams, so that the direct
	// path reuses its connections as the tunnel does. Compression would change
	// the length of bodies.
	direct := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: 256, DisableCompression: true}
	return &world{tunnel: h.Transport(runtimeID), direct: direct, directURL: directURL, close: func() {
		direct.CloseIdleConnections()
		closeAll()
	}}, nil
}

// get sends one request, discards the body and checks its status and length.
// Both paths use the URL of the direct server; the tunnel's transport selects
// the connection by runtime.
func (w *world) get(ctx context.Context, through http.RoundTripper, n int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.directURL+wire.AppProxyPath+strconv.Itoa(n), nil)
	if err != nil {
		return err
	}
	response, err := through.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	got, err := io.Copy(io.Discard, response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || got != int64(n)) {
		err = errors.New("unexpected response: " + response.Status)
	}
	return err
}

// selfSigned creates a certificate for 127.0.0.1 that is valid for a day, and
// the pool that trusts it.
func selfSigned() (tls.Certificate, *x509.CertPool, error) {
	pair, err := pkitest.Make(pkitest.Certificate{Names: []string{"127.0.0.1"}, Authority: true}, nil)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	certificate, err := tls.X509KeyPair([]byte(pair.Chain), []byte(pair.Key))
	return certificate, pair.Pool(), err
}
