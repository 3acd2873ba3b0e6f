package hub_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/access/tunnel"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire"
)

// knows waits until a replica has so many live replicas.
func (r *replica) knows(t testing.TB, replicas int) {
	t.Helper()
	programs.Until(t, "the replicas know each other", func() bool { return len(r.TunnelURLs()) == replicas })
}

// recorded waits until the directory has a runtime at a replica.
func (w *world) recorded(t testing.TB, runtimeID, replicaID string) {
	t.Helper()
	programs.Until(t, "the directory has the connection", func() bool {
		w.directory.mu.Lock()
		defer w.directory.mu.Unlock()
		return w.connections[[2]string{runtimeID, replicaID}].Count > 0
	})
}

// A request for a runtime that is connected elsewhere goes there, unchanged.
func TestThroughPeer(t *testing.T) {
	w := newWorld()
	one, two := w.start(t, "one", nil), w.start(t, "two", nil)
	w.join(t, "a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for name := range r.Header {
			if strings.HasPrefix(name, "Slipway-Peer") {
				t.Errorf("the agent sees %s", name)
			}
		}
		fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.Host, r.RequestURI, r.Header.Get("X-Forwarded-For"), body)
	}), nil, one).await(t, 2)
	w.recorded(t, "a", "one")
	two.knows(t, 2)
	request, _ := http.NewRequestWithContext(t.Context(), "POST", "https://shop.test/webhooks/a%2Fb?q=1", strings.NewReader("body"))
	request.Header.Set("X-Forwarded-For", "192.0.2.1")
	response, err := two.Transport("a").RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if want := "POST shop.test /webhooks/a%2Fb?q=1 192.0.2.1 body"; string(text) != want {
		t.Errorf("%q; want %q", text, want)
	}
}

// A stale directory entry leads to one attempt and not to a loop.
func TestStaleDirectory(t *testing.T) {
	w := newWorld()
	one, two := w.start(t, "one", nil), w.start(t, "two", nil)
	one.knows(t, 2)
	two.knows(t, 2)
	for _, id := range []string{"one", "two"} {
		_ = w.PutConnection(t.Context(), store.Connection{RuntimeID: "a", ReplicaID: id, Count: 1, SeenAt: time.Now()})
	}
	_, _, err := one.ask(t.Context(), "a", "POST", "/app-proxy/x", strings.NewReader("body"))
	if _, ok := errors.AsType[*hub.OfflineError](err); !ok {
		t.Errorf("%v, not an OfflineError", err)
	}
}

// When the first replica is not there, and so has nothing of the request, the
// second gets it with the whole body.
func TestSecondPeer(t *testing.T) {
	w := newWorld()
	gone := listenLoopback(t)
	_ = gone.Close()
	one, two := w.start(t, "one", nil), w.start(t, "two", nil)
	w.join(t, "a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }), nil, one).await(t, 2)
	w.recorded(t, "a", "one")
	_ = w.PutReplica(t.Context(), store.Replica{ID: "gone", PeerURL: "http://" + gone.Addr().String(), TunnelURL: "gone", SeenAt: time.Now().Add(time.Hour)})
	_ = w.PutConnection(t.Context(), store.Connection{RuntimeID: "a", ReplicaID: "gone", Count: 1, SeenAt: time.Now()})
	two.knows(t, 3)
	// The directory gives them in any order.
	for range 20 {
		if _, text, err := two.ask(t.Context(), "a", "POST", "/app-proxy/x", io.MultiReader(strings.NewReader("whole body"))); err != nil || text != "whole body" {
			t.Fatalf("%q, %v", text, err)
		}
	}
}

// The handler for replicas is for replicas.
func TestPeerDenied(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", nil)
	w.join(t, "a", says("a"), nil, r).await(t, 2)
	_, config := peerTLS(t, "the secret of the replicas")
	config.ServerName = hub.PeerServerName
	for _, tt := range []struct {
		name, token, path string
		want              int
	}{
		{"no token", "", "a/app-proxy/x", http.StatusUnauthorized},
		{"an agent's token", w.token("a"), "a/app-proxy/x", http.StatusUnauthorized},
		{"itself", "peer of one", "a/app-proxy/x", http.StatusLoopDetected},
		{"another path", "peer of two", "a/metrics", http.StatusBadGateway},
		{"no path", "peer of two", "a", http.StatusNotFound},
		{"escaped runtime", "peer of two", "%61/app-proxy/x", http.StatusNotFound},
		{"another runtime", "peer of two", "b/app-proxy/x", http.StatusServiceUnavailable},
		{"good", "peer of two", "a/app-proxy/x", http.StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			request, _ := http.NewRequestWithContext(t.Context(), "GET", strings.Replace(r.peer, "http:", "https:", 1)+wire.PeerPath+tt.path, nil)
			if tt.token != "" {
				request.Header.Set("Slipway-Peer", tt.token)
			}
			response, err := (&http.Transport{DisableKeepAlives: true, TLSClientConfig: config}).RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != tt.want {
				t.Errorf("%s; want %d", response.Status, tt.want)
			}
		})
	}
}

// A token of a replica is worth nothing without its key: not on a plain connection,
// not with another key, not with another name.
func TestPeerNeedsKey(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", nil)
	w.join(t, "a", says("a"), nil, r).await(t, 2)
	_, good := peerTLS(t, "the secret of the replicas")
	_, wrong := peerTLS(t, "another secret")
	encrypted := strings.Replace(r.peer, "http:", "https:", 1)
	public := httptest.NewTLSServer(r.PeerHandler())
	defer public.Close()
	for name, c := range map[string]struct {
		url, serverName string
		config          *tls.Config
		want            int // 0 is no connection
	}{
		"plain":              {r.url, "", nil, http.StatusUnauthorized},
		"another key":        {encrypted, hub.PeerServerName, wrong, 0},
		"no key":             {encrypted, hub.PeerServerName, &tls.Config{InsecureSkipVerify: true}, 0},
		"public certificate": {public.URL, hub.PeerServerName, &tls.Config{InsecureSkipVerify: true}, http.StatusUnauthorized},
		"another name":       {encrypted, "slipway.example.com", good, http.StatusUnauthorized},
		"key, name, address": {encrypted, hub.PeerServerName, good, http.StatusOK},
	} {
		transport := &http.Transport{DisableKeepAlives: true}
		if c.config != nil {
			transport.TLSClientConfig = c.config.Clone()
			transport.TLSClientConfig.ServerName = c.serverName
		}
		request, _ := http.NewRequestWithContext(t.Context(), "GET", c.url+wire.PeerPath+"a/app-proxy/x", nil)
		request.Header.Set("Slipway-Peer", "peer of two")
		status := 0
		if response, err := transport.RoundTrip(request); err == nil {
			status = response.StatusCode
			_ = response.Body.Close()
		}
		if status != c.want {
			t.Errorf("%s: %d, want %d", name, status, c.want)
		}
	}
}

// A server without the key that is at the address of a replica gets no request.
func TestImpostor(t *testing.T) {
	w := newWorld()
	two := w.start(t, "two", nil)
	wrong, _ := peerTLS(t, "another secret")
	asked := make(chan string, 10)
	impostor := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.Header.Get("Slipway-Peer") }))
	impostor.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	impostor.TLS = wrong
	impostor.StartTLS()
	defer impostor.Close()
	_ = w.PutReplica(t.Context(), store.Replica{ID: "one", PeerURL: impostor.URL, TunnelURL: "one", SeenAt: time.Now().Add(time.Hour)})
	_ = w.PutConnection(t.Context(), store.Connection{RuntimeID: "a", ReplicaID: "one", Count: 1, SeenAt: time.Now()})
	two.knows(t, 2)
	if _, text, err := two.ask(t.Context(), "a", "POST", "/app-proxy/x", strings.NewReader("body")); err == nil {
		t.Errorf("it responded %q", text)
	}
	if len(asked) != 0 {
		t.Errorf("it got %q", <-asked)
	}
}

// The port of a peer URL is that of its scheme, although the connection has TLS.
func TestPeerPort(t *testing.T) {
	w := newWorld()
	two := w.start(t, "two", nil)
	_ = w.PutReplica(t.Context(), store.Replica{ID: "one", PeerURL: "http://127.0.0.9", TunnelURL: "one", SeenAt: time.Now().Add(time.Hour)})
	_ = w.PutConnection(t.Context(), store.Connection{RuntimeID: "a", ReplicaID: "one", Count: 1, SeenAt: time.Now()})
	two.knows(t, 2)
	if _, _, err := two.ask(t.Context(), "a", "GET", "/app-proxy/x", nil); err == nil || !strings.Contains(err.Error(), "127.0.0.9:80:") {
		t.Errorf("got %v", err)
	}
}

// Two connections go to two replicas, and both to one only while there is no other;
// when the other is back, one of them moves.
func TestDifferentReplicas(t *testing.T) {
	w := newWorld()
	one := w.start(t, "one", nil)
	var two *replica
	a := w.join(t, "a", says("a"), func(o *tunnel.Options) {
		urls := o.URLs
		o.URLs = func() []string { return append(urls(), one.TunnelURLs()...) }
	})
	a.await(t, 2)
	if !one.Connected("a") {
		t.Fatal("the only replica has no connection")
	}
	two = w.start(t, "two", nil)
	programs.Until(t, "one connection has moved to the new replica", func() bool { return two.Connected("a") && one.Connected("a") })
	a.await(t, 2)
	two.stop()
	programs.Until(t, "both connections are at the replica that is left", func() bool { return w.count("a", "one") == 2 })
}

func (w *world) count(runtimeID, replicaID string) int {
	w.directory.mu.Lock()
	defer w.directory.mu.Unlock()
	return w.connections[[2]string{runtimeID, replicaID}].Count
}

// A replica that ends moves its agents first: no request fails, and those that run
// are finished.
func TestDrain(t *testing.T) {
	w := newWorld()
	replicas := []*replica{w.start(t, "one", nil), w.start(t, "two", nil), w.start(t, "three", nil)}
	for _, r := range replicas {
		r.knows(t, 3)
	}
	release := make(chan struct{})
	began := make(chan struct{}, 1)
	a := w.join(t, "a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/app-proxy/slow" {
			began <- struct{}{}
			<-release
		}
		_, _ = io.WriteString(w, "done")
	}), nil, replicas...)
	a.await(t, 2)
	closeReason := replicas[0]
	if !closeReason.Connected("a") {
		closeReason = replicas[1]
	}
	slow := make(chan string, 1)
	go func() {
		_, text, err := closeReason.ask(t.Context(), "a", "GET", "/app-proxy/slow", nil)
		slow <- fmt.Sprint(text, err)
	}()
	<-began
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		closeReason.stop()
	}()
	asked := 0
	for moved := false; !moved; asked++ {
		for _, r := range replicas {
			if r != closeReason {
				if _, got, err := askOver(t.Context(), r.WaitingTransport("a"), "GET", "/app-proxy/fast", nil); got != "done" {
					t.Fatal(got, err)
				}
			}
		}
		moved = !closeReason.Connected("a")
	}
	close(release)
	if got := <-slow; got != "done<nil>" {
		t.Errorf("the request that ran: %s", got)
	}
	await(t, ended, "the replica ends")
	a.await(t, 2)
	t.Logf("%d rounds of requests while the agent moved", asked)
}

// An agent that ends finishes what it has begun, and the platform uses no
// connection of it for anything new.
func TestAgentEnds(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", nil)
	release, began := make(chan struct{}), make(chan struct{})
	old := w.join(t, "a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/app-proxy/slow" {
			close(began)
			<-release
		}
		_, _ = io.WriteString(w, "finished")
	}), nil, r)
	old.await(t, 2)
	answer := make(chan string, 1)
	go func() {
		_, text, err := r.ask(t.Context(), "a", "GET", "/app-proxy/slow", nil)
		answer <- fmt.Sprint(text, err)
	}()
	<-began
	w.join(t, "a", says("successor"), nil, r).await(t, 2)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		old.stop()
	}()
	programs.Until(t, "only the successor is asked", func() bool {
		first, second := r.mustAsk(t, "a", "/app-proxy/x"), r.mustAsk(t, "a", "/app-proxy/x")
		return first == "successor" && second == "successor"
	})
	close(release)
	if got := <-answer; got != "finished<nil>" {
		t.Errorf("the request that ran: %s", got)
	}
	await(t, ended, "the agent ends")
}
