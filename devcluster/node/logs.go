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
	logWriteTimeout    = 30 * time.Second
	logShutdownTimeout = 2 * time.Second
)

// serveLogs answers the API server's requests for logs until ctx is done. The TLS handshake lets in only who has the
// right certificate of cfg.ClientCA; of anyone else not one byte of a request is read.
func serveLogs(ctx context.Context, listener net.Listener, cfg Config, pods *podSet) error {
	// No ReadTimeout: it would also end a reader that follows a log for longer.
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

// logLines gives the lines that net/http prints to the node's own log.
type logLines struct{ to *slog.Logger }

func (l logLines) Write(p []byte) (int, error) {
	l.to.Debug("logs endpoint", "message", string(p))
	return len(p), nil
}

// logHandler is the part of the kubelet's interface that the process node has.
func logHandler(pods *podSet) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { sendText(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		if err := answerLogs(w, r, pods); err != nil {
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

// sendText answers in plain text, without a line end: the API server puts the text into its own errors.
func sendText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	io.WriteString(w, text)
}

// httpError is an answer instead of a log.
type httpError struct {
	code    int
	message string
}

func answerLogs(w http.ResponseWriter, r *http.Request, pods *podSet) *httpError {
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
		// The answer has begun; breaking the connection is the only way left to say that it is not whole.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// logReply gives a reader that does not read logWriteTimeout for each piece, however long the whole takes. The deadline
// is taken away between pieces: HTTP/2 ends a stream when it passes, even while there is nothing to write.
type logReply struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (l *logReply) Write(p []byte) (int, error) {
	l.begun = true
	l.control.SetWriteDeadline(time.Now().Add(logWriteTimeout))
	defer l.control.SetWriteDeadline(time.Time{})
	return l.w.Write(p)
}

func (l *logReply) flush() error {
	l.begun = true
	l.control.SetWriteDeadline(time.Now().Add(logWriteTimeout))
	defer l.control.SetWriteDeadline(time.Time{})
	return l.control.Flush()
}
