package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/access/tunnel"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/server"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/platform/store/pgtest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// wiretap forwards connections to an address and records what clients send.
type wiretap struct {
	net.Listener
	mu    sync.Mutex
	heard bytes.Buffer
}

func newWiretap(t *testing.T, target string) *wiretap {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	w := &wiretap{Listener: listener}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			running.Go(func() {
				defer upstream.Close()
				_, _ = io.Copy(io.MultiWriter(upstream, w), client)
			})
			running.Go(func() {
				defer client.Close()
				_, _ = io.Copy(client, upstream)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return w
}

func (w *wiretap) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heard.Write(p)
}

func (w *wiretap) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heard.String()
}

// TestPeersAreEncrypted: what one replica forwards to another is not readable on the
// network, with a certificate of the platform and without; the port serves others as
// before, and nothing of replicas to those without their key.
func TestPeersAreEncrypted(t *testing.T) {
	for _, secure := range []bool{false, true} {
		name := "plain HTTP"
		if secure {
			name = "HTTPS"
		}
		t.Run(name, func(t *testing.T) { testPeers(t, secure) })
	}
}

func testPeers(t *testing.T, secure bool) {
	database := pgtest.URL(t)
	authority := pkitest.NewAuthority(t)
	files := newCertificateFiles(t, authority.Issue(t, "127.0.0.1"))
	trusted := &tls.Config{RootCAs: authority.Pool}
	var tap *wiretap
	replica := func(o *server.Options) {
		o.Database, o.ControlDir = secret.New(database), ""
		tap = newWiretap(t, o.Listener.Addr().String())
		o.PeerURL = "http://" + tap.Addr().String()
		if secure {
			certificate, err := server.LoadCertificate(files.cert, files.key, slog.New(slog.DiscardHandler))
			check(t, err)
			o.Certificate, o.PublicURL.Scheme = certificate, "https"
			o.TunnelURL = strings.Replace(o.TunnelURL, "ws:", "wss:", 1)
		}
	}
	one := launch(t, replica)
	tapped := tap
	two := launch(t, replica)
	api := func(key string) *http.Client {
		return client(t, key, &http.Transport{TLSClientConfig: trusted.Clone(), ForceAttemptHTTP2: true})
	}

	// A runtime with a tunnel to the first replica.
	opened, err := store.Open(t.Context(), store.Options{URL: database})
	check(t, err)
	defer opened.Close()
	made, err := identity.System{Store: opened, Actor: "tests"}.CreateKey(t.Context(), identity.OperatorKey{Email: email, Name: "k", Scope: identity.ScopeAll})
	check(t, err)
	key := made.Reveal()
	joined, err := platformv1connect.NewRuntimeServiceClient(api(key), one.url).RegisterRuntime(t.Context(), connect.NewRequest(&platformv1.RegisterRuntimeRequest{
		Name: "prod", Namespace: "slipway", Cluster: "c", ClusterUid: "u", Version: "1.0.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL,
	}))
	check(t, err)
	connected := make(chan struct{})
	once := sync.OnceFunc(func() { close(connected) })
	ctx, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		_ = tunnel.Run(ctx, tunnel.Options{
			URLs: func() []string { return []string{one.url} }, TLS: trusted,
			Token: func(context.Context) (string, error) { return joined.Msg.GetCredential().GetAccessToken(), nil },
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set(wire.RouterHeader, "prod")
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"name":"canary-response"}`)
			}),
			State: func(count int) {
				if count > 0 {
					once()
				}
			},
		})
	})
	defer ended.Wait()
	defer stop()
	<-connected
	programs.Until(t, "a request through the second replica", func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, two.url+"/runtimes/prod/app-proxy/slipway.runtime.v1.RuntimeService/GetInfo", strings.NewReader(`{"canary":"canary-request"}`))
		check(t, err)
		request.Header.Set("Content-Type", "application/json")
		response, err := api(key).Do(request)
		check(t, err)
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return strings.Contains(string(text), "canary-response")
	})
	heard := tapped.text()
	if len(heard) == 0 || heard[0] != 0x16 {
		t.Fatalf("the other replica sent %q", heard[:min(len(heard), 80)])
	}
	for _, canary := range []string{"canary", "Slipway-Peer", "Bearer", "HTTP/1.1"} {
		if strings.Contains(heard, canary) {
			t.Errorf("%s is readable", canary)
		}
	}
	strangersAtPeers(t, one, opened, joined.Msg.GetRuntime().GetId(), trusted)
}

// strangersAtPeers tries the handler of replicas with a token that was stolen.
func strangersAtPeers(t *testing.T, p *platform, database *store.Store, runtimeID string, trusted *tls.Config) {
	t.Helper()
	signer, err := signing.New(t.Context(), database, secret.New(strings.Repeat("k", 32)), time.Now)
	check(t, err)
	token, err := signer.Peer("two")
	check(t, err)
	parsed, err := url.Parse(p.url)
	check(t, err)
	for name, c := range map[string]struct {
		scheme string
		config *tls.Config
	}{
		"as everyone":        {parsed.Scheme, trusted},
		"with the name":      {"https", &tls.Config{RootCAs: trusted.RootCAs, ServerName: hub.PeerServerName, InsecureSkipVerify: true}},
		"with a certificate": {"https", &tls.Config{ServerName: hub.PeerServerName, InsecureSkipVerify: true, Certificates: []tls.Certificate{pkitest.NewAuthority(t).Issue(t, "x").TLS(t)}}},
	} {
		transport := &http.Transport{TLSClientConfig: c.config, DisableKeepAlives: true}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.scheme+"://"+parsed.Host+wire.PeerPath+runtimeID+"/app-proxy/x", nil)
		check(t, err)
		request.Header.Set("Slipway-Peer", token)
		response, err := transport.RoundTrip(request)
		if err != nil {
			continue // no handshake
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s", name, response.Status)
		}
	}
	if _, err := platformv1connect.NewAuthServiceClient(client(t, "", &http.Transport{TLSClientConfig: trusted.Clone(), ForceAttemptHTTP2: true}), p.url).Methods(t.Context(), connect.NewRequest(&platformv1.MethodsRequest{})); err != nil {
		t.Errorf("others: %v", err)
	}
}

// scarce is a listener that fails to accept now and then, as when the process has no
// file descriptors left.
type scarce struct {
	net.Listener
	failures atomic.Int32
}

func (s *scarce) Accept() (net.Conn, error) {
	if s.failures.Add(1)%2 == 1 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return s.Listener.Accept()
}

// TestPeerListener: neither a failure to accept nor a silent client keeps others from
// the port of a platform with several replicas, and none outlives it.
func TestPeerListener(t *testing.T) {
	p := launch(t, func(o *server.Options) {
		o.PeerURL = o.PublicURL.String()
		o.Listener = &scarce{Listener: o.Listener}
	})
	silent, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	check(t, err)
	defer silent.Close()
	for range 3 {
		if _, err := platformv1connect.NewAuthServiceClient(client(t, "", &http.Transport{DisableKeepAlives: true}), p.url).Methods(t.Context(), connect.NewRequest(&platformv1.MethodsRequest{})); err != nil {
			t.Fatal(err)
		}
	}
	p.stop()
	// It ends with the platform, not by the timeout for headers.
	check(t, silent.SetReadDeadline(time.Now().Add(5*time.Second)))
	if _, err := silent.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a connection outlives the platform")
	}
}
