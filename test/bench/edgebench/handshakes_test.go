package main

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
)

// Each request has a connection of its own with a full handshake, and a wrong
// response is an error.
func TestHandshakes(t *testing.T) {
	who := must.Get(newIdentity(t.TempDir(), "ecdsa", nil))(t)
	certificate := must.Get(tls.LoadX509KeyPair(who.chainFile, who.keyFile))(t)
	var asked, resumed, size atomic.Int64
	size.Store(smallBody)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.TLS.DidResume {
			resumed.Add(1)
		}
		_, _ = io.WriteString(w, strings.Repeat("x", int(size.Load())))
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	defer server.Close()
	sc := scenario{body: smallBody, tls: true}
	o := order{
		scenario: sc, length: 100 * time.Millisecond,
		site: &site{address: server.Listener.Addr().String(), routes: sc.routeKeys(), tls: who},
	}
	saw, err := runNewConnections(t.Context(), o)
	if err != nil || saw.requests == 0 || saw.requests != asked.Load() || saw.errors != 0 || resumed.Load() != 0 {
		t.Errorf("got %+v, %v; the server has %d requests, %d of them on resumed sessions", saw, err, asked.Load(), resumed.Load())
	}
	asked.Store(0)
	if saw, err := runResumed(t.Context(), o); err != nil || saw.errors != 0 || resumed.Load() < asked.Load()-handshakeClients {
		t.Errorf("resumed: got %+v, %v; the server has %d requests, %d of them on resumed sessions", saw, err, asked.Load(), resumed.Load())
	}
	size.Store(smallBody - 1)
	if saw, err := runNewConnections(t.Context(), o); !errors.Is(err, errNoRequests) {
		t.Errorf("wrong answers: got %+v, %v", saw, err)
	}
}
