package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// serveWeb runs the application that is delivered from Git. It responds with
// its greeting, which shows which commit is live.
func serveWeb(ctx context.Context) error {
	greeting := cmp.Or(os.Getenv("GREETING"), "hello")
	return serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, greeting)
	}))
}

// serve serves HTTP in a container until ctx is done.
func serve(ctx context.Context, handler http.Handler) error {
	server := &http.Server{Addr: ":8080", ReadHeaderTimeout: 10 * time.Second, Handler: handler}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// Shutdown waits for active requests, as every well-behaved backend does on
	// SIGTERM: the test is about the edge and must not lose requests here.
	closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(closing); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
