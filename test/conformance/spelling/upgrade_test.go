package spelling

import (
	"bufio"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// TestUpgrade: only protocols that are allowed become a tunnel, even if the backend
// would switch to any.
func TestUpgrade(t *testing.T) {
	backend := edgeprocess.Backend("switches", switching(t))
	table := &route.Table{
		Backends: []*route.Backend{backend},
		Rules:    []*route.Rule{{ID: route.ID{Name: "all"}, Backends: edgeprocess.To(backend)}},
	}
	strict := edgeprocess.Start(t, edgeprocess.Options{Table: table})
	lenient := edgeprocess.Start(t, edgeprocess.Options{Table: table, Arguments: []string{"--entryPoints.web.http.upgradeProtocols=websocket,SPDY/3.1"}})
	for _, test := range []struct {
		edge     *edgeprocess.Edge
		protocol string
		want     int
	}{
		{strict, "websocket", http.StatusSwitchingProtocols},
		{strict, "WebSocket", http.StatusSwitchingProtocols},
		{strict, "SPDY/3.1", http.StatusOK},
		{strict, "h2c", http.StatusOK},
		{strict, "foo", http.StatusOK},
		{strict, "websocket/13", http.StatusOK},
		{lenient, "websocket", http.StatusSwitchingProtocols},
		{lenient, "spdy/3.1", http.StatusSwitchingProtocols},
		{lenient, "SPDY", http.StatusOK},
		{lenient, "foo", http.StatusOK},
	} {
		wire := edgetest.Dial(t, test.edge.Address("web"))
		wire.Send("GET / HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: " + test.protocol + "\r\n\r\n")
		response, err := http.ReadResponse(wire.Reader, nil)
		must.Do(t, err)
		if response.StatusCode != test.want {
			t.Errorf("%s: status %d, want %d", test.protocol, response.StatusCode, test.want)
		}
	}
}

// switching is a server that switches to whatever protocol it is asked for, and
// responds with 200 to requests that ask for none.
func switching(t *testing.T) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				request, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				response := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
				if protocol := request.Header.Get("Upgrade"); protocol != "" {
					response = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n\r\n"
				}
				_, _ = conn.Write([]byte(response))
			}()
		}
	}()
	return netip.MustParseAddrPort(listener.Addr().String())
}
