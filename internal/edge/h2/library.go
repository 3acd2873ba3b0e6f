//lint:file-ignore SA1019 The library says to use http.Server instead. That one takes no single connection, and its HTTP/2 gets fixes later than this.

package h2

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"golang.org/x/net/http2"
)

// maxFrame is the largest frame that is read: the least that RFC 9113 allows.
const maxFrame = 16 << 10

// library is all that is used of golang.org/x/net/http2.
type library struct {
	base   *http.Server
	server *http2.Server
}

func newLibrary(c *Config) (library, error) {
	base := &http.Server{
		MaxHeaderBytes: c.HeaderBytes,
		// There is no IdleTimeout: the library starts that timer anew when it ends
		// a connection, and keeps the whole of it in memory until then. The session
		// has one of its own.
		ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          c.MaxStreams,
			MaxReadFrameSize:              maxFrame,
			MaxReceiveBufferPerConnection: c.ConnWindow,
			MaxReceiveBufferPerStream:     c.StreamWindow,
			SendPingTimeout:               c.PingAfter,
			PingTimeout:                   c.PingTimeout,
			WriteByteTimeout:              c.WriteTimeout,
		},
	}
	server := new(http2.Server)
	// This is what lets Shutdown of the one tell the connections of the other.
	err := http2.ConfigureServer(base, server)
	return library{base, server}, err
}

// serve serves a connection until it ends, and closes it. Requests may still
// run then.
func (l *library) serve(ctx context.Context, conn net.Conn, handler http.Handler) {
	l.server.ServeConn(conn, &http2.ServeConnOpts{Context: ctx, BaseConfig: l.base, Handler: handler})
}

// goAway tells all connections that no more requests are taken.
func (l *library) goAway() {
	// There is no listener and no connection that the base knows of, so there
	// is nothing to wait for.
	_ = l.base.Shutdown(context.Background())
}
