package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// readTimeout bounds the time to read a request.
	readTimeout = 5 * time.Second
	// idleTimeout bounds the time between two requests of a connection; it is
	// longer than the usual interval of probes, so that they reuse connections.
	idleTimeout = time.Minute
	// stopTimeout bounds the drain at shutdown.
	stopTimeout = 5 * time.Second
	// maxHeaderBytes bounds the headers of a request.
	maxHeaderBytes = 16 << 10
	// healthWriteTimeout bounds a response of the health server.
	healthWriteTimeout = 15 * time.Second
	// adminWriteTimeout bounds a response of the admin server, and so the duration
	// of a profile.
	adminWriteTimeout = 2 * time.Minute
)

// ServeHealth serves /healthz, /readyz and /metrics until the context ends, and
// then shuts down gracefully. It closes the listener.
func ServeHealth(ctx context.Context, listener net.Listener, health *Health, metrics *Metrics, log *slog.Logger) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", serveAlive)
	mux.HandleFunc("GET /readyz", health.serveReady)
	mux.Handle("GET /metrics", metrics.handler(log))
	return serve(ctx, listener, &http.Server{Handler: mux, WriteTimeout: healthWriteTimeout}, log.With(KeyServer, "health"))
}

// serve runs one of the servers of this package.
func serve(ctx context.Context, listener net.Listener, server *http.Server, log *slog.Logger) error {
	server.ReadTimeout = readTimeout
	server.IdleTimeout = idleTimeout
	server.MaxHeaderBytes = maxHeaderBytes
	// Requests inherit the context, so that a running profile ends at once.
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	return Serve(ctx, listener, server, stopTimeout, log)
}

// Serve runs a server until its context ends or its listener fails. Running
// requests are drained up to a timeout. It closes the listener.
func Serve(ctx context.Context, listener net.Listener, server *http.Server, drain time.Duration, log *slog.Logger) error {
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	log.Info("server listens", KeyAddress, listener.Addr().String())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("server at %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	// The context is done already, so that the drain needs one of its own.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		log.Warn("server shut down with requests in flight", KeyError, errors.Join(err, server.Close()))
	}
	<-served
	return nil
}
