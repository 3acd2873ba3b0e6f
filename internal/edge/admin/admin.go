// Package admin answers an operator's questions about one running edge: which
// table is live, which rule takes a request and why, how the backends are, when
// certificates end.
//
// It is an http.Handler for the loopback admin server of package observe, which
// lets in nobody from outside the machine and no browser on behalf of another
// site. It promises to change nothing: there is only GET. It promises to show no
// secret: keys and passwords are a type that hides itself, and the values of
// headers that usually carry credentials are replaced. It refuses parameters
// that it does not know, so that a question with a mistake in it gets no answer
// to another question.
package admin

import (
	"net/http"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/route"
)

// Prefix is what all paths of the Handler start with.
const Prefix = "/api/v1/"

// Source is the edge, as the Handler asks it. What it gives is not changed.
type Source interface {
	// Table is the one in place, nil before the first.
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
	// Address is the one that is listened on, with the port that it got.
	Address string `json:"address"`
	TLS     bool   `json:"tls"`
	HTTP3   bool   `json:"http3"`
	// Limits are those that requests are read with. Explain judges by them.
	Limits h1.Limits `json:"-"`
}

// Build says which program runs.
type Build struct {
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

// Handler answers requests below Prefix. The admin server starts before the
// edge does: until Attach, all but the version is answered with 503.
type Handler struct {
	mux    *http.ServeMux
	build  Build
	source atomic.Pointer[Source]
	// refusals are those of the provider of routes.
	refusals atomic.Pointer[[]trafficreport.Refusal]
	began    time.Time
}

// New makes a Handler without a Source.
func New(build Build) *Handler {
	h := &Handler{mux: http.NewServeMux(), build: build, began: time.Now()}
	h.mux.HandleFunc("GET "+Prefix+"version", func(w http.ResponseWriter, r *http.Request) {
		h.answer(w, r, nil, func(*query) (any, error) { return h.build, nil })
	})
	for _, page := range []struct {
		path   string
		params []string
		give   func(Source, *query) (any, error)
	}{
		{"table", []string{"format"}, giveTable},
		{"rules", []string{"host", "q", "limit", "offset"}, giveRules},
		{"backends", []string{"q", "limit", "offset"}, giveBackends},
		{"certificates", []string{"q", "limit", "offset"}, giveCertificates},
		{"entrypoints", nil, giveEntryPoints},
		{"explain", []string{"url", "method", "entryPoint", "header", "text"}, giveExplanation},
		{"traffic", []string{trafficreport.HaveParam}, h.giveTraffic},
	} {
		h.mux.HandleFunc("GET "+Prefix+page.path, func(w http.ResponseWriter, r *http.Request) {
			source := h.source.Load()
			if source == nil {
				writeFailure(w, http.StatusServiceUnavailable, "the edge is starting: ask again when it is ready")
				return
			}
			h.answer(w, r, page.params, func(q *query) (any, error) { return page.give(*source, q) })
		})
	}
	return h
}

// Attach makes the edge known.
func (h *Handler) Attach(source Source) { h.source.Store(&source) }

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.mux.ServeHTTP(w, r)
}

func giveEntryPoints(source Source, _ *query) (any, error) {
	points := source.EntryPoints()
	return page[EntryPoint]{Total: len(points), Limit: len(points), Items: append([]EntryPoint{}, points...)}, nil
}
