package accesslog_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/accesslog"
	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// loggedProxy serves connections to a backend with a log until the end of the
// test, and gives its address.
func loggedProxy(t *testing.T, backend net.Addr, log *accesslog.Log) string {
	t.Helper()
	id := route.BackendID{Namespace: "shop", Name: "cart", Port: 80}
	table := &route.Table{
		Backends: []*route.Backend{{ID: id, Endpoints: []route.Endpoint{{Address: netip.MustParseAddrPort(backend.String())}}}},
		Rules: []*route.Rule{{
			ID: route.ID{Kind: "Ingress", Namespace: "shop", Name: "cart"}, Backends: []route.BackendRef{{Backend: id}},
			Match: route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: "/cart"}},
		}},
	}
	return edgetest.StartProxy(t, table, proxy.Accepted{}, func(config *proxy.Config) { config.Observe = log.Record }).Address
}

// TestThroughProxy: what requests over a real connection leave in a file: one
// that a backend serves, one that no rule takes, and one that is none.
func TestThroughProxy(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Answer", "yes")
		_, _ = io.WriteString(w, "hello")
	}))
	defer backend.Close()
	path := filepath.Join(t.TempDir(), "access.log")
	log, _ := newLog(t, accesslog.Options{FilePath: path, Format: accesslog.FormatJSON, HeaderMode: accesslog.Keep})
	conn := edgetest.Dial(t, loggedProxy(t, backend.Listener.Addr(), log))
	// The last of them closes the connection, so all of them are over then.
	const requests = "POST /x/../cart?a=b HTTP/1.1\r\nHost: Shop.example.com\r\nContent-Length: 2\r\nCookie: hidden\r\n\r\nhi" +
		"GET /none HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: \x9b31m\r\n\r\n" +
		"BAD \x1b[2J\r\n\r\n"
	conn.Send(requests)
	must.Get(io.Copy(io.Discard, conn))(t)
	conn.Close()
	closeLog(t, log)

	var lines []map[string]any
	for line := range strings.Lines(readFile(t, path)) {
		lines = append(lines, parseLine(t, line))
	}
	if len(lines) != 3 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, want := range []map[string]any{
		{"RequestMethod": "POST", "RequestPath": "/cart", "RequestQuery": "a=b", "RequestHost": "shop.example.com", "DownstreamStatus": 200., "OriginStatus": 200.,
			"RequestContentSize": 2., "DownstreamContentSize": 5., "RouterName": "Ingress shop/cart[0][0]", "ServiceName": "shop/cart:80",
			"ServiceAddr": backend.Listener.Addr().String(), "request_Cookie": "REDACTED", "origin_X-Answer": "yes", "RequestProtocol": "HTTP/1.1", "ClientHost": "127.0.0.1"},
		{"RequestPath": "/none", "DownstreamStatus": 404., "RouterName": nil, "ServiceAddr": nil, "request_User-Agent": "\ufffd31m"},
		{"DownstreamStatus": 400., "RequestPath": nil, "RequestMethod": nil},
	} {
		for name, value := range want {
			if lines[i][name] != value {
				t.Errorf("line %d: %s is %v, want %v", i, name, lines[i][name], value)
			}
		}
	}
	if d, asked := lines[0]["Duration"].(float64), lines[0]["OriginDuration"].(float64); d <= 0 || asked <= 0 || asked > d {
		t.Errorf("took %v, %v of it at the backend", d, asked)
	}
}
