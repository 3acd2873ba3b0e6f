package argoapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/wire/argocd"
)

// readTimeout bounds how long a client may send a body.
const readTimeout = 30 * time.Second

// serveREST serves a request of REST: a document, or a stream of them.
func (s *Service) serveREST(w http.ResponseWriter, r *http.Request, of *argocd.Procedure, values map[string]string) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(readTimeout)) // writers of tests do not support it
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if err != nil {
		WriteError(w, r, connect.NewError(connect.CodeInvalidArgument, errors.New("the body is incomplete or too large")))
		return
	}
	_ = control.SetReadDeadline(time.Time{}) // one that expires later would look like a client that is gone
	message, err := of.FromREST(values, r.URL.Query(), body)
	if err != nil {
		WriteError(w, r, connect.NewError(connect.CodeInvalidArgument, err))
		return
	}
	if of.Stream {
		out := &documentStream{w: w, control: control, events: strings.Contains(r.Header.Get("Accept"), "text/event-stream")}
		out.end(r, s.serve(r.Context(), of, message, out.send))
		return
	}
	err = s.serve(r.Context(), of, message, func(document []byte) error {
		w.Header().Set("Content-Type", "application/json")
		_, err := w.Write(document)
		return err
	})
	if err != nil {
		WriteError(w, r, err)
	}
}

// documentStream writes documents as grpc-gateway does for Argo CD: a line for
// each, or an event for clients that accept those.
type documentStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	events  bool
	begun   bool
}

// send writes one document.
func (d *documentStream) send(document []byte) error {
	return d.write(map[string]json.RawMessage{"result": document})
}

// write writes one line, with the headers before the first.
func (d *documentStream) write(line any) error {
	content, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if !d.begun {
		d.begun = true
		d.w.Header().Set("Content-Type", "application/json")
		if d.events {
			d.w.Header().Set("Content-Type", "text/event-stream")
		}
	}
	text := string(content) + "\n"
	if d.events {
		text = "data: " + text + "\n"
	}
	_, err = io.WriteString(d.w, text)
	if err == nil {
		err = d.control.Flush()
	}
	if err != nil {
		return connect.NewError(connect.CodeCanceled, errors.New("the client is gone"))
	}
	return nil
}

// end writes the error of a stream: as the response if nothing was sent.
func (d *documentStream) end(r *http.Request, err error) {
	switch {
	case err == nil:
	case !d.begun:
		WriteError(d.w, r, err)
	default:
		_ = d.write(map[string]any{"error": restError(err)}) // the client may be gone
	}
}

// WriteError writes an error in the protocol of the request.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	failure, ok := errors.AsType[*connect.Error](err)
	if !ok {
		failure = connect.NewError(connect.CodeInternal, errors.New("the document cannot be encoded: see the log of the runtime"))
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		_ = connect.NewErrorWriter().Write(w, r, failure) // the client may be gone
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(statusOf(failure.Code()))
	_ = json.NewEncoder(w).Encode(restError(failure)) // the client may be gone
}

// restError is the body of an error, with the fields that Argo CD's have.
func restError(err error) map[string]any {
	text := err.Error()
	if failure, ok := errors.AsType[*connect.Error](err); ok {
		text = failure.Message()
	}
	return map[string]any{"error": text, "code": int(connect.CodeOf(err)), "message": text}
}

// statusOf returns the HTTP status of a code, as grpc-gateway maps them.
func statusOf(code connect.Code) int {
	switch code {
	case connect.CodeInvalidArgument, connect.CodeFailedPrecondition, connect.CodeOutOfRange:
		return http.StatusBadRequest
	case connect.CodeUnauthenticated:
		return http.StatusUnauthorized
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodeAborted, connect.CodeAlreadyExists:
		return http.StatusConflict
	case connect.CodeResourceExhausted:
		return http.StatusTooManyRequests
	case connect.CodeUnimplemented:
		return http.StatusNotImplemented
	case connect.CodeUnavailable:
		return http.StatusServiceUnavailable
	case connect.CodeDeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}
