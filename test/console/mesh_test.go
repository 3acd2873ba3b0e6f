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
	url string
	// router finds an endpoint of the runtime's router.
	router atomic.Pointer[func() (string, error)]
}

func newMeshGateway(t *testing.T) *meshGateway {
	t.Helper()
	g := &meshGateway{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		find := g.router.Load()
		if find == nil {
			http.Error(w, "the mesh has no such host", http.StatusNotFound)
			return
		}
		address, err := (*find)()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", address, r.In.Host
		}}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.CloseClientConnections)
	g.url = server.URL
	return g
}

// lead leads requests to the router of a runtime.
func (g *meshGateway) lead(find func() (string, error)) { g.router.Store(&find) }
