package observe

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// sharedWriteTimeout bounds a response of a shared server.
const sharedWriteTimeout = 30 * time.Second

// ServeShared serves a handler over TLS until the context ends, and then shuts down
// gracefully. The TLS configuration must authenticate clients: nothing else does.
// It closes the listener. The log should have KeyServer.
func ServeShared(ctx context.Context, listener net.Listener, config *tls.Config, handler http.Handler, log *slog.Logger) error {
	return serve(ctx, tls.NewListener(listener, config), &http.Server{Handler: handler, WriteTimeout: sharedWriteTimeout}, log)
}
