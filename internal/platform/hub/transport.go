package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"

	"slipway.dev/slipway/internal/platform/store"
)

// agentHost is the host of every URL to an agent; there is only one on a connection.
const agentHost = "router"

// Transport sends requests to a runtime: over a connection of this replica, or
// through one that has a connection. It gives an *OfflineError when there is none, a
// *RefusedError or *http.MaxBytesError for what does not pass, and a *BusyError when
// the runtime has too much to do. Path, headers and host of a request arrive as they
// are; scheme and host of its URL do not matter.
func (h *Hub) Transport(runtimeID string) http.RoundTripper {
	return &transport{hub: h, runtimeID: runtimeID, abroad: true}
}

// transport sends requests to one runtime.
type transport struct {
	hub       *Hub
	runtimeID string
	// abroad allows other replicas.
	abroad bool
}

// RoundTrip sends one request.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body := newRequestBody(r, t.hub.options.Limits.BodyBytes)
	response, way, err := t.send(r, body)
	t.hub.options.Metrics.requests.WithLabelValues(way).Inc()
	if err != nil {
		body.close()
	}
	return response, err
}

// send checks a request and tries up to two ways.
func (t *transport) send(r *http.Request, body *requestBody) (*http.Response, string, error) {
	if err := t.hub.checkRequest(r); err != nil {
		return nil, "refused", err
	}
	var avoid *connection
	var failure error
	for range 2 {
		c, err := t.hub.pick(t.runtimeID, avoid)
		if err != nil {
			return nil, "limited", err
		}
		if c == nil {
			break
		}
		response, sent, err := c.roundTrip(r, body)
		if err == nil {
			return response, "local", nil
		}
		failure, avoid = err, c
		if sent || r.Context().Err() != nil {
			return nil, "failed", err
		}
	}
	if t.abroad {
		response, err := t.hub.askPeers(r, body, t.runtimeID)
		switch {
		case err == nil:
			return response, "peer", nil
		case !errors.Is(err, errNoPeer):
			return nil, "failed", err
		}
	}
	if failure != nil {
		return nil, "failed", failure
	}
	return nil, "offline", &OfflineError{RuntimeID: t.runtimeID}
}

// pick takes the connection with the fewest requests, and counts one more on it.
func (h *Hub) pick(runtimeID string, avoid *connection) (*connection, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.runtimes[runtimeID]
	if r == nil {
		return nil, nil
	}
	var best *connection
	for _, c := range r.connections {
		if c != avoid && c.usable() && (best == nil || c.running < best.running) {
			best = c
		}
	}
	if best == nil {
		return nil, nil
	}
	if r.running >= h.options.Limits.StreamsPerRuntime {
		return nil, &BusyError{RuntimeID: runtimeID, Limit: h.options.Limits.StreamsPerRuntime}
	}
	r.running++
	best.running++
	h.options.Metrics.streams.Inc()
	return best, nil
}

// done is the end of a request.
func (c *connection) done() {
	h := c.hub
	h.mu.Lock()
	c.running--
	if r := h.runtimes[c.runtimeID]; r != nil {
		r.running--
		h.forgetLocked(c.runtimeID)
	}
	last := c.running == 0
	h.mu.Unlock()
	h.options.Metrics.streams.Dec()
	select {
	case <-c.moved:
		if last {
			c.finish(endMoved)
		}
	default:
	}
}

// roundTrip sends a request over the connection, and says whether any of it may
// have reached the agent.
func (c *connection) roundTrip(r *http.Request, body *requestBody) (response *http.Response, sent bool, err error) {
	var wrote atomic.Bool
	outgoing := retarget(r, &url.URL{Scheme: "http", Host: agentHost}, &wrote)
	outgoing.Body = body.attempt()
	response, err = c.transport.RoundTrip(outgoing)
	untouched := body.settle(err == nil)
	if err != nil {
		c.done()
		return nil, wrote.Load() || !untouched, fmt.Errorf("send the request to the agent: %w", err)
	}
	finishWith(response, c.done)
	response.Request = r
	return response, true, nil
}

// retarget is a request to another host, which tells when its header was written.
func retarget(r *http.Request, base *url.URL, wrote *atomic.Bool) *http.Request {
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		WroteHeaders: func() { wrote.Store(true) },
	})
	outgoing := r.Clone(ctx)
	outgoing.URL.Scheme, outgoing.URL.Host, outgoing.URL.User = base.Scheme, base.Host, nil
	if outgoing.Host == "" {
		outgoing.Host = r.URL.Host
	}
	if outgoing.Header == nil {
		outgoing.Header = http.Header{}
	}
	outgoing.GetBody = nil
	return outgoing
}

// holders are the other replicas that have a connection of a runtime.
func (h *Hub) holders(ctx context.Context, runtimeID string) ([]store.Replica, error) {
	lived := map[string]store.Replica{}
	for _, replica := range *h.others.Load() {
		if replica.ID != h.options.ReplicaID && replica.PeerURL != "" {
			lived[replica.ID] = replica
		}
	}
	if len(lived) == 0 {
		return nil, nil
	}
	connections, err := h.options.Directory.Connections(ctx, runtimeID, h.oldest())
	if err != nil {
		return nil, fmt.Errorf("look for the replica that runtime %s is connected to: %w", runtimeID, err)
	}
	var holding []store.Replica
	for _, connection := range connections {
		if replica, ok := lived[connection.ReplicaID]; ok && connection.Count > 0 {
			holding = append(holding, replica)
		}
	}
	return holding, nil
}
