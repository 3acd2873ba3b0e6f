package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/coder/websocket"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
)

// Headers of the WebSocket upgrade, as the agent's package has them.
const (
	// runtimeHeader is the runtime name that an agent is configured with.
	runtimeHeader = "Slipway-Runtime"
	// replicaHeader identifies the replica that accepted the connection.
	replicaHeader = "Slipway-Replica"
	// replicasHeader is the number of live replicas in its directory.
	replicasHeader = "Slipway-Replicas"
)

// maxToken bounds a token. It is checked before the token is parsed.
const maxToken = 8 << 10

const drainMessage = "this replica of the platform is shutting down; connect to another"

// Tunnel returns the handler of wire.TunnelPath. It responds only after the
// token was verified.
func (h *Hub) Tunnel() http.Handler { return http.HandlerFunc(h.serveTunnel) }

// rejection is a handshake that ends with an error response.
type rejection struct {
	status  int
	outcome string // label of the metric
	message string // body of the response
}

// serveTunnel accepts the connection of one agent and returns when it is
// closed.
func (h *Hub) serveTunnel(w http.ResponseWriter, r *http.Request) {
	// The counter is read before the token is verified. If it has changed
	// when the connection is registered, a revocation may have been missed in
	// between.
	rechecks := h.rechecks.Load()
	identity, token, rejected := h.authenticate(r)
	if rejected != nil {
		h.reject(w, rejected)
		return
	}
	if !h.startConnection() {
		h.reject(w, &rejection{http.StatusServiceUnavailable, "draining", drainMessage})
		return
	}
	defer h.active.Done()
	w.Header().Set(replicaHeader, h.options.ReplicaID)
	w.Header().Set(replicasHeader, strconv.Itoa(h.replicas()))
	socket, err := websocket.Accept(w, r, nil)
	if err != nil {
		h.options.Metrics.handshakes.WithLabelValues("failed").Inc()
		return
	}
	c := h.newConnection(socket, identity, token)
	c.rechecks = rechecks
	outcome := c.serve()
	h.options.Metrics.ends.WithLabelValues(string(outcome)).Inc()
	h.options.Log.Info("agent disconnected", "runtime", identity.Name, "runtimeID", identity.RuntimeID, observe.KeyReason, string(outcome))
}

// authenticate verifies the token of an agent and that the agent may connect.
// A store that is unavailable results in 503, not 401: the agent retries and
// keeps its credential.
func (h *Hub) authenticate(r *http.Request) (signing.RuntimeIdentity, secret.Text, *rejection) {
	var none signing.RuntimeIdentity
	token, ok := bearer(r.Header)
	if !ok {
		return none, secret.Text{}, &rejection{http.StatusUnauthorized, "denied", "a tunnel needs the access token of a runtime, as Authorization: Bearer"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.options.Timing.Handshake)
	defer cancel()
	select {
	case h.handshakeSlots <- struct{}{}:
		defer func() { <-h.handshakeSlots }()
	case <-ctx.Done():
		return none, token, &rejection{http.StatusServiceUnavailable, "busy", "too many agents are connecting; retry later"}
	}
	identity, err := h.options.Verify(ctx, token.Reveal())
	switch {
	case errors.Is(err, store.ErrUnavailable) || err != nil && ctx.Err() != nil:
		h.options.Log.Warn("agent token verification failed", observe.KeyError, err)
		return none, token, &rejection{http.StatusServiceUnavailable, "unavailable", "the token cannot be verified at the moment; retry later"}
	case err != nil:
		return none, token, &rejection{http.StatusUnauthorized, "denied", "the access token is not valid, has expired or was revoked"}
	}
	if rejected := h.checkAdmission(r, identity); rejected != nil {
		return none, token, rejected
	}
	return identity, token, nil
}

// checkAdmission applies the name, origin, drain and capacity checks to an
// authenticated agent.
func (h *Hub) checkAdmission(r *http.Request, identity signing.RuntimeIdentity) *rejection {
	h.mu.Lock()
	draining, full := h.draining, h.total >= h.options.Limits.Connections
	h.mu.Unlock()
	switch requested := r.Header.Get(runtimeHeader); {
	case requested != "" && requested != identity.Name:
		h.options.Log.Warn("agent requested the name of another runtime", "runtime", identity.Name, "runtimeID", identity.RuntimeID)
		return &rejection{http.StatusForbidden, "denied", fmt.Sprintf("the access token is that of runtime %q; the agent must use that name", identity.Name)}
	case r.Header.Get("Origin") != "":
		return &rejection{http.StatusForbidden, "denied", "the tunnel endpoint is not for browsers"}
	case draining:
		return &rejection{http.StatusServiceUnavailable, "draining", drainMessage}
	case full:
		return &rejection{http.StatusServiceUnavailable, "busy", "this replica of the platform has reached its connection limit; connect to another"}
	}
	return nil
}

// reject writes the error response of a handshake. The TCP connection is
// closed, so that the agent's next attempt may reach another replica.
func (h *Hub) reject(w http.ResponseWriter, d *rejection) {
	h.options.Metrics.handshakes.WithLabelValues(d.outcome).Inc()
	if d.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Connection", "close")
	http.Error(w, d.message, d.status)
}

// bearer returns the token of the Authorization header (RFC 6750). Several
// headers, or an oversized one, count as none.
func bearer(header http.Header) (secret.Text, bool) {
	values := header.Values("Authorization")
	if len(values) != 1 || len(values[0]) > maxToken {
		return secret.Text{}, false
	}
	scheme, token, found := strings.Cut(values[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return secret.Text{}, false
	}
	return secret.New(token), true
}
