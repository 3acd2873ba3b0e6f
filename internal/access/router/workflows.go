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

// Limits of the connection to the workflow server.
const (
	workflowsDialTimeout   = 10 * time.Second
	workflowsHeaderTimeout = time.Minute
	workflowsHeaderBytes   = 64 << 10
	workflowsIdle          = 32
)

// newWorkflows returns a reverse proxy to a workflow server. The path is kept: such a
// server is configured with the base path /workflows. Upgrades and streams pass
// through.
func newWorkflows(server *url.URL, log *slog.Logger) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(server)
			request.SetXForwarded()
			// The workflow server has its own authentication; the token is for this
			// runtime only.
			request.Out.Header.Del("Authorization")
			request.Out.Header.Del("Cookie")
		},
		ModifyResponse: func(response *http.Response) error {
			response.Header.Del(wire.RouterHeader) // only the router sets it
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
				log.Warn("workflow server is unreachable", observe.KeyError, err)
			}
			writeText(w, http.StatusBadGateway, "the workflow server does not respond")
		},
	}
}

// serveWorkflows authenticates and authorizes a request and proxies it.
func (r *router) serveWorkflows(w http.ResponseWriter, request *http.Request) {
	claims, err := r.verify(request, wire.WorkflowsPath)
	if err == nil {
		err = authorisePath(wire.WorkflowsPath, request, claims)
	}
	if err != nil {
		r.refuse(w, request, partWorkflows, err)
		return
	}
	if r.workflows == nil {
		r.finish(w, partWorkflows, http.StatusNotFound, "this runtime has no workflow server: set its URL in the runtime's values")
		return
	}
	release, acquired := r.acquire()
	if !acquired {
		r.finish(w, partWorkflows, http.StatusServiceUnavailable, "the runtime has too many concurrent requests: retry later")
		return
	}
	defer release()
	r.options.Metrics.count(partWorkflows, outcomeServed)
	r.workflows.ServeHTTP(w, request)
}
