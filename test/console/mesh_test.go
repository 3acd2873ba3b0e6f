package console

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"sync/atomic"
	"testing"
)

// meshGateway is what a service mesh has at its border: it leads every request to the
// one runtime that is reached through it.
type meshGateway struct {
	url    string
	router atomic.Pointer[string]
}

func newMeshGateway(t *testing.T) *meshGateway {
	t.Helper()
	g := &meshGateway{}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", *g.router.Load()
			r.Out.Host = r.In.Host
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.router.Load() == nil {
			http.Error(w, "the mesh has no such host", http.StatusNotFound)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.CloseClientConnections)
	g.url = server.URL
	return g
}

// lead leads requests to the router of a runtime.
func (g *meshGateway) lead(router string) { g.router.Store(&router) }
