// Package admin is the API for operators of one running edge: the live table, the
// rule that serves a request and why, the state of backends, the expiry of
// certificates.
//
// It is an http.Handler for the loopback admin server of package observe, which
// accepts neither connections from other machines nor requests of a browser on
// behalf of another site. It is read-only: there is only GET. It shows no secret:
// keys and passwords are a type that redacts itself, and the values of headers that
// usually carry credentials are redacted. Unknown parameters are refused, so that a
// misspelt filter does not return an unfiltered list.
package admin

import (
	"net/http"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/route"
)

// Prefix is the prefix of all paths of the Handler.
const Prefix = "/api/v1/"

// Source is the edge, as the Handler reads it. Its results are shared and must not
// be changed.
type Source interface {
	// Table is the live one, nil before the first.
	Table() *route.Table
	// Program is the compiled form of the table, nil before the first.
	Program() *program.Program
	// Upstreams are the backends with the state of their endpoints.
	Upstreams() []upstream.BackendState
	// Certificates are those that clients can get.
	Certificates() []tlsstore.CertificateInfo
	// EntryPoints are the addresses that take traffic.
	EntryPoints() []EntryPoint
}

// EntryPoint is an address that takes traffic.
type EntryPoint struct {
	Name string `json:"name"`
	// Address is the one of the listener, with its actual port.
	Address string `json:"address"`
	TLS     bool   `json:"tls"`
	HTTP3   bool   `json:"http3"`
	// UDP is set for one that takes datagrams, and no requests.
	UDP bool `json:"udp,omitempty"`
	// Limits are those of the entry point's parser, so that explain reads a request
	// as the entry point does.
	Limits h1.Limits `json:"-"`
}

// Build is the version of the running program.
type Build struct {
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

// Handler serves requests below Prefix. The admin server starts before the edge
// does: until Attach, all but the version responds with 503.
type Handler struct {
	mux *http.ServeMux
	// build is what the version page returns; it needs no Source.
	build  Build
	source atomic.Pointer[Source]
	// refusals are those of the provider of routes.
	refusals atomic.Pointer[[]refusal.Refusal]
	began    time.Time
}

// New returns a Handler without a Source.
func New(build Build) *Handler {
	h := &Handler{mux: http.NewServeMux(), build: build, began: time.Now()}
	h.mux.HandleFunc("GET "+Prefix+"version", func(w http.ResponseWriter, r *http.Request) {
		h.respond(w, r, nil, func(*query) (any, error) { return h.build, nil })
	})
	for _, page := range []struct {
		path   string
		params []string
		get    func(Source, *query) (any, error)
	}{
		// The pages with their parameters. Each reads the Source at the time of the request,
		// so a response is consistent in itself but not with the one before.
		{"table", []string{"format"}, getTable},
		{"rules", []string{"host", "q", "limit", "offset"}, listRules},
		{"backends", []string{"q", "limit", "offset"}, listBackends},
		{"certificates", []string{"q", "limit", "offset"}, listCertificates},
		{"entrypoints", nil, listEntryPoints},
		{"explain", []string{"url", "method", "entryPoint", "header", "client", "text"}, getExplanation},
		{"traffic", []string{trafficreport.HaveParam}, h.getTraffic},
		{"releases", nil, h.getReleases},
	} {
		h.mux.HandleFunc("GET "+Prefix+page.path, func(w http.ResponseWriter, r *http.Request) {
			// One atomic load: Attach may happen at any time.
			source := h.source.Load()
			if source == nil {
				writeError(w, http.StatusServiceUnavailable, "the edge is starting: try again when it is ready")
				return
			}
			h.respond(w, r, page.params, func(q *query) (any, error) { return page.get(*source, q) })
		})
	}
	return h
}

// Attach sets the edge.
func (h *Handler) Attach(source Source) { h.source.Store(&source) }

// ServeHTTP implements [http.Handler]. Responses are never cached or rendered by a
// browser.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.mux.ServeHTTP(w, r)
}

// listEntryPoints returns all entry points in one page: there are few.
func listEntryPoints(source Source, _ *query) (any, error) {
	points := source.EntryPoints()
	return page[EntryPoint]{Total: len(points), Limit: len(points), Items: append([]EntryPoint{}, points...)}, nil
}
