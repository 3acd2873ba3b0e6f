package hub

import (
	"context"
	"crypto/tls"
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

// Headers between replicas. They never reach an agent.
const (
	// peerHeader has the token of the replica that asks.
	peerHeader = "Slipway-Peer"
	// peerHostHeader is the host that the request was for.
	peerHostHeader = "Slipway-Peer-Host"
	// peerOutcomeHeader says that an answer is the replica's, and not the agent's.
	peerOutcomeHeader = "Slipway-Peer-Outcome"
)

// What a replica says for itself.
const (
	outcomeOffline = "offline"
	outcomeBusy    = "busy"
	outcomeDenied  = "denied"
	outcomeFailed  = "failed"
)

// errNoPeer says that no other replica has a connection.
var errNoPeer = errors.New("no other replica has a connection of the runtime")

// peerDial bounds reaching another replica, which is near.
const peerDial = 3 * time.Second

// newPeerTransport is for requests to other replicas. They are reached directly,
// and over HTTP/1.1, which can switch protocols.
func newPeerTransport(o Options) *http.Transport {
	config := &tls.Config{}
	if o.PeerTLS != nil {
		config = o.PeerTLS.Clone()
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	config.NextProtos = []string{"http/1.1"}
	return &http.Transport{
		DialContext:     (&net.Dialer{Timeout: peerDial, KeepAlive: o.Timing.Ping}).DialContext,
		TLSClientConfig: config, TLSHandshakeTimeout: peerDial,
		DisableCompression:  true,
		MaxIdleConnsPerHost: idleStreams, IdleConnTimeout: idleTimeout,
		MaxResponseHeaderBytes: o.Limits.HeaderBytes + maxToken,
		ExpectContinueTimeout:  time.Second,
	}
}

// askPeers hands a request to a replica that has a connection, and to one more when
// the first had nothing of it.
func (h *Hub) askPeers(r *http.Request, body *requestBody, runtimeID string) (*http.Response, error) {
	holding, err := h.holders(r.Context(), runtimeID)
	if err != nil {
		return nil, err
	}
	failure := errNoPeer
	for _, replica := range holding[:min(len(holding), 2)] {
		response, sent, err := h.ask(r, body, replica.PeerURL, runtimeID)
		if err == nil {
			return response, nil
		}
		if sent || r.Context().Err() != nil {
			return nil, err
		}
		if !errors.Is(err, errNoPeer) {
			h.options.Log.Warn("another replica could not take a request", "replica", replica.ID, observe.KeyError, err)
			failure = err
		}
	}
	return nil, failure
}

// ask hands a request to one replica.
func (h *Hub) ask(r *http.Request, body *requestBody, peerURL, runtimeID string) (response *http.Response, sent bool, err error) {
	base, err := url.Parse(peerURL)
	if err != nil {
		return nil, false, errors.New("the address of a replica cannot be read; correct its peer URL")
	}
	token, err := h.options.Peer.Peer(h.options.ReplicaID)
	if err != nil {
		return nil, false, fmt.Errorf("make a token for another replica: %w", err)
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
		// What a replica refuses it has not passed on.
		wrote.Store(outcome == outcomeFailed)
	}
	untouched := body.settle(err == nil)
	if err != nil {
		return nil, wrote.Load() || !untouched, fmt.Errorf("send the request through another replica: %w", err)
	}
	response.Request = r
	return response, true, nil
}

// peerError is what a replica said for itself.
func peerError(outcome, runtimeID string, limit int) error {
	switch outcome {
	case outcomeOffline:
		return errNoPeer
	case outcomeBusy:
		return &BusyError{RuntimeID: runtimeID, Limit: limit}
	default:
		return fmt.Errorf("it answers %q", outcome)
	}
}

// PeerHandler serves wire.PeerPath: requests that other replicas hand over. It
// passes them to connections of this replica only, so that none goes in circles.
func (h *Hub) PeerHandler() http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:       rewritePeer,
		Transport:     peerTransport{h},
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { h.failPeer(w, err) },
		ErrorLog:      slog.NewLogLogger(h.options.Log.Handler(), slog.LevelDebug),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens := r.Header.Values(peerHeader)
		if len(tokens) != 1 || len(tokens[0]) > maxToken {
			answerPeer(w, http.StatusUnauthorized, outcomeDenied)
			return
		}
		replica, err := h.options.Peer.VerifyPeer(tokens[0])
		if err != nil || replica == "" {
			answerPeer(w, http.StatusUnauthorized, outcomeDenied)
			return
		}
		if replica == h.options.ReplicaID {
			// A request to oneself would go on for ever.
			answerPeer(w, http.StatusLoopDetected, outcomeDenied)
			return
		}
		runtimeID, ok := peerRuntime(r.URL)
		if !ok {
			answerPeer(w, http.StatusNotFound, outcomeDenied)
			return
		}
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), runtimeKey{}, runtimeID)))
	})
}

// runtimeKey is where a request of another replica has the runtime.
type runtimeKey struct{}

// peerRuntime is the runtime that a path names.
func peerRuntime(u *url.URL) (string, bool) {
	rest, ok := strings.CutPrefix(u.Path, wire.PeerPath)
	if !ok {
		return "", false
	}
	runtimeID, path, ok := strings.Cut(rest, "/")
	// An ID that is spelt with escapes would be cut elsewhere.
	return runtimeID, ok && runtimeID != "" && strings.HasPrefix(u.EscapedPath(), wire.PeerPath+runtimeID+"/") && path != ""
}

// rewritePeer makes the request that the other replica was asked.
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
	// Whose request it is, the first replica has said.
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values := p.In.Header.Values(name); len(values) > 0 {
			p.Out.Header[name] = values
		}
	}
}

// peerTransport sends what another replica has handed over.
type peerTransport struct{ hub *Hub }

// RoundTrip sends over a connection of this replica.
func (p peerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	runtimeID, _ := r.Context().Value(runtimeKey{}).(string)
	response, err := (&transport{hub: p.hub, runtimeID: runtimeID}).RoundTrip(r)
	if err == nil {
		// An agent does not speak for a replica.
		response.Header.Del(peerOutcomeHeader)
	}
	return response, err
}

// failPeer tells the other replica what became of its request.
func (h *Hub) failPeer(w http.ResponseWriter, err error) {
	if _, ok := errors.AsType[*OfflineError](err); ok {
		answerPeer(w, http.StatusServiceUnavailable, outcomeOffline)
		return
	}
	if _, ok := errors.AsType[*BusyError](err); ok {
		answerPeer(w, http.StatusServiceUnavailable, outcomeBusy)
		return
	}
	h.options.Log.Debug("a request of another replica failed", observe.KeyError, err)
	answerPeer(w, http.StatusBadGateway, outcomeFailed)
}

func answerPeer(w http.ResponseWriter, status int, outcome string) {
	w.Header().Set(peerOutcomeHeader, outcome)
	w.WriteHeader(status)
}
