package edge

import (
	"context"
	"fmt"
	"net"

	"slipway.dev/slipway/internal/edge/bridge"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/h3"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/edge/tlsstore"
)

// openHTTP3 listens for HTTP/3 on the port that the entry point has by TCP, and
// announces it in the Alt-Svc header of other responses.
func (p *point) openHTTP3() error {
	// The address of the TCP listener is used, because its port may have been
	// chosen by the kernel.
	config := h3.DefaultConfig()
	config.Address = p.listener.Addr().String()
	config.Port = int(p.AdvertisedPort)
	config.TLS = p.tls
	config.Handler = p.server.streams
	config.Context = func(ctx context.Context, _ net.Addr) context.Context {
		return tlsstore.WithHandshake(context.WithValue(ctx, pointKey{}, p))
	}
	config.MaxConns, config.MaxStreams = p.MaxConns, p.MaxStreams
	config.HeaderBytes = p.Limits.HeadBytes
	config.HandshakeTimeout, config.IdleTimeout = p.Timeouts.Head, p.Timeouts.Idle
	config.Hooks = p.server.options.Metrics.http3Hooks(p.Name)
	config.Log = p.server.options.Log
	opened, err := h3.Listen(config)
	if err != nil {
		return fmt.Errorf("entry point %s: HTTP/3: %w: choose another address with --entryPoints.%s.address, or turn HTTP/3 off", p.Name, err, p.Name)
	}
	p.h3 = opened
	edit, err := h1.SetField("Alt-Svc", opened.AltSvc())
	if err != nil {
		return err
	}
	p.edits = append(p.edits, edit)
	return nil
}

// serveHTTP3 serves until the entry point is drained.
func (p *point) serveHTTP3() {
	if err := p.h3.Serve(); err != nil {
		p.server.options.Log.Error("serving HTTP/3 failed", "entryPoint", p.Name, "error", err)
	}
}

// pointKey is the context key of the entry point of an HTTP/3 connection.
type pointKey struct{}

// acceptedHTTP3 describes the connection of an HTTP/3 stream to the proxy. The
// connection may have migrated to another address since the handshake, so it is
// read for each stream.
func acceptedHTTP3(stream bridge.Stream, conn net.Conn) (proxy.Accepted, bool) {
	p, ok := stream.Context().Value(pointKey{}).(*point)
	if !ok || stream.TLS == nil {
		return proxy.Accepted{}, false
	}
	from := p.accepted(conn.RemoteAddr(), conn.LocalAddr())
	from.Handshake = tlsstore.HandshakeFrom(stream.Context())
	noteTLS(&from, *stream.TLS)
	return from, true
}
