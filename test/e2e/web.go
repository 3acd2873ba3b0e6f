package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// revisionHeader is the header of responses with the revision of the
// application, for releases that do not change the greeting.
const revisionHeader = "X-Revision"

// serveWeb runs the application that is delivered from Git. It responds with
// its greeting, which shows which commit is live. ERRORS is the percentage of
// requests that fail.
func serveWeb(ctx context.Context) error {
	percent, err := strconv.Atoi(cmp.Or(os.Getenv("ERRORS"), "0"))
	if err != nil {
		return err
	}
	return serve(ctx, web(cmp.Or(os.Getenv("GREETING"), "hello"), os.Getenv("REVISION"), percent))
}

// web returns the handler of the application. Failures are spread evenly, so
// that a run has as many as the next one. Probes succeed: a Pod that is not
// ready would get no requests, and there would be nothing to judge.
func web(greeting, revision string, percent int) http.Handler {
	var served atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if revision != "" {
			w.Header().Set(revisionHeader, revision)
		}
		if !strings.HasPrefix(r.UserAgent(), "kube-probe/") {
			if n := served.Add(1); n*int64(percent)/100 != (n-1)*int64(percent)/100 {
				http.Error(w, "this revision is bad", http.StatusInternalServerError)
				return
			}
		}
		_, _ = fmt.Fprintln(w, greeting)
	})
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
