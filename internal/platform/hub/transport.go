package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/platform/store"
)

// agentHost is the host of every URL to an agent; a connection has only one
// peer.
const agentHost = "router"

// Transport returns a RoundTripper that sends requests to a runtime, over a
// connection of this replica or through another replica. It fails with
// *OfflineError when the runtime is not connected, with *refusal.Refusal or
// *http.MaxBytesError for requests that may not pass, and with *BusyError at
// the concurrency limit. Path, headers and Host header arrive unchanged;
// scheme and host of the URL are ignored.
func (h *Hub) Transport(runtimeID string) http.RoundTripper {
	return &transport{hub: h, runtimeID: runtimeID, viaPeers: true}
}

// WaitingTransport is a Transport for a runtime that is alive according to its
// heartbeat. Such a runtime has no connection between its registration and its
// first tunnel, and while its agent is replaced. A request waits for one then,
// up to connectWait, instead of failing.
func (h *Hub) WaitingTransport(runtimeID string) http.RoundTripper {
	return &transport{hub: h, runtimeID: runtimeID, viaPeers: true, timeout: connectWait}
}

const (
	// connectWait is how long a request waits for a connection of a runtime. It
	// covers a few attempts of an agent and is short enough for a user who waits.
	connectWait = 5 * time.Second
	// connectPoll is how often a waiting request looks for a connection. It is
	// polled because the connection may be one of another replica.
	connectPoll = 50 * time.Millisecond
)

// transport sends requests to one runtime.
type transport struct {
	hub       *Hub
	runtimeID string
	// timeout is how long a request waits for a connection.
	timeout time.Duration
	// viaPeers allows forwarding to other replicas. It is false for requests
	// that came from another replica, which prevents loops.
	viaPeers bool
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body := newRequestBody(r, t.hub.options.Limits.BodyBytes)
	response, way, err := t.send(r, body)
	t.hub.options.Metrics.requests.WithLabelValues(way).Inc()
	if err != nil {
		body.close()
	}
	return response, err
}

// send validates a request and sends it, when the runtime is connected or
// becomes so within the timeout of the transport. The string is the label of
// requests_total.
func (t *transport) send(r *http.Request, body *requestBody) (*http.Response, string, error) {
	if err := t.hub.checkRequest(r); err != nil {
		return nil, "refused", err
	}
	until := time.Now().Add(t.timeout)
	for {
		response, way, err := t.sendNow(r, body)
		if _, offline := errors.AsType[*OfflineError](err); !offline || time.Now().After(until) || backoff.Sleep(r.Context(), connectPoll) != nil {
			return response, way, err
		}
	}
}

// sendNow tries up to two local connections, then other replicas. A request of
// which any byte was sent is not retried: the agent may have executed it.
func (t *transport) sendNow(r *http.Request, body *requestBody) (*http.Response, string, error) {
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
	if t.viaPeers {
		response, err := t.hub.forwardToPeers(r, body, t.runtimeID)
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

// pick returns the usable connection with the fewest requests in flight and
// counts one more on it. It returns nil when there is none.
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

// done ends a request that pick counted. The last request of a moved
// connection closes it.
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
			c.finish(closeMoved)
		}
	default:
	}
}

// roundTrip sends a request over the connection. sent reports whether any
// byte of it may have reached the agent.
func (c *connection) roundTrip(r *http.Request, body *requestBody) (response *http.Response, sent bool, err error) {
	var wrote atomic.Bool
	outgoing := retarget(r, &url.URL{Scheme: "http", Host: agentHost}, &wrote)
	outgoing.Body = body.attempt()
	response, err = c.transport.RoundTrip(outgoing)
	untouched := body.finishAttempt(err == nil)
	if err != nil {
		c.done()
		return nil, wrote.Load() || !untouched, fmt.Errorf("send the request to the agent: %w", err)
	}
	finishWith(response, c.done)
	response.Request = r
	return response, true, nil
}

// retarget returns a copy of a request for another host. wrote is set when
// the header has been written.
func retarget(r *http.Request, base *url.URL, wrote *atomic.Bool) *http.Request {
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		WroteHeaders: func() { wrote.Store(true) },
	})
	outgoing := r.Clone(ctx)
	outgoing.URL.Scheme, outgoing.URL.Host, outgoing.URL.User = base.Scheme, base.Host, nil
	outgoing.Host = cmp.Or(outgoing.Host, r.URL.Host)
	if outgoing.Header == nil {
		outgoing.Header = http.Header{}
	}
	// The transport must not replay the body by itself: requestBody controls
	// retries.
	outgoing.GetBody = nil
	return outgoing
}

// replicasHolding returns the other live replicas that have a connection of a
// runtime.
func (h *Hub) replicasHolding(ctx context.Context, runtimeID string) ([]store.Replica, error) {
	live := map[string]store.Replica{}
	for _, replica := range *h.liveReplicas.Load() {
		if replica.ID != h.options.ReplicaID && replica.PeerURL != "" {
			live[replica.ID] = replica
		}
	}
	if len(live) == 0 {
		return nil, nil
	}
	connections, err := h.options.Directory.Connections(ctx, runtimeID, h.oldest())
	if err != nil {
		return nil, fmt.Errorf("look up replicas of runtime %s: %w", runtimeID, err)
	}
	var holders []store.Replica
	for _, connection := range connections {
		if replica, ok := live[connection.ReplicaID]; ok && connection.Count > 0 {
			holders = append(holders, replica)
		}
	}
	return holders, nil
}
