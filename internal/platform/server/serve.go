package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/console"
	"slipway.dev/slipway/internal/platform/fleet"
	"slipway.dev/slipway/internal/platform/history"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
)

const (
	// headerTimeout bounds reading the header of a request.
	headerTimeout = 10 * time.Second
	// idleTimeout bounds idle keep-alive connections.
	idleTimeout = 2 * time.Minute
	// maxHeaderBytes bounds the header of a request.
	maxHeaderBytes = 64 << 10
	// agentGrace is how long agents have to move to another replica during a
	// shutdown, requestDrain how long requests in flight have.
	agentGrace   = 2 * time.Second
	requestDrain = 15 * time.Second
)

// serve serves all endpoints until the context is done, then shuts down
// gracefully: watches end first, so that clients reconnect to another
// replica, then agents move, then requests in flight complete.
func (p *platform) serve(ctx context.Context) error {
	// Connect streams need HTTP/2; without TLS that is h2c with prior
	// knowledge.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(p.Certificate != nil)
	protocols.SetUnencryptedHTTP2(p.Certificate == nil)
	handler, err := p.handler()
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: handler, Protocols: protocols,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
	// Watches end when Shutdown begins, which would otherwise wait for them
	// until the timeout.
	server.RegisterOnShutdown(func() { close(p.stopping) })
	listener := p.Listener
	scheme := "http"
	switch {
	case p.Certificate != nil:
		scheme = "https"
		server.TLSConfig = &tls.Config{
			MinVersion: tls.VersionTLS12, GetCertificate: p.Certificate.get, NextProtos: []string{"h2", "http/1.1"},
			GetConfigForClient: p.configForClient,
		}
		listener = tls.NewListener(listener, server.TLSConfig)
	case p.PeerURL != "":
		listener = newPeerListener(listener, p.peerTLS)
	}
	return observe.Serve(ctx, listener, server, agentGrace+requestDrain, p.Log.With(observe.KeyServer, "platform", "scheme", scheme, "url", p.PublicURL.String()))
}

// configForClient returns the TLS configuration for other replicas, or nil for
// everyone else.
func (p *platform) configForClient(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if p.PeerURL != "" && hello.ServerName == hub.PeerServerName {
		return p.peerTLS, nil
	}
	return nil, nil
}

// handler routes requests. It fails if the table of permissions lacks a row.
func (p *platform) handler() (http.Handler, error) {
	routes, unknown := p.routes(), p.secured(http.HandlerFunc(notFound))
	if err := permission.Check(slices.Sorted(maps.Keys(routes))...); err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The server reads the rest of a body before the next request of the
		// connection. A client that never sends it would keep the connection,
		// however early its request was denied.
		defer boundRead(w, discardTimeout)
		handler := match(routes, r.URL.Path)
		switch {
		case p.gateway.OwnsHost(r.Host):
			handler = p.gateway
		case handler == nil:
			handler = unknown
		}
		handler.ServeHTTP(w, r)
	}), nil
}

// routes returns everything that the platform serves, by path. A path that ends
// with a slash is a prefix; the root is not.
func (p *platform) routes() map[string]http.Handler {
	routes := map[string]http.Handler{
		wire.RuntimesPath: p.gateway, wire.TunnelPath: p.hub.Tunnel(), wire.PeerPath: p.hub.PeerHandler(),
	}
	for _, path := range console.Paths() {
		routes[path] = p.secured(p.console)
	}
	for path, handler := range p.identity.Handlers() {
		routes[path] = p.secured(service(handler))
	}
	for path, handler := range p.fleet.Handlers(p.identity.HandlerOptions(fleet.MaxMessage)) {
		routes[path] = p.secured(service(uncached(handler)))
	}
	for path, handler := range p.history.Handlers(p.identity.HandlerOptions(history.MaxMessage)) {
		routes[path] = p.secured(service(uncached(handler)))
	}
	return routes
}

// match returns the handler of a path, or nil. Paths are matched literally: a mux that
// cleans paths would give two spellings the same meaning.
func match(routes map[string]http.Handler, path string) http.Handler {
	if handler, ok := routes[path]; ok {
		return handler
	}
	for prefix, handler := range routes {
		if prefix != "/" && strings.HasSuffix(prefix, "/") && strings.HasPrefix(path, prefix) {
			return handler
		}
	}
	return nil
}

// notFound is the response for paths that the platform does not serve.
func notFound(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_ = json.NewEncoder(w).Encode(map[string]string{"code": "not_found", "message": "the platform does not serve this path"})
}

// service bounds reading the request of one of the platform's own services. It
// serves nothing without a row in the table of permissions.
func service(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawPath != "" || !permission.Known(r.URL.Path) {
			notFound(w, r)
			return
		}
		next.ServeHTTP(w, boundBody(w, r))
	})
}

// secured adds the security headers to the responses of a handler.
func (p *platform) secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.secure(w.Header())
		next.ServeHTTP(w, r)
	})
}

// secure sets the security headers of a response.
func (p *platform) secure(header http.Header) {
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if p.PublicURL.Scheme == "https" {
		header.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// uncached forbids caching of responses.
func uncached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
