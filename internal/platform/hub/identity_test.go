package hub_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/hashicorp/yamux"

	"slipway.dev/slipway/internal/access/tunnel"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire"
)

// No agent gets an upgrade without a valid token of its own.
func TestHandshakeDenied(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", nil)
	expired := fmt.Sprintf("a 0 %d", time.Now().Add(-time.Second).UnixNano())
	for _, tt := range []struct {
		name   string
		header http.Header
		want   int
	}{
		{"no token", http.Header{}, http.StatusUnauthorized},
		{"empty token", http.Header{"Authorization": {"Bearer "}}, http.StatusUnauthorized},
		{"another scheme", http.Header{"Authorization": {"Basic " + w.token("a")}}, http.StatusUnauthorized},
		{"two tokens", http.Header{"Authorization": {"Bearer " + w.token("a"), "Bearer " + w.token("a")}}, http.StatusUnauthorized},
		{"nonsense", http.Header{"Authorization": {"Bearer nonsense"}}, http.StatusUnauthorized},
		{"huge token", http.Header{"Authorization": {"Bearer " + strings.Repeat("x", 9<<10)}}, http.StatusUnauthorized},
		{"expired token", http.Header{"Authorization": {"Bearer " + expired}}, http.StatusUnauthorized},
		{"name of another", http.Header{"Authorization": {"Bearer " + w.token("a")}, "Slipway-Runtime": {"name-of-b"}}, http.StatusForbidden},
		{"browser", http.Header{"Authorization": {"Bearer " + w.token("a")}, "Origin": {r.url}}, http.StatusForbidden},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, response, err := websocket.Dial(t.Context(), r.url+wire.TunnelPath, &websocket.DialOptions{HTTPHeader: tt.header})
			if err == nil || response == nil || response.StatusCode != tt.want {
				t.Fatalf("%v, %v; want %d", response, err, tt.want)
			}
			answer, _ := io.ReadAll(response.Body)
			if token, ok := strings.CutPrefix(tt.header.Get("Authorization"), "Bearer "); ok && token != "" && strings.Contains(string(answer), token) {
				t.Errorf("the answer shows the token: %s", answer)
			}
		})
	}
	if r.Connected("a") || r.Connected("b") {
		t.Error("somebody is connected")
	}
	http.DefaultClient.CloseIdleConnections()
}

// An agent that requests the name of another runtime gets the reason of its
// rejection, and gets no request of either.
func TestAnotherName(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", nil)
	w.join(t, "b", says("b"), func(o *tunnel.Options) { o.Runtime = "name-of-b" }, r).await(t, 2)
	w.join(t, "a", says("a"), func(o *tunnel.Options) { o.Runtime = "name-of-b" }, r)
	programs.Until(t, "the agent was refused", func() bool {
		w.authority.mu.Lock()
		defer w.authority.mu.Unlock()
		return w.verified > 4
	})
	if r.Connected("a") {
		t.Error("it is connected under its own name")
	}
	for range 20 {
		if got := r.mustAsk(t, "b", "/app-proxy/x"); got != "b" {
			t.Fatalf("%q answers for b", got)
		}
	}
}

// While the database is unavailable, agents are neither accepted nor disconnected.
func TestStoreAway(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", nil)
	w.join(t, "a", says("a"), nil, r).await(t, 2)
	w.authority.mu.Lock()
	w.away, w.verified = true, 0
	w.authority.mu.Unlock()
	w.directory.tell(store.Change{Kind: store.ChangeAll})
	programs.Until(t, "both tokens are checked again", func() bool {
		w.authority.mu.Lock()
		defer w.authority.mu.Unlock()
		return w.verified >= 2
	})
	_, response, err := websocket.Dial(t.Context(), r.url+wire.TunnelPath,
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + w.token("b")}}})
	if err == nil || response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%v, %v; want 503", response, err)
	}
	if got := r.mustAsk(t, "a", "/app-proxy/x"); got != "a" {
		t.Errorf("%q", got)
	}
	http.DefaultClient.CloseIdleConnections()
}

// Revoking closes every connection on every replica, with what runs on it, within
// five seconds; another runtime does not notice.
func TestRevocation(t *testing.T) {
	w := newWorld()
	one, two := w.start(t, "one", nil), w.start(t, "two", nil)
	one.knows(t, 2)
	two.knows(t, 2)
	w.join(t, "b", stuck, nil, one, two).await(t, 2)
	stolen := w.token("a")
	w.join(t, "a", stuck, func(o *tunnel.Options) {
		o.Token = func(context.Context) (string, error) { return stolen, nil }
		o.Timing.TokenInterval = time.Hour
	}, one, two).await(t, 2)
	programs.Until(t, "both runtimes are at both replicas", func() bool {
		return one.Connected("a") && one.Connected("b") && two.Connected("a") && two.Connected("b")
	})
	failed := make(chan error, 2)
	for _, r := range []*replica{one, two} {
		for _, runtimeID := range []string{"a", "b"} {
			request, _ := http.NewRequestWithContext(t.Context(), "GET", "http://any.test/app-proxy/x", nil)
			response, err := r.Transport(runtimeID).RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			if runtimeID == "b" {
				defer response.Body.Close()
				continue
			}
			go func() {
				_, err := io.Copy(io.Discard, response.Body)
				failed <- errors.Join(err, response.Body.Close())
			}()
		}
	}
	began := time.Now()
	w.revoke("a")
	for range 2 {
		if err := <-failed; err == nil {
			t.Error("an answer ended as if it were complete")
		}
	}
	programs.Until(t, "nothing of a is left", func() bool { return !one.Connected("a") && !two.Connected("a") })
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if !one.Connected("b") || !two.Connected("b") {
		t.Error("another runtime lost its connection")
	}
}

// An agent that is let in and presents itself after the revocation is not
// connected, even where the hub heard of it before the agent was in any list.
func TestRevocationInHandshake(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", func(o *hub.Options) { o.Timing.Recheck = time.Hour })
	token := map[string]string{"a": w.token("a"), "b": w.token("b")}
	w.join(t, "b", says("b"), func(o *tunnel.Options) {
		o.Token = func(context.Context) (string, error) { return token["b"], nil }
		o.Timing.TokenInterval = time.Hour
	}, r).await(t, 2)
	a := w.raw(t, r, token["a"])
	w.revoke("a")
	// The hub receives revocations one after the other.
	w.revoke("b")
	programs.Until(t, "the hub has heard of both", func() bool { return !r.Connected("b") })
	answer, err := bufio.NewReader(a.control(t, fmt.Sprintf("{\"token\":%q}\n", token["a"]))).ReadString('\n')
	if err == nil && !strings.Contains(answer, "revoked") {
		t.Errorf("it is told %q", answer)
	}
	await(t, a.CloseChan(), "the hub ends the connection")
	if r.Connected("a") {
		t.Error("it is connected")
	}
}

// A token whose revocation event was lost is found by the periodic check.
func TestRevocationUntold(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", func(o *hub.Options) { o.Timing.Recheck = 200 * time.Millisecond })
	old := w.token("a")
	w.join(t, "a", says("a"), func(o *tunnel.Options) {
		o.Token = func(context.Context) (string, error) { return old, nil }
		o.Timing.TokenInterval = time.Hour
	}, r).await(t, 2)
	w.authority.mu.Lock()
	w.generations["a"]++
	w.authority.mu.Unlock()
	programs.Until(t, "the connections are closed", func() bool { return !r.Connected("a") })
}

// Connections outlive the tokens they were made with when the agent presents new
// ones, and end with the token when it does not.
func TestTokenExpiry(t *testing.T) {
	w := newWorld()
	w.lifetime = time.Second
	r := w.start(t, "one", func(o *hub.Options) { o.Timing.Recheck = time.Hour })
	ends := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-ends:
			_, _ = io.WriteString(w, "whole")
		}
	})
	w.join(t, "fresh", handler, func(o *tunnel.Options) { o.Timing.TokenInterval = 200 * time.Millisecond }, r).await(t, 2)
	w.join(t, "stale", handler, func(o *tunnel.Options) { o.Timing.TokenInterval = time.Hour }, r).await(t, 2)
	answers := map[string]chan string{"fresh": make(chan string, 1), "stale": make(chan string, 1)}
	for runtimeID, answer := range answers {
		go func() {
			_, text, err := r.ask(t.Context(), runtimeID, "GET", "/app-proxy/x", nil)
			answer <- fmt.Sprint(text, err)
		}()
	}
	if got := <-answers["stale"]; got == "whole<nil>" {
		t.Errorf("a request outlived the token: %s", got)
	}
	// The tokens of the first connections have expired by now, and so they are
	// others.
	close(ends)
	if got := <-answers["fresh"]; got != "whole<nil>" {
		t.Errorf("a request did not outlive the first token: %s", got)
	}
}

// rawAgent is an agent that does what it likes.
type rawAgent struct {
	*yamux.Session
}

func (w *world) raw(t *testing.T, r *replica, token string) *rawAgent {
	t.Helper()
	socket, _, err := websocket.Dial(t.Context(), r.url+wire.TunnelPath,
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}})
	if err != nil {
		t.Fatal(err)
	}
	config := yamux.DefaultConfig()
	config.LogOutput = io.Discard
	session, err := yamux.Server(websocket.NetConn(context.Background(), socket, websocket.MessageBinary), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = socket.CloseNow()
		_ = session.Close()
	})
	return &rawAgent{session}
}

// control opens a stream and sends a message on it.
func (a *rawAgent) control(t *testing.T, line string) net.Conn {
	t.Helper()
	stream, err := a.Open()
	if err != nil {
		t.Fatal(err)
	}
	// The hub may close the connection before this side has completed its write.
	if _, err := io.WriteString(stream, line); err != nil && !errors.Is(err, yamux.ErrSessionShutdown) {
		t.Fatal(err)
	}
	return stream
}

// Agents that do not keep to the rules are cut off.
func TestMisbehaviour(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", func(o *hub.Options) { o.Timing.Handshake = 2 * time.Second })
	line := func(runtimeID string) string {
		text, _ := json.Marshal(map[string]string{"token": w.token(runtimeID)})
		return string(text) + "\n"
	}
	met := func(t *testing.T, a *rawAgent) net.Conn {
		control := a.control(t, line("a"))
		if _, err := bufio.NewReader(control).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		return control
	}
	for name, misbehave := range map[string]func(*testing.T, *rawAgent){
		"says nothing":             func(*testing.T, *rawAgent) {},
		"opens control and waits":  func(t *testing.T, a *rawAgent) { a.control(t, `{"token"`) },
		"token of another runtime": func(t *testing.T, a *rawAgent) { a.control(t, line("b")) },
		"another runtime's later":  func(t *testing.T, a *rawAgent) { _, _ = io.WriteString(met(t, a), line("b")) },
		"no JSON":                  func(t *testing.T, a *rawAgent) { _, _ = io.WriteString(met(t, a), "nonsense\n") },
		"a line without end":       func(t *testing.T, a *rawAgent) { _, _ = io.WriteString(met(t, a), strings.Repeat("x", 20<<10)) },
		"a second stream": func(t *testing.T, a *rawAgent) {
			met(t, a)
			_, _ = a.Open()
		},
		"tokens without end": func(t *testing.T, a *rawAgent) {
			control := met(t, a)
			go func() { _, _ = io.Copy(io.Discard, control) }()
			for !a.IsClosed() {
				if _, err := io.WriteString(control, line("a")); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.raw(t, r, w.token("a"))
			misbehave(t, a)
			await(t, a.CloseChan(), "the hub ends the connection")
			programs.Until(t, "the runtime is not connected", func() bool { return !r.Connected("a") })
		})
	}
}

// When a runtime has more connections than it may, the oldest goes.
func TestOldestConnectionGoes(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", func(o *hub.Options) { o.Limits.ConnectionsPerRuntime = 2 })
	var agents []*rawAgent
	for range 3 {
		a := w.raw(t, r, w.token("a"))
		if _, err := bufio.NewReader(a.control(t, fmt.Sprintf("{\"token\":%q}\n", w.token("a")))).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		agents = append(agents, a)
	}
	await(t, agents[0].CloseChan(), "the oldest connection ends")
	if agents[1].IsClosed() || agents[2].IsClosed() {
		t.Error("a younger one ended too")
	}
}
