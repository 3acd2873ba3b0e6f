package node

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// logWriteTimeout bounds one write to a reader. A reader that accepts no
	// data for so long is disconnected.
	logWriteTimeout = 30 * time.Second
	// logShutdownTimeout bounds the graceful stop of the endpoint; open
	// connections are closed after it.
	logShutdownTimeout = 2 * time.Second
)

// serveLogs serves the API server's requests for logs until ctx is done; it
// owns the listener. The TLS handshake accepts only the right client
// certificate of cfg.ClientCA; of any other client not one byte of a request is
// read.
func serveLogs(ctx context.Context, listener net.Listener, cfg Config, pods *podSet) error {
	// No ReadTimeout and no WriteTimeout: they would end a request that follows
	// a log for longer. logReply sets a deadline for each write.
	server := &http.Server{
		Handler:           logHandler(pods),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          log.New(logLines{cfg.Log}, "", 0),
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{cfg.ServingCert},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    cfg.ClientCA,
			MinVersion:   tls.VersionTLS12,
			// Runs on every handshake, also on a resumed one, after the chain
			// has been verified.
			VerifyConnection: func(state tls.ConnectionState) error {
				name := state.PeerCertificates[0].Subject.CommonName
				if cfg.ClientName != "" && name != cfg.ClientName {
					return fmt.Errorf("the client certificate of %q may not read logs", name)
				}
				return nil
			},
		},
	}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// Followers end with ctx, so this takes long only when a reader is stuck.
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), logShutdownTimeout)
	defer cancel()
	if err := server.Shutdown(stop); err != nil {
		server.Close()
	}
	<-served
	return nil
}

// logLines writes the messages of net/http to the node's own log. They are
// mostly failed handshakes, so their level is debug.
type logLines struct{ to *slog.Logger }

// Write implements io.Writer with one message per call, as log.Logger does.
func (l logLines) Write(p []byte) (int, error) {
	l.to.Debug("logs endpoint", "message", string(p))
	return len(p), nil
}

// logHandler returns the handler for the part of the kubelet's API that the
// process node implements. Paths that exist only in a kubelet get 501 and a
// message that kubectl shows to the user.
func logHandler(pods *podSet) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { sendText(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		if err := writeLogs(w, r, pods); err != nil {
			sendText(w, err.code, err.message)
		}
	})
	for _, verb := range []string{"exec", "attach", "portForward", "run", "cri", "checkpoint", "debug"} {
		message := verb + " is not supported by the process node"
		mux.HandleFunc("/"+verb+"/", func(w http.ResponseWriter, _ *http.Request) {
			sendText(w, http.StatusNotImplemented, message)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		sendText(w, http.StatusNotFound, "the process node serves /healthz and /containerLogs only")
	})
	return mux
}

// sendText writes a plain-text response without a final newline: the API server
// puts the text into its own errors.
func sendText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	io.WriteString(w, text)
}

// httpError is the error response to a request for a log.
type httpError struct {
	code    int
	message string
}

// writeLogs copies the selected log to the response. It returns an error only
// as long as no byte has been written.
func writeLogs(w http.ResponseWriter, r *http.Request, pods *podSet) *httpError {
	query, err := parseLogQuery(r.URL.Query(), time.Now())
	if err != nil {
		return &httpError{http.StatusBadRequest, err.Error()}
	}
	file, refused := pods.findLog(r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"), query.previous)
	if refused != nil {
		return refused
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	reply := &logReply{w: w, control: http.NewResponseController(w)}
	// Records are small; the buffer keeps a write, and its deadline, from
	// costing a system call each.
	buffered := bufio.NewWriterSize(reply, 32<<10)
	flush := func() error {
		if err := buffered.Flush(); err != nil {
			return err
		}
		return reply.flush()
	}
	err = file.copyTo(r.Context(), buffered, flush, query)
	switch {
	case err == nil:
		err = flush()
	case !reply.begun:
		return &httpError{http.StatusInternalServerError, "cannot read the log: " + err.Error()}
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		// The response has begun; only a broken connection shows the reader
		// that it is incomplete.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// logReply sets a deadline of logWriteTimeout for each write to the response,
// regardless of how long the whole takes. It clears the deadline between
// writes: HTTP/2 resets a stream when the deadline passes, even while there is
// nothing to write.
type logReply struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

// Write implements io.Writer. begun is set first, because even a failed write
// may have sent the header.
func (l *logReply) Write(p []byte) (int, error) {
	l.begun = true
	l.control.SetWriteDeadline(time.Now().Add(logWriteTimeout))
	defer l.control.SetWriteDeadline(time.Time{})
	return l.w.Write(p)
}

// flush sends what net/http has buffered, so that a follower sees a line when
// it is written.
func (l *logReply) flush() error {
	l.begun = true
	l.control.SetWriteDeadline(time.Now().Add(logWriteTimeout))
	defer l.control.SetWriteDeadline(time.Time{})
	return l.control.Flush()
}
