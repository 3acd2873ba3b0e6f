package router

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire"
)

// What a server for workflows is allowed.
const (
	workflowsDialTimeout   = 10 * time.Second
	workflowsHeaderTimeout = time.Minute
	workflowsHeaderBytes   = 64 << 10
	workflowsIdle          = 32
)

// newWorkflows passes requests on to a server for workflows, with their path:
// such a server is told that it is served below /workflows. Upgrades and streams
// go through as they come.
func newWorkflows(server *url.URL, log *slog.Logger) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(server)
			request.SetXForwarded()
			// It has its own idea of who asks; the token is for this runtime alone.
			request.Out.Header.Del("Authorization")
			request.Out.Header.Del("Cookie")
		},
		ModifyResponse: func(response *http.Response) error {
			response.Header.Del(wire.RouterHeader) // it is ours to say
			return nil
		},
		Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: workflowsDialTimeout}).DialContext,
			TLSHandshakeTimeout:   workflowsDialTimeout,
			ResponseHeaderTimeout: workflowsHeaderTimeout, MaxResponseHeaderBytes: workflowsHeaderBytes,
			MaxIdleConnsPerHost: workflowsIdle, IdleConnTimeout: workflowsHeaderTimeout, DisableCompression: true,
		},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, request *http.Request, err error) {
			if request.Context().Err() == nil {
				log.Warn("the server for workflows does not answer", observe.KeyError, err)
			}
			writeText(w, http.StatusBadGateway, "the server for workflows does not answer")
		},
	}
}

// serveWorkflows passes a request with a token on.
func (r *router) serveWorkflows(w http.ResponseWriter, request *http.Request) {
	if _, err := r.verify(request, wire.WorkflowsPath); err != nil {
		r.refuse(w, request, partWorkflows, err)
		return
	}
	if r.workflows == nil {
		r.finish(w, partWorkflows, http.StatusNotFound, "this runtime has no server for workflows: name its URL in the runtime's values")
		return
	}
	leave, entered := r.enter()
	if !entered {
		r.finish(w, partWorkflows, http.StatusServiceUnavailable, "the runtime answers too many requests: try again later")
		return
	}
	defer leave()
	r.options.Metrics.count(partWorkflows, outcomeServed)
	r.workflows.ServeHTTP(w, request)
}
