package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire"
)

// Headers between replicas. They are removed before a request reaches an
// agent.
const (
	// peerHeader carries the token of the forwarding replica.
	peerHeader = "Slipway-Peer"
	// peerHostHeader is the Host header of the original request.
	peerHostHeader = "Slipway-Peer-Host"
	// peerOutcomeHeader marks a response that the replica generated itself,
	// as opposed to the agent's.
	peerOutcomeHeader = "Slipway-Peer-Outcome"
)

// Values of peerOutcomeHeader.
const (
	outcomeOffline = "offline"
	outcomeBusy    = "busy"
	outcomeDenied  = "denied"
	outcomeFailed  = "failed"
)

// errNoPeer reports that the runtime is connected to no other replica.
var errNoPeer = errors.New("no other replica has a connection of the runtime")

// peerDial bounds dialing another replica, which is on the same network.
const peerDial = 3 * time.Second

// PeerServerName is the name in the TLS handshakes of replicas. It distinguishes
// them from clients of the public certificate on the same port, and belongs to no
// host (RFC 6761).
const PeerServerName = "peer.slipway.invalid"

// newPeerTransport returns the transport to other replicas. It uses no proxy,
// and HTTP/1.1, because HTTP/2 cannot switch protocols.
func newPeerTransport(o Options) *http.Transport {
	config := o.PeerTLS.Clone()
	config.ServerName, config.NextProtos = PeerServerName, []string{"http/1.1"}
	return &http.Transport{
		DialContext:     (&net.Dialer{Timeout: peerDial, KeepAlive: o.Timing.Ping}).DialContext,
		TLSClientConfig: config, TLSHandshakeTimeout: peerDial,
		DisableCompression:  true,
		MaxIdleConnsPerHost: idleStreams, IdleConnTimeout: idleTimeout,
		MaxResponseHeaderBytes: o.Limits.HeaderBytes + maxToken,
		ExpectContinueTimeout:  time.Second,
	}
}

// forwardToPeers forwards a request to a replica that has a connection, and
// to a second one if the first received no byte of it.
func (h *Hub) forwardToPeers(r *http.Request, body *requestBody, runtimeID string) (*http.Response, error) {
	holders, err := h.replicasHolding(r.Context(), runtimeID)
	if err != nil {
		return nil, err
	}
	failure := errNoPeer
	for _, replica := range holders[:min(len(holders), 2)] {
		response, sent, err := h.forwardToPeer(r, body, replica.PeerURL, runtimeID)
		if err == nil {
			return response, nil
		}
		if sent || r.Context().Err() != nil {
			return nil, err
		}
		if !errors.Is(err, errNoPeer) {
			h.options.Log.Warn("forwarding a request to another replica failed", "replica", replica.ID, observe.KeyError, err)
			failure = err
		}
	}
	return nil, failure
}

// forwardToPeer forwards a request to one replica. sent reports whether any
// byte of it may have reached the agent.
func (h *Hub) forwardToPeer(r *http.Request, body *requestBody, peerURL, runtimeID string) (response *http.Response, sent bool, err error) {
	base, err := url.Parse(peerURL)
	if err != nil {
		return nil, false, errors.New("the peer URL of a replica is invalid; correct its configuration")
	}
	if base.Scheme == "http" && base.Port() == "" {
		base.Host += ":80" // the port does not depend on TLS
	}
	base.Scheme = "https"
	token, err := h.options.Peer.Peer(h.options.ReplicaID)
	if err != nil {
		return nil, false, fmt.Errorf("sign peer token: %w", err)
	}
	var wrote atomic.Bool
	outgoing := retarget(r, base, &wrote)
	prefix := strings.TrimSuffix(base.Path, "/") + wire.PeerPath + runtimeID
	if outgoing.URL.RawPath != "" {
		outgoing.URL.RawPath = prefix + outgoing.URL.RawPath
	}
	outgoing.URL.Path = prefix + outgoing.URL.Path
	outgoing.Header.Set(peerHeader, token)
	outgoing.Header.Set(peerHostHeader, outgoing.Host)
	outgoing.Host = ""
	outgoing.Body = body.attempt()
	response, err = h.peers.RoundTrip(outgoing)
	if err == nil && response.Header.Get(peerOutcomeHeader) != "" {
		outcome := response.Header.Get(peerOutcomeHeader)
		_ = response.Body.Close()
		response, err = nil, peerError(outcome, runtimeID, h.options.Limits.StreamsPerRuntime)
		// Except for a failed attempt, a replica that responds itself has not
		// sent the request to the agent.
		wrote.Store(outcome == outcomeFailed)
	}
	untouched := body.finishAttempt(err == nil)
	if err != nil {
		return nil, wrote.Load() || !untouched, fmt.Errorf("forward request to replica: %w", err)
	}
	response.Request = r
	return response, true, nil
}

// peerError converts the outcome of another replica to an error.
func peerError(outcome, runtimeID string, limit int) error {
	switch outcome {
	case outcomeOffline:
		return errNoPeer
	case outcomeBusy:
		return &BusyError{RuntimeID: runtimeID, Limit: limit}
	default:
		return fmt.Errorf("replica responded with %q", outcome)
	}
}

// PeerHandler returns the handler of wire.PeerPath: requests that other
// replicas forward. It uses connections of this replica only, so that no
// request loops.
func (h *Hub) PeerHandler() http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:       rewritePeer,
		Transport:     peerTransport{h},
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { h.failPeer(w, err) },
		ErrorLog:      slog.NewLogLogger(h.options.Log.Handler(), slog.LevelDebug),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Only the handshake of replicas has a certificate of the client, and it
		// has verified that. A token that was stolen is worth nothing without it.
		trusted := r.TLS != nil && r.TLS.ServerName == PeerServerName && len(r.TLS.PeerCertificates) > 0
		tokens := r.Header.Values(peerHeader)
		if !trusted || len(tokens) != 1 || len(tokens[0]) > maxToken {
			writePeerOutcome(w, http.StatusUnauthorized, outcomeDenied)
			return
		}
		replica, err := h.options.Peer.VerifyPeer(tokens[0])
		if err != nil || replica == "" {
			writePeerOutcome(w, http.StatusUnauthorized, outcomeDenied)
			return
		}
		if replica == h.options.ReplicaID {
			// A peer URL that leads back to this replica would forward
			// without end.
			writePeerOutcome(w, http.StatusLoopDetected, outcomeDenied)
			return
		}
		runtimeID, ok := peerRuntime(r.URL)
		if !ok {
			writePeerOutcome(w, http.StatusNotFound, outcomeDenied)
			return
		}
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), runtimeKey{}, runtimeID)))
	})
}

// runtimeKey is the context key of the runtime ID of a forwarded request.
type runtimeKey struct{}

// peerRuntime returns the runtime ID of a path.
func peerRuntime(u *url.URL) (string, bool) {
	rest, ok := strings.CutPrefix(u.Path, wire.PeerPath)
	if !ok {
		return "", false
	}
	runtimeID, path, ok := strings.Cut(rest, "/")
	// An escaped ID would be split at another position of the raw path.
	return runtimeID, ok && runtimeID != "" && strings.HasPrefix(u.EscapedPath(), wire.PeerPath+runtimeID+"/") && path != ""
}

// rewritePeer restores the original request from the forwarded one.
func rewritePeer(p *httputil.ProxyRequest) {
	runtimeID, _ := p.In.Context().Value(runtimeKey{}).(string)
	prefix := wire.PeerPath + runtimeID
	p.Out.URL.Scheme, p.Out.URL.Host = "http", agentHost
	p.Out.URL.Path = strings.TrimPrefix(p.In.URL.Path, prefix)
	p.Out.URL.RawPath = strings.TrimPrefix(p.In.URL.RawPath, prefix)
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	p.Out.Host = p.In.Header.Get(peerHostHeader)
	p.Out.Header.Del(peerHeader)
	p.Out.Header.Del(peerHostHeader)
	// The forwarding replica has already set these; ReverseProxy removes them
	// from Out.
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values := p.In.Header.Values(name); len(values) > 0 {
			p.Out.Header[name] = values
		}
	}
}

// peerTransport sends forwarded requests over connections of this replica.
type peerTransport struct{ hub *Hub }

// RoundTrip implements http.RoundTripper.
func (p peerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	runtimeID, _ := r.Context().Value(runtimeKey{}).(string)
	response, err := (&transport{hub: p.hub, runtimeID: runtimeID}).RoundTrip(r)
	if err == nil {
		// An agent must not forge the outcome of a replica.
		response.Header.Del(peerOutcomeHeader)
	}
	return response, err
}

// failPeer reports the failure of a forwarded request to the other replica.
func (h *Hub) failPeer(w http.ResponseWriter, err error) {
	if _, ok := errors.AsType[*OfflineError](err); ok {
		writePeerOutcome(w, http.StatusServiceUnavailable, outcomeOffline)
		return
	}
	if _, ok := errors.AsType[*BusyError](err); ok {
		writePeerOutcome(w, http.StatusServiceUnavailable, outcomeBusy)
		return
	}
	h.options.Log.Debug("forwarded request failed", observe.KeyError, err)
	writePeerOutcome(w, http.StatusBadGateway, outcomeFailed)
}

// writePeerOutcome writes a response that this replica generates itself.
func writePeerOutcome(w http.ResponseWriter, status int, outcome string) {
	w.Header().Set(peerOutcomeHeader, outcome)
	w.WriteHeader(status)
}
