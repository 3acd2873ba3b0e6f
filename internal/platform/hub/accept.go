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

// Headers of the upgrade.
const (
	// runtimeHeader is the name that an agent has for itself.
	runtimeHeader = "Slipway-Runtime"
	// replicaHeader is the replica that answers.
	replicaHeader = "Slipway-Replica"
	// replicasHeader is how many replicas it knows.
	replicasHeader = "Slipway-Replicas"
)

// maxToken bounds a token.
const maxToken = 8 << 10

const drainMessage = "this replica of the platform is about to end; connect to another"

// Tunnel serves wire.TunnelPath. An answer comes only when the token was checked.
func (h *Hub) Tunnel() http.Handler { return http.HandlerFunc(h.serveTunnel) }

// denial is a handshake that ends with an error.
type denial struct {
	status  int
	outcome string // of the metric
	message string // for the agent
}

// serveTunnel lets one agent in, and stays with it to the end.
func (h *Hub) serveTunnel(w http.ResponseWriter, r *http.Request) {
	heard := h.heard.Load()
	identity, token, denied := h.admit(r)
	if denied != nil {
		h.deny(w, denied)
		return
	}
	if !h.begin() {
		h.deny(w, &denial{http.StatusServiceUnavailable, "draining", drainMessage})
		return
	}
	defer h.inside.Done()
	w.Header().Set(replicaHeader, h.options.ReplicaID)
	w.Header().Set(replicasHeader, strconv.Itoa(h.replicas()))
	socket, err := websocket.Accept(w, r, nil)
	if err != nil {
		h.options.Metrics.handshakes.WithLabelValues("failed").Inc()
		return
	}
	c := h.newConnection(socket, identity, token)
	c.heard = heard
	outcome := c.serve()
	h.options.Metrics.ends.WithLabelValues(string(outcome)).Inc()
	h.options.Log.Info("an agent's connection ended", "runtime", identity.Name, "runtimeID", identity.RuntimeID, observe.KeyReason, string(outcome))
}

// admit checks who wants in.
func (h *Hub) admit(r *http.Request) (signing.RuntimeIdentity, secret.Text, *denial) {
	var nobody signing.RuntimeIdentity
	token, ok := bearer(r.Header)
	if !ok {
		return nobody, secret.Text{}, &denial{http.StatusUnauthorized, "denied", "a tunnel needs the access token of a runtime, as Authorization: Bearer"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.options.Timing.Handshake)
	defer cancel()
	select {
	case h.entering <- struct{}{}:
		defer func() { <-h.entering }()
	case <-ctx.Done():
		return nobody, token, &denial{http.StatusServiceUnavailable, "busy", "too many agents connect at this moment; try again"}
	}
	identity, err := h.options.Verify(ctx, token.Reveal())
	switch {
	case errors.Is(err, store.ErrUnavailable) || err != nil && ctx.Err() != nil:
		h.options.Log.Warn("the token of an agent could not be checked", observe.KeyError, err)
		return nobody, token, &denial{http.StatusServiceUnavailable, "unavailable", "the token could not be checked at this moment; try again"}
	case err != nil:
		return nobody, token, &denial{http.StatusUnauthorized, "denied", "the access token is not valid, has expired or was revoked"}
	}
	if denied := h.fits(r, identity); denied != nil {
		return nobody, token, denied
	}
	return identity, token, nil
}

// fits checks what a verified agent asks for.
func (h *Hub) fits(r *http.Request, identity signing.RuntimeIdentity) *denial {
	h.mu.Lock()
	draining, full := h.draining, h.total >= h.options.Limits.Connections
	h.mu.Unlock()
	switch asked := r.Header.Get(runtimeHeader); {
	case asked != "" && asked != identity.Name:
		h.options.Log.Warn("an agent asked for the name of another runtime", "runtime", identity.Name, "runtimeID", identity.RuntimeID)
		return &denial{http.StatusForbidden, "denied", fmt.Sprintf("the access token is that of runtime %q; the agent must use that name", identity.Name)}
	case r.Header.Get("Origin") != "":
		return &denial{http.StatusForbidden, "denied", "a tunnel is for agents and not for browsers"}
	case draining:
		return &denial{http.StatusServiceUnavailable, "draining", drainMessage}
	case full:
		return &denial{http.StatusServiceUnavailable, "busy", "this replica of the platform has as many connections as it takes; connect to another"}
	}
	return nil
}

// deny answers an agent that is not let in.
func (h *Hub) deny(w http.ResponseWriter, d *denial) {
	h.options.Metrics.handshakes.WithLabelValues(d.outcome).Inc()
	if d.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Connection", "close")
	http.Error(w, d.message, d.status)
}

// bearer is the token of a request.
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
